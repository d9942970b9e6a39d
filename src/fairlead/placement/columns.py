"""One score per row for each shape, patched for the rows that were touched since it was last looked at.

The lowest score is the best row, the lowest row among equals; at or above `LIMIT` a row takes nothing. A
full column costs some fifty microseconds at 10,000 rows, a patch some ten: how many shapes take turns sets
the engine's speed, not how many rows there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fairlead.model.expressions import Arithmetic, compute
from fairlead.placement.devices import DEVICE, WHOLE
from fairlead.placement.groups import by_host
from fairlead.placement.scale import FULL, LIMIT, OUT, Ints, Scores
from fairlead.placement.shapes import Interned

if TYPE_CHECKING:
    from fairlead.placement.table import AgentTable

# Columns that were not looked at for long are dropped beyond this.
MOST_BYTES = 256 << 20
# Fewer touched rows than this are patched with their repeats.
FEW = 64
# What a formula may add or take at most.
LARGEST_SCORE = 1 << 26
# Larger amounts are scaled down before they are multiplied, so that 64 bits suffice.
LARGEST_EXACT = 40


def _divide(left: Ints, right: Ints) -> Ints:
    quotient: Ints = np.where(right == 0, 0, left // np.where(right == 0, 1, right))
    return quotient


def _remainder(left: Ints, right: Ints) -> Ints:
    rest: Ints = np.where(right == 0, 0, left % np.where(right == 0, 1, right))
    return rest


COLUMNS = Arithmetic(_divide, _remainder, np.minimum, np.maximum)


class Need(NamedTuple):
    """What a row must have of a column for one instance."""

    column: Ints
    amount: int


class Column:
    """The scores of one shape."""

    __slots__ = (
        "alone",
        "by_domain",
        "carried",
        "epoch",
        "needs",
        "offset",
        "position",
        "score",
        "shape",
        "table",
    )

    def __init__(self, table: AgentTable, shape: Interned) -> None:
        self.table = table
        self.shape = shape
        self.epoch = -1
        self.carried = -1
        self.position = 0
        self.needs: list[Need] = []
        # What the shape adds to a row's base; OUT where it can never run as labels and totals are.
        self.offset: Scores = np.zeros(0, np.int32)
        self.score: Scores = np.zeros(0, np.int32)
        # An instance keeps the next of its own shape off the row.
        self.alone = False
        # Rules about domains have to be asked for every instance.
        self.by_domain = False

    def rebuild(self) -> None:
        """All rows anew."""
        table, shape, rows = self.table, self.shape, len(self.table)
        self.needs = needs_of(table, shape)
        members = table.groups.membership(shape)
        against = table.groups.against(shape)
        self.alone = any(group in members and by_host(by) for group, by in against)
        self.by_domain = bool(shape.near or shape.spread or any(not by_host(by) for _, by in against))
        self.offset = _offset(table, shape)
        score = table.base[:rows] + self.offset
        if self.needs:
            lacking = self.needs[0].column[:rows] - self.needs[0].amount
            for need in self.needs[1:]:
                lacking |= need.column[:rows] - need.amount
            score[lacking < 0] = OUT
        self.score = score
        if table.states is not None or table.formula is not None:
            self._judge(np.arange(rows))
        self.epoch = table.epoch
        self.carried = table.groups.carriers
        self.position = table.logged

    def stale(self) -> bool:
        """Whether a patch does not do; who has labels may be kept away by a rule that is new."""
        groups = self.table.groups
        return self.epoch != self.table.epoch or (bool(self.shape.seen) and self.carried != groups.carriers)

    def patch(self) -> None:
        """The rows touched since the last look."""
        table = self.table
        rows = table.log[self.position : table.logged]
        self.position = table.logged
        if len(rows) < 3:
            for row in rows.tolist():
                self.score[row] = self.of_row(row)
            return
        if len(rows) > FEW:
            rows = _once(table, rows)
        score = table.base.take(rows)
        score += self.offset.take(rows)
        if self.needs:
            column, amount = self.needs[0]
            lacking = column.take(rows)
            lacking -= amount
            for column, amount in self.needs[1:]:
                more = column.take(rows)
                more -= amount
                lacking |= more
            score[lacking < 0] = OUT
        self.score[rows] = score
        if table.states is not None or table.formula is not None:
            self._judge(rows)

    def _judge(self, rows: Ints) -> None:
        """Add what scorers of rows and the formula say of those that can take the shape at all."""
        able = rows[self.score.take(rows) < LIMIT]
        if self.table.states is not None:
            self.score[able] += np.array(self.table.states.scores(self.shape, able.tolist()), np.int32)
        if self.table.formula is not None:
            value = compute(self.table.formula, self._quantities(able), COLUMNS)
            self.score[able] -= np.clip(value, -LARGEST_SCORE, LARGEST_SCORE).astype(np.int32)

    def _quantities(self, rows: Ints) -> dict[str, Ints | int]:
        """What a scoring formula may name."""
        table = self.table
        found: dict[str, Ints | int] = {
            "load": table.load[rows],
            "number": np.array([table.numbers[row] for row in rows.tolist()], np.int64),
        }
        for name, column in table.resources.items():
            found[f"free.{name}"] = table.free[column][rows]
            found[f"total.{name}"] = table.total[column][rows]
        for name, amount in zip(self.shape.names, self.shape.amounts, strict=True):
            found[f"ask.{name}"] = amount
        return found

    def of_row(self, row: int) -> int:
        """One row's score now."""
        for column, amount in self.needs:
            if column.item(row) < amount:
                return OUT
        score = self.table.base.item(row) + self.offset.item(row)
        if score < LIMIT and self.table.states is not None:
            score += self.table.states.scores(self.shape, [row])[0]
        if score < LIMIT and self.table.formula is not None:
            value = compute(self.table.formula, self._quantities(np.array([row])), COLUMNS)
            score -= int(np.clip(value, -LARGEST_SCORE, LARGEST_SCORE).max())
        return score


