"""S12: a killed server is started again over work that is not over: from exec to its first order.

The first order leaves when the first placement of the new term is durable; its time stands in that segment.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from pathlib import Path

from bench.how import How
from bench.site import BenchSite, NotMeasured, site, until
from bench.table import Row, row

from fairlead.model.changes import Placed, decode

UNFINISHED = 100_000
ARRAY = 400_000
SLOTS = 1
WAIT_S = 120.0


def rows(how: How) -> list[Row]:
    """A thousand agents; ten thousand too when all of it is asked for."""
    return [one for agents in ((1_000, 10_000) if how.full else (1_000,)) for one in _restarts(agents, how)]


def _restarts(agents: int, how: How) -> list[Row]:
    took: list[float] = []
    empty: list[float] = []
    with site() as bare:
        for _ in range(how.runs):
            bare.kill()
            began = time.perf_counter()
            bare.serve()
            empty.append(time.perf_counter() - began)
    with site() as where:
        where.join(agents, SLOTS)
        for _ in range(how.runs):
            took.append(_first_order(where))
    what = f"{agents:,} hollow agents, over {UNFINISHED:,} unfinished: exec to first order"
    reference = ("start of an empty site until it answers", statistics.median(empty))
    return [row("S12", what, took, "s", "value <= 3", reference, command=how.command("S12"))]


def _first_order(where: BenchSite) -> float:
    """Kill it in the middle of an array, start it again, and look when it placed."""
    job = where.submit(ARRAY)
    until(lambda: where.client.get("jobs", job)["counts"].get("succeeded", 0) > ARRAY // 20)
    where.kill()
    last = max((part for part, _, _ in _placements(where.server)), default=0)
    began = time.time()
    where.serve()
    until(lambda: any(term > last for term, _, _ in _placements(where.server)), seconds=WAIT_S)
    at = min(at for term, at, _ in _placements(where.server) if term > last)
    left = ARRAY - where.client.get("jobs", job)["counts"].get("succeeded", 0)
    if left < UNFINISHED // 2:
        raise NotMeasured(f"only {left:,} of the array were left when the server came back")
    where.client.post("jobs", job, "cancel", body={})
    until(lambda: where.client.get("jobs", job)["ended"], seconds=WAIT_S)
    return at / 1000 - began


def _placements(server: Path) -> list[tuple[int, int, int]]:
    """Term, time and number of each segment that places something."""
    store = sqlite3.connect(f"file:{_database(server)}?mode=ro", uri=True)
    try:
        rows = store.execute("SELECT segment FROM segments ORDER BY n DESC LIMIT 200").fetchall()
    finally:
        store.close()
    parts = [decode(segment) for (segment,) in rows]
    return [(p.term, p.at, p.n) for p in parts if any(isinstance(change, Placed) for change in p.changes)]


def _database(server: Path) -> Path:
    found = sorted(path for path in server.glob("*.db") if path.is_file())
    if len(found) != 1:
        raise NotMeasured(f"the store is not where it was: {found}")
    return found[0]
