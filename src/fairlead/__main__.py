"""`python -m fairlead`: the command line."""

from fairlead.ctl.start import start

if __name__ == "__main__":  # Not in the processes that it starts, which import this file as well.
    start()
