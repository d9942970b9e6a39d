"""S3: instances a second over the whole path: REST, durable store, gRPC with mutual TLS, agents that end at once.

Twenty hollow agents of 32 slots each, in one process, as the bare skeleton has them; its runs and ours take turns.
"""

from __future__ import annotations

import statistics

from bench.how import How
from bench.peers.environments import NAMES, rates
from bench.site import BenchSite, script, site
from bench.table import Row, row, versions

AGENTS, SLOTS = 20, 32
WARM_UP = 20_000


def size(how: How) -> int:
    """Instances of the array."""
    return 200_000 if how.full else 100_000


def what(how: How) -> str:
    """As the row says it."""
    return f"array of {size(how):,}, {AGENTS} hollow agents of {SLOTS} slots"


def in_turn(where: BenchSite, how: How) -> tuple[list[float], list[float]]:
    """Ours and the bare skeleton's, one after the other."""
    where.join(AGENTS, SLOTS)
    where.array(WARM_UP)
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(how.runs):
        bare.append(bare_rate(size(how)))
        ours.append(where.array(size(how)))
    return ours, bare


def bare_rate(instances: int) -> float:
    """The same without a model, TLS or API."""
    shape = ("--agents", str(AGENTS), "--slots", str(SLOTS), "--runs", "1")
    return float(script("bare.py", "--instances", str(instances), *shape)["value"])


def rows(how: How) -> list[Row]:
    """Against the skeleton, and against each peer."""
    with site() as where:
        ours, bare = in_turn(where, how)
    reference = ("bare skeleton", statistics.median(bare))
    note = f"the goal is 50,000/s; skeleton {min(bare):,.0f}..{max(bare):,.0f}"
    goal = "value >= 20000 and ratio >= 0.2"
    command = how.command("S3")
    return [
        row("S3", what(how), ours, "instances/s", goal, reference, command=command, note=note),
        *(_beside(peer, ours, how) for peer in (NAMES if how.peers else ())),
    ]


def _beside(peer: str, ours: list[float], how: How) -> Row:
    assert how.peers is not None
    theirs = rates(peer, how.peers, how.runs)
    tasks = theirs.nothing or theirs.process
    kind = "tasks that do nothing" if theirs.nothing else "processes of `true`; it has no lighter tasks"
    return row(
        "S3",
        f"the same, beside {NAMES[peer]}",
        ours,
        "instances/s",
        "ratio >= 20",
        (NAMES[peer], statistics.median(tasks)),
        command=how.command("S3"),
        note=f"theirs: {kind}, {min(tasks):,.0f}..{max(tasks):,.0f}",
        versions={**versions(), **theirs.versions},
    )
