"""Whose place a more important lot may have, with the smallest harm.

Only instances of lower priority that are not protected; on one agent, as few as suffice. Harm is compared in
this order: the highest priority that must go, how many go, how much running time is lost; then the lowest
agent number. Nothing is stopped in here: the answer is a list of victims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from fairlead.placement.scale import LIMIT, Ints
from fairlead.placement.shapes import Interned
from fairlead.placement.table import AgentTable

# Agents whose victims are found exactly, of those that look cheapest.
LOOKED_AT = 4
# No victims suffice there.
NOT = 1 << 50
NOBODY = -1
PARTS = 1 << 20
# So few touched rows are done one by one.
FEW = 8
MOST_BOUNDS = 64


class Runs(NamedTuple):
    """One instance that runs."""

    key: int
    shape: Interned
    priority: int
    started: int
    protected: bool = False


class Choice(NamedTuple):
    """The agent to clear, and who has to go."""

    agent: int
    victims: list[Runs]


class Reclaimable:
    """What could be had back on each row, by priority, kept up to date as work starts and ends.

    Who starts or ends work here takes or gives its room in the table in the same breath.
    """

    def __init__(self, table: AgentTable) -> None:
        self.table = table
        self.running: dict[int, dict[int, Runs]] = {}
        # priority -> column of the table -> amount by row of work at that priority.
        self.levels: dict[int, dict[int, Ints]] = {}
        self._bounds: dict[tuple[Interned, int], _Bound] = {}
        self._epoch = -1

    def start(self, number: int, run: Runs) -> None:
        """It runs there now."""
        self.running.setdefault(number, {})[run.key] = run
        self._count(number, run, 1)

    def end(self, number: int, key: int) -> None:
        """It is over."""
        run = self.running[number].pop(key)
        self._count(number, run, -1)

    def bound(self, shape: Interned, priority: int) -> Ints:
        """By row, what one instance of the shape costs at least; at or above NOT no victims suffice."""
        self.table.settle()
        if self._epoch != self.table.epoch:
            self._recount()
        bound = self._bounds.pop((shape, priority), None) or _Bound(self, shape, priority)
        if len(self._bounds) >= MOST_BOUNDS:
            del self._bounds[next(iter(self._bounds))]
        self._bounds[shape, priority] = bound
        return bound.now()

    def _count(self, number: int, run: Runs, sign: int) -> None:
        row = self.table.rows[number]
        if run.protected or self._epoch != self.table.epoch:
            return
        columns = self.levels.setdefault(run.priority, {})
        for column, amount in zip(run.shape.columns, run.shape.amounts, strict=True):
            if column not in columns:
                columns[column] = np.zeros(len(self.table.open), np.int64)
            columns[column][row] += sign * amount

    def _recount(self) -> None:
        self._epoch = self.table.epoch
        self.levels = {}
        self._bounds = {}
        for number, runs in self.running.items():
            for run in runs.values():
                self._count(number, run, 1)


class _Bound:
    """The least harm of one shape at one priority, by row, patched like a score column."""

    def __init__(self, held: Reclaimable, shape: Interned, priority: int) -> None:
        self.held = held
        self.shape = shape
        self.priority = priority
        self.position = held.table.logged
        self.harm = self._of(np.arange(len(held.table)))

    def now(self) -> Ints:
        table = self.held.table
        if self.position != table.logged:
            rows = np.array(list(dict.fromkeys(table.log[self.position : table.logged].tolist())), np.int64)
            self.position = table.logged
            if len(rows) > FEW:
                self.harm[rows] = self._of(rows)
            else:
                for row in rows.tolist():
                    self.harm[row] = self._one(row)
        return self.harm

    def _below(self) -> list[int]:
        """Nobody goes, then each level that may."""
        return [NOBODY, *sorted(level for level in self.held.levels if level < self.priority)]

    def _one(self, row: int) -> int:
        """The same for one row, in plain numbers."""
        table, shape = self.held.table, self.shape
        column = table.columns.of(shape)
        if column.offset.item(row) >= LIMIT or not table.open.item(row):
            return NOT
        if any(need.amount == 0 and need.column.item(row) < 0 for need in column.needs):
            return NOT
        lacking = [
            (at, amount - table.free[at].item(row))
            for at, amount in zip(shape.columns, shape.amounts, strict=True)
        ]
        back = dict.fromkeys(shape.columns, 0)
        for level in self._below():
            amounts = self.held.levels.get(level, {})
            for at, _ in lacking:
                if at in amounts:
                    back[at] += amounts[at].item(row)
            if all(back[at] >= short for at, short in lacking):
                part = max((max(short, 0) * PARTS // max(back[at], 1) for at, short in lacking), default=0)
                return level * 2 * PARTS + part
        return NOT

    def _of(self, rows: Ints) -> Ints:
        """The lowest level that has to go, then which part of everything up to it."""
        table, shape = self.held.table, self.shape
        harm = np.full(len(rows), NOT, np.int64)
        column = table.columns.of(shape)
        able = (column.offset[rows] < LIMIT) & table.open[rows]
        for need in column.needs:
            if need.amount == 0:
                able &= need.column[rows] >= 0
        lacking = [
            (at, amount - table.free[at][rows])
            for at, amount in zip(shape.columns, shape.amounts, strict=True)
        ]
        back = {at: np.zeros(len(rows), np.int64) for at, _ in lacking}
        for level in self._below():
            enough, part = able & (harm >= NOT), np.zeros(len(rows), np.int64)
            for at, short in lacking:
                if at in self.held.levels.get(level, ()):
                    back[at] = back[at] + self.held.levels[level][at][rows]
                enough &= back[at] >= short
                np.maximum(part, np.maximum(short, 0) * PARTS // np.maximum(back[at], 1), out=part)
            harm = np.where(enough, level * 2 * PARTS + part, harm)
        return harm


def choose_victims(held: Reclaimable, shape: Interned, priority: int, now: int) -> Choice | None:
    """The agent where one instance of the shape costs least; None if no agent can be cleared for it."""
    bound = held.bound(shape, priority)
    lowest = bound.min(initial=NOT)
    best: tuple[tuple[int, int, int, int], Choice] | None = None
    if lowest < NOT:
        for row in np.flatnonzero(bound == lowest)[:LOOKED_AT].tolist():
            number = held.table.numbers[row]
            victims = _victims(held.table, row, shape, held.running.get(number, {}), priority)
            if victims is not None:
                found = (_harm(victims, now, number), Choice(number, victims))
                best = found if best is None or found[0] < best[0] else best
    return best[1] if best else None


def _harm(victims: Iterable[Runs], now: int, number: int) -> tuple[int, int, int, int]:
    victims = list(victims)
    highest = max((run.priority for run in victims), default=-1)
    return highest, len(victims), sum(now - run.started for run in victims), number


def _victims(
    table: AgentTable, row: int, shape: Interned, running: Mapping[int, Runs], priority: int
) -> list[Runs] | None:
    """As few as suffice: the least important and youngest first, then those spared that were not needed."""
    lacking = {
        column: amount - table.free[column].item(row)
        for column, amount in zip(shape.columns, shape.amounts, strict=True)
    }
    willing = [run for run in running.values() if run.priority < priority and not run.protected]
    willing.sort(key=lambda run: (run.priority, -run.started, run.key))
    chosen: list[Runs] = []
    for run in willing:
        if all(short <= 0 for short in lacking.values()):
            break
        chosen.append(run)
        _take_back(lacking, run, -1)
    if any(short > 0 for short in lacking.values()):
        return None
    for run in reversed(list(chosen)):
        _take_back(lacking, run, 1)
        if all(short <= 0 for short in lacking.values()):
            chosen.remove(run)
        else:
            _take_back(lacking, run, -1)
    return chosen


def _take_back(lacking: dict[int, int], run: Runs, sign: int) -> None:
    for column, amount in zip(run.shape.columns, run.shape.amounts, strict=True):
        if column in lacking:
            lacking[column] += sign * amount
