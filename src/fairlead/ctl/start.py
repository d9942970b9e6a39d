"""The process of the command line: begun quickly, ended at once.

A command lives for a few hundredths of a second, so nothing is collected meanwhile and nothing is taken apart at
its end; that saves a fifth of its time. A program that stays (`up`, `server`, `agent`) runs and ends as any other.
"""

import gc
import os
import sys


def start() -> None:
    """Run the command line and leave with its code."""
    gc.disable()
    from .main import main

    code = main()
    if "fairlead.programs" in sys.modules:
        sys.exit(code)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)  # noqa: TID251 - nothing is open but what was flushed
