"""How many `true` a second go through a keeper, from the command to the end told, beside the bare rate.

    python bench/keeper_rate.py [--tasks 2000] [--width 64] [--rounds 3] [--without-groups]

`width` tasks are in the keeper's hands at once, as an agent with a backlog would have it; each end is
forgotten, and its place refilled, in the batch that answers it. The bare rate is measured in turn with it,
for the machine is never twice the same.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from bare_spawn import ENV, bare, rate

from fairlead.shell.machine.keeper_link import KeeperLink


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
        for n in range(rounds):
            plain = rate(tasks, 4, bare)
            kept = await through(link, Path(name), n * tasks, tasks, width)
            print(f"bare {plain:6.0f}/s  keeper {kept:6.0f}/s  {kept / plain:.0%}")
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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-groups", action="store_true")
    asked = parser.parse_args()
    asyncio.run(measure(asked.tasks, asked.width, asked.rounds, not asked.without_groups))


if __name__ == "__main__":
    main()
