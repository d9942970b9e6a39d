"""How many `true` a second go through a keeper, from the command to the end told, beside the bare rate.

    python bench/keeper_rate.py [--tasks 2000] [--width 64] [--rounds 3] [--without-groups]

`width` tasks are in the keeper's hands at once, as an agent with a backlog would have it; each end is
forgotten, and its place refilled, in the batch that answers it. Measured in turn with it, for the machine is
never twice the same: `bare`, spawn and wait alone, and `groups`, the same in pooled control groups. The last
line has the medians of the two ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

from bare_spawn import ENV, bare, grouped, rate

from fairlead.shell.machine import cgroups
from fairlead.shell.machine.keeper_link import KeeperLink

# How many run at once where nothing but this process starts them: enough to fill two cores.
WIDTH = 4


def spawn(folder: Path, number: int) -> dict[str, Any]:
    return {
        "type": "spawn",
        "key": f"bench.{number}.1.1",
        "argv": ["true"],
        "cwd": "/",
        "env": ENV,
        "out": str(folder / "out"),
        "err": None,
        "meta": {"spec": "0123456789abcdef", "index": number},
    }


async def through(link: KeeperLink, folder: Path, first: int, tasks: int, width: int) -> float:
    began = time.perf_counter()
    sent, ended = min(width, tasks), 0
    link.send([spawn(folder, first + n) for n in range(sent)])
    while ended < tasks:
        batch = [event["key"] for event in await link.events() if event["type"] == "ended"]
        ended += len(batch)
        more = range(sent, min(tasks, sent + len(batch)))
        sent += len(more)
        forgets = [{"type": "forget", "key": key} for key in batch]
        link.send(forgets + [spawn(folder, first + n) for n in more])
    return tasks / (time.perf_counter() - began)


async def measure(tasks: int, width: int, rounds: int, groups: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        link = KeeperLink(name, groups)
        await link.connect()
        listed = (await link.events())[0]
        print(f"groups: {listed['cgroups'] or 'none'}")
        pool = cgroups.Pool(f"fairlead-bench-{os.getpid()}", groups)
        slots = deque(cgroups.Slot(pool, f"s{n}") for n in range(WIDTH + 1 if pool.bases else 0))
        ratios: list[tuple[float, float]] = []
        for n in range(rounds):
            plain = rate(tasks, WIDTH, bare)
            inside = rate(tasks, WIDTH, lambda: grouped(slots)) if slots else plain
            kept = await through(link, Path(name), n * tasks, tasks, width)
            ratios.append((kept / plain, kept / inside))
            print(f"bare {plain:6.0f}/s  groups {inside:6.0f}/s  keeper {kept:6.0f}/s")
        of_bare, of_groups = (statistics.median(ratio) for ratio in zip(*ratios, strict=True))
        print(f"keeper: {of_bare:.0%} of bare, {of_groups:.0%} of bare in groups")
        cgroups.destroy(pool.folders())
        link.send([{"type": "leave", "keep": False}])
        try:
            while True:
                await link.events()
        except ConnectionError:
            await link.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without-groups", action="store_true")
    asked = parser.parse_args()
    asyncio.run(measure(asked.tasks, asked.width, asked.rounds, not asked.without_groups))


if __name__ == "__main__":
    main()