class Columns:
    """The columns of a table, the ones used last kept."""

    def __init__(self, table: AgentTable) -> None:
        self.table = table
        self.kept: dict[Interned, Column] = {}

    def of(self, shape: Interned) -> Column:
        """The shape's column as things stand."""
        column = self.kept.pop(shape, None)
        if column is None:
            column = Column(self.table, shape)
            self._make_room()
        self.kept[shape] = column
        if column.stale():
            column.rebuild()
        elif column.position != self.table.logged:
            column.patch()
        return column

    def _make_room(self) -> None:
        bytes_each = 8 * max(len(self.table), 1)
        while self.kept and (len(self.kept) + 1) * bytes_each > MOST_BYTES:
            del self.kept[next(iter(self.kept))]


def _once(table: AgentTable, rows: Ints) -> Ints:
    """Each row once: those that stand where they were last seen."""
    at = np.arange(len(rows))
    table.seen_at[rows] = at
    once: Ints = rows[table.seen_at[rows] == at]
    return once


def needs_of(table: AgentTable, shape: Interned) -> list[Need]:
    """Everything about a row's present state that the shape must find there."""
    needs = []
    for column, amount, name in zip(shape.columns, shape.amounts, shape.names, strict=True):
        if name == DEVICE and amount:
            devices = table.devices
            needs.append(Need(devices.whole if amount >= WHOLE else devices.largest, amount))
        elif amount and name not in table.pools:
            needs.append(Need(table.free[column], amount))
    for group, by in table.groups.against(shape):
        if by_host(by):
            needs.append(Need(group.clear, 0))
    return needs


def _offset(table: AgentTable, shape: Interned) -> Scores:
    rows = len(table)
    offset = np.zeros(rows, np.int64)
    never = ~table.meets(shape)
    for _, tainted in table.marks.untolerated(shape.ask.tolerate, rows):
        never |= tainted
    for column, amount, name in zip(shape.columns, shape.amounts, shape.names, strict=True):
        total = table.total[column][:rows]
        if name not in table.pools:
            never |= total < amount
        if amount and column in table.scored:
            offset -= _share(amount, total) * table.room_weight
    for rule, weight in shape.prefer:
        offset[table.marks.meets(rule, rows)] -= weight * FULL
    np.clip(offset, 1 - (LIMIT >> 1), (LIMIT >> 1) - 1, out=offset)
    offset[never] = OUT
    return offset.astype(np.int32)


def _share(amount: int, total: Ints) -> Ints:
    """The amount as a share of each total, in parts of FULL."""
    down = max(0, amount.bit_length() - LARGEST_EXACT)
    share: Ints = (amount >> down) * FULL // np.maximum(total >> down, 1)
    return np.minimum(share, FULL)
