"""Measures one commit in each store, beside a bare write + fdatasync of the same bytes on the same disk.

    python bench/store_commit.py [--seconds 3] [--folder DIR] [--etcd 1] [--etcd 3]

The disk decides these figures and flips between fast and slow: compare within one run only, by the ratio.
The folder must lie on a disk: a memory file system syncs nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import grpc  # noqa: E402
from tests.contracts.etcd_members import Etcd  # noqa: E402

from fairlead.model.storage import Campaign, Commit, Committed, Elected, Trim  # noqa: E402
from fairlead.shell.store.choose import Store, open_store  # noqa: E402

SIZES = [100, 10_000, 100_000, 1 << 20]
LEASE_MS = 3_600_000
"""Nobody renews here."""
LEAST = 20
"""Commits of a row: fewer tell nothing about a spread."""


async def timed(once: Callable[[int], Awaitable[None]], seconds: float) -> list[float]:
    """Milliseconds of each of a run of calls."""
    spent: list[float] = []
    end = time.perf_counter() + seconds
    while len(spent) < LEAST or time.perf_counter() < end:
        start = time.perf_counter()
        await once(len(spent) + 1)
        spent.append((time.perf_counter() - start) * 1000)
    return spent


async def bare(folder: Path, size: int, seconds: float) -> list[float]:
    """Append and sync, nothing else."""
    data = os.urandom(size)
    file = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    async def once(_: int) -> None:
        os.write(file, data)
        os.fdatasync(file)

    try:
        return await timed(once, seconds)
    finally:
        os.close(file)


async def commits(store: Store, size: int, seconds: float, head: int) -> tuple[list[float], int]:
    """Commits one after another, as a plane gives them; and the head after them."""
    data = os.urandom(size)

    async def once(n: int) -> None:
        answer = await store.perform(Commit(head + n, data))
        assert answer == Committed(head + n), answer

    spent = await timed(once, seconds)
    await store.perform(Trim(head + len(spent)))
    return spent, head + len(spent)


def row(name: str, size: int, spent: list[float], reference: float) -> float:
    """Print one line; the median is the reference for the next."""
    ordered = sorted(spent)
    middle = statistics.median(ordered)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    ratio = middle / (reference or middle)
    print(f"{name:<12} {size:>9,} {len(spent):>8,} {middle:>9.3f} {p99:>9.3f} {ratio:>8.2f}")
    return middle


async def measure(folder: Path, addresses: dict[str, str], seconds: float) -> None:
    """One table: each size bare, then in each store."""
    stores: dict[str, Store] = {}
    for name, address in addresses.items():
        store = await open_store(address)
        assert not hasattr(store, "code"), store
        stores[name] = store
        assert isinstance(await store.perform(Campaign("bench:1", LEASE_MS)), Elected)
    heads = dict.fromkeys(stores, 0)
    print(f"{'':<12} {'bytes':>9} {'commits':>8} {'p50 ms':>9} {'p99 ms':>9} {'x bare':>8}")
    for size in SIZES:
        reference = row("fdatasync", size, await bare(folder, size, seconds), 0)
        for name, store in stores.items():
            spent, heads[name] = await commits(store, size, seconds, heads[name])
            row(name, size, spent, reference)
    for store in stores.values():
        await store.close()


def main() -> None:
    """Start what was asked for, measure, and take it down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row")
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    parser.add_argument(
        "--etcd", type=int, action="append", default=[], help="also an etcd of so many members"
    )
    options = parser.parse_args()
    print(f"python {sys.version.split()[0]}, sqlite {sqlite3.sqlite_version}, grpcio {grpc.__version__}")
    if options.etcd:
        print(subprocess.check_output(["etcd", "--version"], text=True).splitlines()[0])
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        addresses = {"sqlite": str(folder / "sqlite")}
        running: list[Etcd] = []
        try:
            for count in options.etcd:
                etcd = Etcd(folder / f"etcd-{count}", count)
                running.append(etcd)
                etcd.start()
                addresses[f"etcd x {count}"] = "etcd://" + ",".join(etcd.endpoints)
            asyncio.run(measure(folder, addresses, options.seconds))
        finally:
            for etcd in running:
                etcd.stop()


if __name__ == "__main__":
    main()
