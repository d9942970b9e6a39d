"""S6: on an idle site, the time from the submit to the first byte of output, over a connection that is open.

The command is `echo`; the same command started and read through a pipe stands beside it, in turn.
"""

from __future__ import annotations

import os
import statistics
import time

from bench.how import How
from bench.site import BenchSite, NotMeasured, site
from bench.table import Row, row

from fairlead.ctl.client import Client
from fairlead.ctl.following import ERR, OUT, frames

COMMAND = ["echo", "x"]
WARM_UP = 10


def rows(how: How) -> list[Row]:
    """The middle, and what one of a hundred takes."""
    times = 300 if how.full else 100
    rounds: list[list[float]] = []
    bare: list[float] = []
    with site() as where:
        where.join(cpus=2, name="idle")
        for _ in range(WARM_UP):
            first_byte(where)
        for _ in range(how.runs):
            rounds.append(sorted(first_byte(where) for _ in range(times)))
            bare.append(statistics.median(through_pipe() for _ in range(times)))
    reference = ("the command through a pipe", statistics.median(bare))
    command = how.command("S6")
    what = f"submit to first byte, {times} times"
    return [
        row(
            "S6",
            f"{what}, {name}",
            [at(one, share) for one in rounds],
            "ms",
            goal,
            reference,
            command=command,
        )
        for name, share, goal in (("p50", 0.5, "value <= 8"), ("p99", 0.99, "value <= 25"))
    ]


def at(ordered: list[float], share: float) -> float:
    """The quantile."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def first_byte(where: BenchSite) -> float:
    """Milliseconds of one; the connection stays open for the next."""
    began = time.perf_counter()
    job = where.client.post("submissions", body={"jobs": [{"command": COMMAND}]})["jobs"][0]
    took = 0.0
    for kind, _payload in attached(where.client, job):
        if kind in (OUT, ERR) and not took:
            took = (time.perf_counter() - began) * 1000
    if not took:
        raise NotMeasured(f"{job} ended without output")
    return took


def attached(client: Client, job: str) -> list[tuple[int, bytes]] | object:
    """The frames of its first instance, to the end."""
    answer = client.stream("jobs", job, "instances", 0, "attach", out=0, err=0)
    return (piece for piece in frames(answer.chunks(30.0)) if piece is not None)


def through_pipe() -> float:
    """Milliseconds from the start of the same command to its first byte."""
    began = time.perf_counter()
    reading, writing = os.pipe()
    pid = os.posix_spawnp(COMMAND[0], COMMAND, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)])
    os.close(writing)
    os.read(reading, 1)
    took = (time.perf_counter() - began) * 1000
    os.close(reading)
    os.waitpid(pid, 0)
    return took
