"""How fast this machine starts `true` and waits for it, with nothing in between: the mark for the keeper.

    python bench/bare_spawn.py [--tasks 2000] [--width 4] [--rounds 3]

`bare` is posix_spawn and wait; `session` starts as the keeper does (its own session, three files); `groups`
also enters a pooled control group before each start and leaves it after. Up to `width` run at once.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import deque
from collections.abc import Callable

from fairlead.shell.machine import cgroups, children

ENV = {"PATH": "/usr/bin:/bin"}


def rate(tasks: int, width: int, start: Callable[[], object]) -> float:
    """Starts a second, each waited for."""
    began = time.perf_counter()
    for n in range(tasks):
        if n >= width:
            os.waitpid(-1, 0)
        start()
    for _ in range(min(width, tasks)):
        os.waitpid(-1, 0)
    return tasks / (time.perf_counter() - began)


def bare() -> None:
    os.posix_spawn("/usr/bin/true", ["true"], ENV)


def session() -> None:
    children.spawn(["true"], "/", ENV, None, None, None)


def grouped(slots: deque[cgroups.Slot]) -> None:
    slot = slots[0]
    slots.rotate()
    slot.enter()
    session()
    slot.leave()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    pool = cgroups.Pool(f"fairlead-bench-{os.getpid()}")
    print(f"groups: {pool.facts() or 'none here'}")
    slots = deque(cgroups.Slot(pool, f"s{n}") for n in range(asked.width + 1 if pool.bases else 0))
    ways: dict[str, Callable[[], object]] = {"bare": bare, "session": session}
    if slots:
        ways["groups"] = lambda: grouped(slots)
    for _ in range(asked.rounds):
        print("  ".join(f"{name} {rate(asked.tasks, asked.width, way):6.0f}/s" for name, way in ways.items()))
    cgroups.destroy(pool.folders())


if __name__ == "__main__":
    main()
