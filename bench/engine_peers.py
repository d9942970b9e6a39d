"""S2: the engine alone on the cases of kube-scheduler's own performance tests, 5,000 agents, one core.

Their thresholds are what their CI demands of the whole scheduler with its API server in the process, in pods a
second; ours counts decisions of the engine, each a lot of one, in seconds of CPU time. Not the same thing:
the factor says how much room the engine leaves, not that we are so much faster.

Run: python -m bench.engine_peers
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable

import numpy as np

from fairlead.model.asks import Ask, Neighbours, Spread
from fairlead.model.policies import SPREAD
from fairlead.placement.place import place
from fairlead.placement.preempt import Reclaimable, Runs, choose_victims
from fairlead.placement.table import AgentTable, Interned

MIB = 1 << 20
GIB = 1 << 30
AGENTS = 5000
POD = (("cpu", 100), ("memory", 500 * MIB), ("pods", 1))
# Ordinary pods a preemptor comes among, at the thresholds' pace: 570 a second, 5 preemptors.
PER_PREEMPTOR = 114


def cluster(zones: int) -> AgentTable:
    """Their node template: 4 cores, 32 GiB, 110 pods."""
    table = AgentTable(SPREAD)
    for number in range(1, AGENTS + 1):
        labels = {"zone": f"moon-{number % zones}", "name": f"node-{number}"}
        table.set_agent(number, {"cpu": 4000, "memory": 32 * GIB, "pods": 110}, labels)
        table.set_open(number, True)
    return table


def timed(work: Callable[[], int]) -> float:
    """What it did, a second of CPU time."""
    began = time.process_time()
    done = work()
    return done / (time.process_time() - began)


def one_by_one(table: AgentTable, shape: Interned, count: int) -> int:
    """Lots of one; those that found a place."""
    return sum(bool(place(table, shape, 1, 1)) for _ in range(count))


def case(ask: Ask, before: int, measured: int, zones: int = 1, first: Ask | None = None) -> float:
    """Decisions a second after so many were placed."""
    table = cluster(zones)
    one_by_one(table, table.intern(first or ask), before)
    shape = table.intern(ask)
    return timed(lambda: one_by_one(table, shape, measured))


class Crowded:
    """20,000 instances of low priority, four on every agent."""

    def __init__(self) -> None:
        self.table = cluster(1)
        self.held = Reclaimable(self.table)
        self.low = self.table.intern(Ask((("cpu", 900), ("memory", 500 * MIB), ("pods", 1))))
        self.high = self.table.intern(Ask((("cpu", 3000), ("memory", 500 * MIB), ("pods", 1))))
        self.key = 0
        for number in range(1, AGENTS + 1):
            for _ in range(4):
                self.start(self.low, number, 10)

    def start(self, shape: Interned, number: int, priority: int) -> None:
        self.key += 1
        self.table.take(shape, number, 1)
        self.held.start(number, Runs(self.key, shape, priority, self.key))

    def preempt(self) -> bool:
        """One preemptor takes the place of whom it harms least."""
        choice = choose_victims(self.held, self.high, 100, self.key)
        if choice is None:
            return False
        for run in choice.victims:
            self.held.end(choice.agent, run.key)
            self.table.give(run.shape, choice.agent, 1)
        self.start(self.high, choice.agent, 100)
        return True

    def ordinary(self, count: int) -> int:
        """Ordinary pods, with a preemptor among them now and then."""
        shape = self.table.intern(Ask(POD))
        done = 0
        for at in range(count):
            done += bool(place(self.table, shape, 1, 1))
            if at % PER_PREEMPTOR == 0:
                self.preempt()
        return done


def rows() -> list[tuple[str, float, int, int]]:
    """Case, rate, their threshold, the factor that is aimed at."""
    blue, green = (("color", "blue"),), (("color", "green"),)
    node = Ask(POD, where=("zone in (moon-0, moon-9)",))
    near = Ask(POD, labels=blue, near=(Neighbours("color == blue", "zone"),))
    apart = Ask(POD, labels=green, apart=(Neighbours("color == green", "name"),))
    host = Ask(POD, labels=green, apart=(Neighbours("color == green"),))
    spread = Ask(POD, labels=blue, spread=(Spread("zone", "color == blue", 5),))
    crowded = Crowded()
    preempting = Crowded()
    return [
        ("basic", case(Ask(POD), 5000, 10_000), 790, 50),
        ("node affinity", case(node, 5000, 10_000), 540, 50),
        ("pod affinity, zone", case(near, 5000, 5000), 70, 50),
        ("pod anti-affinity, a label of each agent", case(apart, 1000, 2000), 180, 50),
        ("pod anti-affinity, host", case(host, 1000, 2000), 180, 50),
        ("topology spread, 3 zones", case(spread, 5000, 5000, zones=3), 460, 20),
        ("ordinary while 5/s preempt", timed(lambda: crowded.ordinary(5000)), 570, 20),
        ("decisions that preempt", timed(lambda: sum(preempting.preempt() for _ in range(2000))), 0, 10_000),
    ]


def main() -> None:
    """Print the table."""
    print(f"# Python {platform.python_version()}, numpy {np.__version__}; decisions a second of CPU time")
    for name, rate, threshold, aim in rows():
        if threshold:
            print(
                f"{name:42} {rate:9.0f}/s   theirs ≥ {threshold}/s   × {rate / threshold:6.0f} (aim × {aim})"
            )
        else:
            print(f"{name:42} {rate:9.0f}/s   aim ≥ {aim}/s")


if __name__ == "__main__":
    main()
