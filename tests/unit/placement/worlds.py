"""Small clusters to place on."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.model.asks import Ask
from fairlead.model.policies import PACK, Policy
from fairlead.placement.table import AgentTable

GIB = 1 << 30


def cluster(*totals: Mapping[str, int], policy: Policy = PACK) -> AgentTable:
    """Open agents 1, 2, … with these totals."""
    table = AgentTable(policy)
    for number, total in enumerate(totals, 1):
        table.set_agent(number, total, {"name": f"a{number}"})
        table.set_open(number, True)
    return table


def asks(**amounts: int) -> Ask:
    """An ask for these amounts."""
    return Ask(tuple(sorted(amounts.items())))
