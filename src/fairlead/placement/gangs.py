"""All or none: several shapes placed together, or nothing changed."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.placement.place import place
from fairlead.placement.shapes import Interned
from fairlead.placement.table import AgentTable

Members = Sequence[tuple[Interned, int]]
Seats = list[list[tuple[int, int]]]


def place_gang(table: AgentTable, members: Members, now: int = 0) -> Seats | None:
    """Where each member's instances go, in the order of the members; None if not all of them fit."""
    seats: Seats = []
    for shape, count in members:
        found = place(table, shape, count, count, now=now)
        seats.append(found)
        if sum(many for _, many in found) < count:
            give_back(table, members, seats)
            return None
    return seats


def give_back(table: AgentTable, members: Members, seats: Seats) -> None:
    """Undo; the versions tell that rows were touched, not that room came: nothing fits that did not before."""
    version = table.room_version
    for (shape, _), found in zip(members, seats, strict=False):
        for number, many in found:
            table.give(shape, number, many)
    table.room_version = version
