"""`down`: end the site that `up` started. The folder stays; on a terminal it asks while work runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.ctl.client import Client
from fairlead.ctl.contexts import Site
from fairlead.ctl.failures import Failure
from fairlead.ctl.talk import Talk
from fairlead.programs.places import told_options
from fairlead.programs.up import end, processes


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of `fairlead down`."""

    dir: str
    yes: bool = False
    quiet: bool = False


def main(told: Mapping[str, Any]) -> int:
    """End it, if it runs."""
    options = told_options(Options, told)
    talk = Talk(options.quiet)
    folder = Path(options.dir)
    running = processes(folder.resolve())
    if not running:
        talk.say(f"nothing runs in {folder}")
        return 0
    if not options.yes and "server" in running and sys.stdin.isatty() and not _agreed(folder):
        return 1
    unfinished = _unfinished(folder) if "server" in running else 0
    end(folder)
    if unfinished:
        talk.say(f"{unfinished} running instances were ended; they are run again when the site is back")
    talk.say(f"stopped; {folder} stays, and `fairlead up` goes on from it")
    return 0


def _agreed(folder: Path) -> bool:
    """Ask, if anything runs."""
    unfinished = _unfinished(folder)
    if not unfinished:
        return True
    print(f"{unfinished} instances run and will be ended; go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _unfinished(folder: Path) -> int:
    """How many instances run; none, when the site does not say."""
    socket = folder.resolve() / "server" / "api.sock"
    try:
        status = Client(Site("local", f"unix://{socket}"), 2.0, Talk(quiet=True)).get("status")
    except Failure:
        return 0
    return int(status.get("unfinished", 0))
