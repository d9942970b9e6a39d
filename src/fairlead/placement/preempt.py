"""Whose place a more important lot may have, with the smallest harm.

Only instances of lower priority that are not protected; on one agent, as few as suffice. Harm is compared in
this order: the highest priority that must go, how many go, how much running time is lost; then the lowest
agent number. Nothing is stopped in here: the answer is a list of victims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from fairlead.placement.columns import needs_of
from fairlead.placement.scale import OUT, Ints
from fairlead.placement.shapes import Interned
from fairlead.placement.table import AgentTable

# Agents whose victims are found exactly, of those that look cheapest.
LOOKED_AT = 8


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
    """What could be had back on each row, by priority, kept up to date as work starts and ends."""

    def __init__(self, table: AgentTable) -> None:
        self.table = table
        self.running: dict[int, dict[int, Runs]] = {}
        # priority -> column of the table -> amount by row of work at that priority.
        self._levels: dict[int, dict[int, Ints]] = {}
        self._epoch = -1

    def start(self, number: int, run: Runs) -> None:
        """It runs there now."""
        self.running.setdefault(number, {})[run.key] = run
        self._count(number, run, 1)

    def end(self, number: int, key: int) -> None:
        """It is over."""
        run = self.running[number].pop(key)
        self._count(number, run, -1)

    def below(self, priority: int, column: int, rows: int) -> Ints:
        """How much of a resource work of lower priority holds on each row."""
        if self._epoch != self.table.epoch:
            self._recount()
        found = np.zeros(rows, np.int64)
        for level, columns in self._levels.items():
            if level < priority and column in columns:
                found += columns[column][:rows]
        return found

    def _count(self, number: int, run: Runs, sign: int) -> None:
        row = self.table.rows[number]
        if run.protected or self._epoch != self.table.epoch:
            return
        columns = self._levels.setdefault(run.priority, {})
        for column, amount in zip(run.shape.columns, run.shape.amounts, strict=True):
            if column not in columns:
                columns[column] = np.zeros(len(self.table.open), np.int64)
            columns[column][row] += sign * amount

    def _recount(self) -> None:
        self.table.settle()
        self._epoch = self.table.epoch
        self._levels = {}
        for number, runs in self.running.items():
            for run in runs.values():
                self._count(number, run, 1)


def choose_victims(held: Reclaimable, shape: Interned, priority: int, now: int) -> Choice | None:
    """The agent where one instance of the shape costs least; None if no agent can be cleared for it."""
    table = held.table
    table.settle()
    rows = len(table)
    able = table.columns.of(shape).offset < OUT >> 1
    able &= table.open[:rows]
    harm = np.zeros(rows, np.int64)
    for column, amount in zip(shape.columns, shape.amounts, strict=True):
        short = amount - table.free[column][:rows]
        back = held.below(priority, column, rows)
        able &= back >= short
        # At least so much of an agent's victims is taken: a bound that is never above the harm.
        np.maximum(harm, np.maximum(short, 0) * 1000 // np.maximum(back, 1), out=harm)
    candidates = np.flatnonzero(able)
    if len(candidates) > LOOKED_AT:
        candidates = candidates[np.argsort(harm[candidates], kind="stable")[:LOOKED_AT]]
    best: tuple[tuple[int, int, int, int], Choice] | None = None
    for row in candidates.tolist():
        number = table.numbers[row]
        victims = _victims(table, row, shape, held.running.get(number, {}), priority)
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
    if any(
        column_need.amount == 0 and column_need.column.item(row) < 0 for column_need in needs_of(table, shape)
    ):
        return None
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
