"""A lot with alternatives: what the first one cannot hold is tried with the next."""

from __future__ import annotations

from fairlead.model.asks import Ask
from fairlead.placement.place import place
from fairlead.placement.shapes import Interned
from fairlead.placement.table import AgentTable

Found = list[tuple[Interned, list[tuple[int, int]]]]


def place_any(table: AgentTable, ask: Ask, count: int, most_rows: int, now: int = 0) -> Found:
    """Up to `count` instances, by the alternative they took; room is given back by that one."""
    found: Found = []
    for shape in table.options(ask):
        placed = place(table, shape, count, most_rows, now=now) if count and most_rows > 0 else []
        if placed:
            found.append((shape, placed))
            count -= sum(many for _, many in placed)
            most_rows -= len(placed)
    return found
