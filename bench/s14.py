"""S14: what S3 costs as more waits: the rate of arrays of 1,000 to 1,000,000 on one site, largest last.

The span from 'created' to 'ended' is the server's own record of the job: at 1,000 instances the reader's own
look, at most twenty times a second, would be most of what is measured.
"""

from __future__ import annotations

import statistics

from bench import s3
from bench.how import How
from bench.site import BenchSite, site
from bench.table import Row, row

SIZES = (1_000, 10_000, 100_000, 1_000_000)
LEAST = 100_000
"""Instances that a repetition of a size has at least, in arrays one after the other."""


def rows(how: How) -> list[Row]:
    """Each size against 10,000."""
    sizes = SIZES if how.full else SIZES[:-1]
    found: dict[int, list[float]] = {size: [] for size in sizes}
    with site() as where:
        where.join(s3.AGENTS, s3.SLOTS)
        where.array(s3.WARM_UP)
        for run in range(how.runs):
            for size in sizes:
                if size < SIZES[-1] or run < 3:
                    found[size].append(_rate(where, size))
    reference = ("at 10,000", statistics.median(found[10_000]))
    command = how.command("S14")
    return [
        row("S14", f"array of {size:,}", rates, "instances/s", "ratio >= 0.5", reference, command=command)
        for size, rates in found.items()
    ]


def _rate(where: BenchSite, size: int) -> float:
    """Instances a second of arrays of this size."""
    spent = 0
    arrays = max(1, min(LEAST // size, 20))
    for _ in range(arrays):
        item = where.ended(where.submit(size))
        spent += item["ended"] - item["created"]
    return arrays * size / max(spent, 1) * 1000
