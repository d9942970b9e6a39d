"""S11: an array of a million that waits: how soon its submit is answered, and what it costs the server's memory."""

from __future__ import annotations

import statistics
import time

from bench.how import How
from bench.site import BenchSite, site, until
from bench.table import Row, row

COUNT = 1_000_000
# What the columns of one instance take once it has left `waiting`.
PAGE_ROW = 24


def rows(how: How) -> list[Row]:
    """Each array waits, is measured, and is cancelled."""
    answers: list[float] = []
    looks: list[float] = []
    sizes: list[float] = []
    with site() as where:
        where.submit(1000)
        for _ in range(how.runs):
            before = where.control().memory_info().rss
            began = time.perf_counter()
            job = where.submit(COUNT)
            answered = time.perf_counter()
            where.client.get("status")
            looks.append(time.perf_counter() - answered)
            answers.append(answered - began)
            sizes.append(max(where.control().memory_info().rss - before, 0) / COUNT)
            _cancel(where, job)
    command = how.command("S11")
    quick = ("an answer to a look", statistics.median(looks))
    return [
        row(
            "S11", f"submit of {COUNT:,}, until answered", answers, "s", "value <= 1", quick, command=command
        ),
        row(
            "S11",
            f"memory for each of {COUNT:,} that wait",
            sizes,
            "bytes",
            "value <= 64",
            ("bytes of its columns once it ran", PAGE_ROW),
            command=command,
        ),
    ]


def _cancel(where: BenchSite, job: str) -> None:
    where.client.post("jobs", job, "cancel", body={})
    until(lambda: where.client.get("jobs", job)["ended"])
