"""HyperQueue's own cases: with its policy, as much CPU goes to each priority as there.

Its policy in our words: the freest worker first; a task that cannot start keeps a worker.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fairlead.model.asks import Ask
from fairlead.model.policies import Policy
from fairlead.placement.kept_room import KeptRoom
from fairlead.placement.shapes import Interned
from fairlead.placement.table import AgentTable

FILE = Path(__file__).parent.parent / "data" / "vectors" / "hq_vectors.json"
FREEST = Policy("freest", score="free.cpu")
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]


def cpus(table: AgentTable, count: int) -> Interned:
    return table.intern(Ask((("cpu", count),)))


def placed(case: dict[str, Any]) -> dict[str, int]:
    """How much CPU each priority got."""
    table = AgentTable(FREEST)
    running: dict[int, list[Interned]] = {}
    for number, worker in enumerate(case["workers"], 1):
        table.set_agent(number, {"cpu": worker["cpus"]}, {})
        table.set_open(number, True)
        running[number] = [cpus(table, count) for count in worker["running"]]
        for shape in running[number]:
            table.take(shape, number, 1)
    kept = KeptRoom(table)
    found: Counter[str] = Counter()
    for task in sorted(case["tasks"], key=lambda task: -task["priority"]):
        shape = cpus(table, task["cpus"])
        places = kept.place(shape, 1, 1)
        for number, _ in places:
            running[number].append(shape)
            found[str(task["priority"])] += task["cpus"]
        if not places:
            kept.keep(shape, running)
    return dict(found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['test']}-{case['case']}")
def test_every_priority_gets_as_much(case: dict[str, Any]) -> None:
    assert placed(case) == case["cpus_placed_by_priority"]
