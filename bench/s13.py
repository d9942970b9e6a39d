"""S13: three servers on an etcd of three, the leader killed: from the last order of the old to the first of the new.

Both stand in the log: the times of the last placement of the old term and of the first of the new one. An order
leaves as soon as its placement is durable.
"""

from __future__ import annotations

import asyncio
import signal
import statistics
import subprocess
import tempfile

from bench.how import How
from bench.s8 import etcd, etcd_version
from bench.site import BenchSite, NotMeasured, site, until
from bench.table import Row, row, versions

from fairlead.model.changes import Placed, decode
from fairlead.model.errors import Problem
from fairlead.model.limits import Settings
from fairlead.model.storage import Campaign, Follower, Load, Loaded
from fairlead.shell.store.choose import open_store

NAMES = ("server", "second", "third")
ARRAY = 5_000_000
WAIT_S = 60.0

Servers = dict[str, subprocess.Popen[bytes]]


def rows(how: How) -> list[Row]:
    """So many leaders killed, one after the other; each comes back before the next dies."""
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-bench-blobs-") as blobs,
        etcd(3) as address,
        site("--store", address, "--blobs", blobs) as where,
    ):
        assert where.serving is not None
        servers: Servers = {"server": where.serving}
        for name in NAMES[1:]:
            joining = ("--join", where.told()["http"], "--token", where.token("server"))
            servers[name] = where.serve(name, *joining)
        where.join(8, 4)
        where.submit(ARRAY)
        gaps = [_kill_leader(where, address, servers) for _ in range(how.runs)]
    known = {**versions(), "etcd": etcd_version()}
    return [
        row(
            "S13",
            "3 servers, etcd of 3, the leader killed: longest time without orders",
            gaps,
            "s",
            "ratio <= 2",
            ("the lease", Settings().leader_ms / 1000),
            command=how.command("S13"),
            versions=known,
            pick=max,
            note=f"the median is {statistics.median(gaps):.3g} s",
        )
    ]


def _kill_leader(where: BenchSite, address: str, servers: Servers) -> float:
    """Seconds without orders; the killed one is back afterwards."""
    leader = asyncio.run(_leader(address))
    name = next(name for name in servers if where.told(name)["control"] == leader)
    until(lambda: _placements(address), seconds=WAIT_S)
    servers[name].send_signal(signal.SIGKILL)
    servers[name].wait()
    before = _placements(address)
    term = max(before)
    until(lambda: max(_placements(address)) > term, seconds=WAIT_S)
    after = _placements(address)
    servers[name] = where.serve(name)
    return (after[min(each for each in after if each > term)][0] - after.get(term, before[term])[1]) / 1000


async def _leader(address: str) -> str:
    """Whoever leads says so to who would like to."""
    store = await open_store(address)
    if isinstance(store, Problem):
        raise NotMeasured(store.message)
    try:
        answer = await store.perform(Campaign("nobody", 1000))
    finally:
        await store.close()
    if not isinstance(answer, Follower):
        raise NotMeasured("nobody leads")
    return answer.leader


def _placements(address: str) -> dict[int, tuple[int, int]]:
    """The times of the first and the last placement of each term that is in the log."""
    found: dict[int, tuple[int, int]] = {}
    for segment in asyncio.run(_segments(address)):
        part = decode(segment)
        if any(isinstance(change, Placed) for change in part.changes):
            first, last = found.get(part.term, (part.at, part.at))
            found[part.term] = (min(first, part.at), max(last, part.at))
    return found


async def _segments(address: str) -> list[bytes]:
    store = await open_store(address)
    if isinstance(store, Problem):
        raise NotMeasured(store.message)
    try:
        answer = await store.perform(Load())
    finally:
        await store.close()
    return [segment for _, segment in answer.segments] if isinstance(answer, Loaded) else []
