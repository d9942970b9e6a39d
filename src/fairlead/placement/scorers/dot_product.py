"""Dot product: away from agents whose free room points the same way as what is asked."""

from __future__ import annotations

from fairlead.placement.scorers.row import POINT, Asked, Row, Site


def dot_product(row: Row, asked: Asked, site: Site) -> int:
    """Whole points, as published."""
    cpu = row.cpu / site.largest_cpu * (asked.cpu / site.largest_cpu)
    gpu = sum(row.gpus) / site.largest_gpu * (asked.gpu / site.largest_gpu)
    return int((1.0 - (cpu + gpu) / 2) * 100) * POINT
