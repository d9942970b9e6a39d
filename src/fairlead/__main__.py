"""`python -m fairlead`: the command line."""

from fairlead.ctl.start import start

start()
