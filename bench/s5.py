"""S5: processes of `true` a second over the whole path, one agent of two slots, beside a bare loop.

The bare loop starts and waits for the same processes, two at once, in the same pooled control groups where the
machine has them. The agent has no backlog: each end makes a round trip before the next start.
"""

from __future__ import annotations

import os
import statistics
from collections import deque

from bench import bare_spawn
from bench.how import How
from bench.peers.environments import NAMES, rates
from bench.site import site
from bench.table import Row, row, versions

from fairlead.shell.machine import cgroups

SLOTS = 2


def rows(how: How) -> list[Row]:
    """Ours, the loop and the loop in groups, in turn."""
    tasks = 3000 if how.full else 500
    ours: list[float] = []
    loops: dict[str, list[float]] = {"bare": [], "groups": []}
    with site() as where, Groups() as groups:
        where.join(cpus=SLOTS, name="two")
        where.array(100)
        for _ in range(how.runs):
            loops["bare"].append(bare_spawn.rate(tasks, SLOTS, bare_spawn.bare))
            loops["groups"].append(bare_spawn.rate(tasks, SLOTS, groups.start))
            ours.append(where.array(tasks))
    what = f"{tasks:,} x `true`, one agent of {SLOTS} slots, no backlog"
    command = how.command("S5")
    against = (
        ("groups", f"bare loop {groups.said}", "ratio >= 0.65"),
        ("bare", "bare loop, no groups", ""),
    )
    return [
        *(
            row(
                "S5", what, ours, "processes/s", goal, (name, statistics.median(loops[kind])), command=command
            )
            for kind, name, goal in against
        ),
        *(_beside(peer, what, ours, how) for peer in (NAMES if how.peers else ())),
    ]


def _beside(peer: str, what: str, ours: list[float], how: How) -> Row:
    assert how.peers is not None
    theirs = rates(peer, how.peers, how.runs)
    return row(
        "S5",
        f"the same, beside {NAMES[peer]}",
        ours,
        "processes/s",
        "ratio >= 1",
        (NAMES[peer], statistics.median(theirs.process)),
        command=how.command("S5"),
        note=f"theirs {min(theirs.process):,.0f}..{max(theirs.process):,.0f}",
        versions={**versions(), **theirs.versions},
    )


class Groups:
    """A loop's own pooled groups, made before and gone after."""

    def __enter__(self) -> Groups:
        self._pool = cgroups.Pool(f"fairlead-bench-{os.getpid()}")
        many = SLOTS + 1 if self._pool.bases else 0
        self._slots = deque(cgroups.Slot(self._pool, f"s{n}") for n in range(many))
        self.said = "in the same groups" if many else "as the keeper starts them"
        return self

    def start(self) -> None:
        """One process, in the next group where there are any."""
        if self._slots:
            bare_spawn.grouped(self._slots)
        else:
            bare_spawn.session()

    def __exit__(self, *_: object) -> None:
        cgroups.destroy(self._pool.folders())
