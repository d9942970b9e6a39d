"""S1 and S14: instances placed a second of CPU time by the engine alone, one core.

For every placed instance one ends on a random agent, so the cluster stays as full as it is. Shapes take turns,
which is what sets the speed. Run: python -m bench.engine_speed [--agents N] [--seconds S] [-o json]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time

import numpy as np

from fairlead.base.dice import Dice
from fairlead.model.asks import Ask
from fairlead.model.policies import PACK, SPREAD, Policy
from fairlead.placement.place import place
from fairlead.placement.table import AgentTable

GIB = 1 << 30
ZONES = 10


def filled(agents: int, policy: Policy) -> AgentTable:
    """Agents of three sizes in ten zones."""
    table = AgentTable(policy)
    for number in range(1, agents + 1):
        size = 1 + number % 3
        totals = {"cpu": 32_000 * size, "memory": 128 * GIB * size, "slots": 110}
        table.set_agent(number, totals, {"zone": f"z{number % ZONES}", "disk": ("ssd", "hdd")[number % 2]})
        table.set_open(number, True)
    return table


def shapes_of(table: AgentTable, count: int) -> list[object]:
    """Shapes that differ in amounts; a third of them want a kind of disk."""
    found = []
    for at in range(count):
        amounts = (("cpu", 100 + 50 * (at % 37)), ("memory", GIB // 4 + at * (1 << 20)), ("slots", 1))
        found.append(table.intern(Ask(amounts, where=("disk == ssd",) if at % 3 == 0 else ())))
    return found


def measure(
    agents: int, policy: Policy, shapes: int, mean: int, releases: bool, seconds: float, seed: int = 1
) -> float:
    """Instances placed a second."""
    table, dice = filled(agents, policy), Dice(seed)
    kinds = shapes_of(table, shapes)
    running: list[tuple[object, int]] = []
    # A cluster at work: some of everything runs already.
    for at in range(min(agents * 6, 60_000)):
        kind = kinds[at % shapes]
        for number, many in place(table, kind, 1, 512):  # type: ignore[arg-type]
            running += [(kind, number)] * many
    sizes = [1 if mean == 1 else dice.between(1, 2 * mean - 1) for _ in range(4096)]
    order = [dice.below(1 << 30) for _ in range(1 << 15)]
    placed, lot, drawn = 0, 0, 0
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        for _ in range(50):
            kind = kinds[lot % shapes]
            lot += 1
            for number, many in place(table, kind, sizes[lot % 4096], 512):  # type: ignore[arg-type]
                placed += many
                if releases:
                    running += [(kind, number)] * many
                    for _ in range(many):
                        at = order[drawn % len(order)] % len(running)
                        drawn += 1
                        last = running.pop()
                        if at < len(running):
                            running[at], last = last, running[at]
                        table.give(last[0], last[1], 1)  # type: ignore[arg-type]
        if not releases and table.free[0][: len(table)].sum() * 4 < table.total[0][: len(table)].sum():
            break
    return placed / (time.process_time() - begin)


def rows(agents: int, seconds: float, full: bool, repeats: int) -> list[dict[str, object]]:
    """One row a cell."""
    found = []
    for policy in (PACK, SPREAD):
        for shapes in (1, 20, 100, 500) if full else (100,):
            for mean in (1, 10, 100) if full else (1, 10):
                for releases in (False, True) if full else (True,):
                    rates = [
                        measure(agents, policy, shapes, mean, releases, seconds, seed)
                        for seed in range(1, repeats + 1)
                    ]
                    found.append(
                        {
                            "id": "S1", "policy": policy.name, "agents": agents, "shapes": shapes, "mean": mean,
                            "releases": releases, "value": round(statistics.median(rates)),
                            "spread": [round(min(rates)), round(max(rates))], "unit": "instances/s",
                        }
                    )  # fmt: skip
                    print(json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, nargs="*", default=[10_000])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--full", action="store_true")
    given = parser.parse_args()
    print(f"# Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    for agents in given.agents:
        rows(agents, given.seconds, given.full, given.repeats)


if __name__ == "__main__":
    main()
