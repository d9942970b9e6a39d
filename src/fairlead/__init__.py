"""Fairlead: a cluster scheduler."""
