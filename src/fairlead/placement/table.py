"""The agents as the engine sees them: one column per resource, one row per agent.

Decides nothing; keeps what is free. A row exists only in here: elsewhere an agent is its number. Amounts
are exact integers. A shape is interned once; the rows whose labels meet its rules are remembered until a
label changes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fairlead.model.rules import Rule, matches, parse_rule
from fairlead.model.wall import Shape

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
FIRST_ROWS = 16


class Interned:
    """A shape as columns and amounts, with the rows that its rules admit."""

    __slots__ = ("amounts", "columns", "labels_version", "meets", "rules", "shape")

    def __init__(self, shape: Shape, columns: list[int]) -> None:
        self.shape = shape
        self.columns = columns
        self.amounts = [amount for _, amount in shape.ask]
        parsed = [parse_rule(text) for text in shape.where]
        # What the door lets in was parsed there; a rule this release cannot read admits nobody.
        self.rules: list[Rule] | None = [rule for rule in parsed if isinstance(rule, Rule)]
        if len(self.rules) != len(parsed):
            self.rules = None
        self.meets: Mask = np.zeros(0, np.bool_)
        self.labels_version = -1


class AgentTable:
    """Free and total amounts, openness and labels of every known agent."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.rows: dict[int, int] = {}
        self.labels: list[Mapping[str, str]] = []
        self.resources: dict[str, int] = {}
        self.total: list[Ints] = []
        self.free: list[Ints] = []
        # Takes new work: in contact, wanted open, fit.
        self.open: Mask = np.zeros(FIRST_ROWS, np.bool_)
        self.labels_version = 0
        # Counts what may make a blocked shape fit: room given back, an agent opened.
        self.room_version = 0
        self._shapes: dict[Shape, Interned] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def set_agent(self, number: int, totals: Mapping[str, int], labels: Mapping[str, str]) -> None:
        """A new agent, or one that came back with other totals; what it holds stays counted."""
        row = self._row(number)
        for name in totals:
            self._column(name)
        for name, column in self.resources.items():
            held = int(self.total[column][row] - self.free[column][row])
            self.total[column][row] = totals.get(name, 0)
            self.free[column][row] = totals.get(name, 0) - held
        if self.labels[row] != labels:
            self.labels[row] = dict(labels)
            self.labels_version += 1
        self.room_version += 1

    def set_open(self, number: int, is_open: bool) -> None:
        """Whether an agent takes new work."""
        row = self._row(number)
        if self.open[row] != is_open:
            self.open[row] = is_open
            self.room_version += 1

    def intern(self, shape: Shape) -> Interned:
        """The shape in the table's own terms."""
        known = self._shapes.get(shape)
        if known is None:
            known = Interned(shape, [self._column(name) for name, _ in shape.ask])
            self._shapes[shape] = known
        return known

    def meets(self, shape: Interned) -> Mask:
        """Rows whose labels meet the shape's rules."""
        if shape.labels_version != self.labels_version or len(shape.meets) != len(self):
            rules = shape.rules
            shape.meets = np.fromiter(
                (
                    rules is not None and all(matches(rule, labels) for rule in rules)
                    for labels in self.labels
                ),
                np.bool_,
                len(self),
            )
            shape.labels_version = self.labels_version
        return shape.meets

    def take(self, shape: Interned, number: int, count: int) -> None:
        """Room for so many instances is used; an agent yet unknown to the table owes it."""
        row = self._row(number)
        for column, amount in zip(shape.columns, shape.amounts, strict=True):
            self.free[column][row] -= amount * count

    def give(self, shape: Interned, number: int, count: int) -> None:
        """Room for so many instances is free again."""
        self.take(shape, number, -count)
        self.room_version += 1

    def _row(self, number: int) -> int:
        row = self.rows.get(number)
        if row is None:
            row = self.rows[number] = len(self.numbers)
            self.numbers.append(number)
            self.labels.append({})
            self.labels_version += 1
            if row >= len(self.open):
                self._grow()
        return row

    def _column(self, name: str) -> int:
        column = self.resources.get(name)
        if column is None:
            column = self.resources[name] = len(self.total)
            self.total.append(np.zeros(len(self.open), np.int64))
            self.free.append(np.zeros(len(self.open), np.int64))
        return column

    def _grow(self) -> None:
        more = len(self.open)
        self.open = np.concatenate([self.open, np.zeros(more, np.bool_)])
        self.total = [np.concatenate([column, np.zeros(more, np.int64)]) for column in self.total]
        self.free = [np.concatenate([column, np.zeros(more, np.int64)]) for column in self.free]
