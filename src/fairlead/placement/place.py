"""Where a lot fits: the engine's one verb.

A lot is placed at once, and the outcome is that of one instance after the other, each on the best row: the
lowest score, the lowest agent number among equals. Three shorter ways lead there: where a placement only
makes a row better, the row is filled; where nothing else changes, the candidates are as many rows as there
are instances; else the best row is sought each time.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence

import numpy as np

from fairlead.placement.columns import Column
from fairlead.placement.domains import Domains
from fairlead.placement.explain import explain, room
from fairlead.placement.scale import LIMIT, OUT, Mask, Scores
from fairlead.placement.shapes import Interned
from fairlead.placement.table import AgentTable

__all__ = ["explain", "place", "room"]

MANY = 1 << 40
# More candidates than this are no memory of where it ran, but a rule.
WARM = 2
# Above this many instances the candidates are cut out first.
ONE_BY_ONE = 16
ROW_BITS = 24
ROW_MASK = (1 << ROW_BITS) - 1

Chosen = dict[int, int]


def place(
    table: AgentTable,
    shape: Interned,
    count: int,
    most_rows: int,
    shunned: Collection[int] = (),
    last: int = 0,
    now: int = 0,
    among: Collection[int] | None = None,
    warm: Sequence[int] = (),
) -> list[tuple[int, int]]:
    """Up to `count` instances as (agent, how many), room taken; `last` is used when nobody else fits.

    `among` names the only agents that may be taken; agents that end before `now` and the shape's run limit
    are left out. `warm` names agents where its kind last ran well: the first two go before all others, if
    they have room now; nothing ever waits for them.
    """
    table.settle()
    count = min(count, _pooled(table, shape))
    if not count or not len(table):
        return []
    column = table.columns.of(shape)
    out = _left_out(table, shape, shunned, now, among)
    chosen: Chosen = {}
    spared = table.rows.get(last)
    if out is None and spared is None and not warm:
        _fill(_Work(table, shape, column, column.score, most_rows, chosen), count)
        return [(table.numbers[row], many) for row, many in chosen.items()]
    score = column.score.copy()
    if out is not None:
        score[out] = OUT
    spare = int(score[spared]) if spared is not None else OUT
    if spared is not None:
        score[spared] = OUT
    for number in warm[:WARM]:
        if (row := table.rows.get(number)) is not None and score[row] < LIMIT and count:
            count = _fill(_Work(table, shape, column, _alone(column, row), most_rows, chosen), count)
            score[row] = column.of_row(row)
    left = _fill(_Work(table, shape, column, score, most_rows, chosen), count) if count else 0
    if spared is not None and left and spare < LIMIT and len(chosen) < most_rows:
        _fill(_Work(table, shape, column, _alone(column, spared), most_rows, chosen), left)
    return [(table.numbers[row], many) for row, many in chosen.items()]


def _alone(column: Column, row: int) -> Scores:
    """Scores by which only this row can be taken."""
    score = np.full(len(column.score), OUT, np.int32)
    score[row] = column.of_row(row)
    return score


class _Work:
    """One lot being placed: rows chosen so far, on scores that follow."""

    __slots__ = ("chosen", "column", "most", "own", "score", "shape", "table")

    def __init__(
        self, table: AgentTable, shape: Interned, column: Column, score: Scores, most: int, chosen: Chosen
    ) -> None:
        self.table = table
        self.shape = shape
        self.column = column
        self.score = score
        # Whether the column itself follows; else a copy does and the column is patched later.
        self.own = score is column.score
        self.most = most
        self.chosen = chosen

    def put(self, row: int, many: int) -> None:
        """So many on the row; its score follows."""
        table = self.table
        table.use(self.shape, table.numbers[row], row, many)
        self.score[row] = self.column.of_row(row)
        self.chosen[row] = self.chosen.get(row, 0) + many
        if self.own:
            self.column.position = table.logged


def _fill(work: _Work, count: int) -> int:
    if work.column.by_domain:
        return _by_domain(work, count)
    if work.table.fills and not work.column.alone:
        return _in_runs(work, count)
    if count <= ONE_BY_ONE:
        return _one_by_one(work, count)
    while count and len(work.chosen) < work.most:
        left = _of_candidates(work, count)
        if left == count:
            break
        count = left
    return count


def _in_runs(work: _Work, count: int) -> int:
    """Filling a row makes it better still: the best one takes what it can."""
    score = work.score
    while count and len(work.chosen) < work.most:
        row = int(score.argmin())
        if score.item(row) >= LIMIT:
            break
        many = 1 if count == 1 else min(count, _room(work.table, work.shape, work.column, row))
        work.put(row, many)
        count -= many
    return count


def _one_by_one(work: _Work, count: int) -> int:
    score = work.score
    while count:
        row = int(score.argmin())
        if score.item(row) >= LIMIT or (row not in work.chosen and len(work.chosen) >= work.most):
            break
        work.put(row, 1)
        count -= 1
    return count


def _of_candidates(work: _Work, count: int) -> int:
    """The best `size` rows hold whatever the next `size` choices can be: a row is bettered only by itself."""
    score = work.score
    size = min(count, work.most - len(work.chosen), len(score))
    worst = int(np.partition(score, size - 1)[size - 1])
    rows = np.flatnonzero(score < min(worst, LIMIT))
    if worst < LIMIT:
        equal = np.flatnonzero(score == worst)[: size - len(rows)]
        rows = np.concatenate([rows, equal])
    heap = [score.item(row) << ROW_BITS | row for row in rows.tolist()]
    heapq.heapify(heap)
    for _ in range(size):
        if not heap:
            break
        row = heap[0] & ROW_MASK
        work.put(row, 1)
        count -= 1
        now = score.item(row)
        if now < LIMIT:
            heapq.heapreplace(heap, now << ROW_BITS | row)
        else:
            heapq.heappop(heap)
    return count


def _by_domain(work: _Work, count: int) -> int:
    """What a placement does to its domain changes other rows: the best row is sought among those allowed."""
    domains = Domains(work.table, work.shape, work.score)
    while count:
        row = domains.best()
        if domains.masked.item(row) >= LIMIT or (row not in work.chosen and len(work.chosen) >= work.most):
            break
        work.put(row, 1)
        domains.placed(row)
        count -= 1
    return count


def _room(table: AgentTable, shape: Interned, column: Column, row: int) -> int:
    """How many instances the row could hold now."""
    fits = min((need.item(row) // amount for need, amount in column.needs if amount > 0), default=MANY)
    return min(fits, table.devices.fits(row, shape.device)) if shape.device else fits


def _pooled(table: AgentTable, shape: Interned) -> int:
    """How many instances the cluster's own resources allow."""
    fits = MANY
    for name, amount in zip(shape.names, shape.amounts, strict=True):
        pool = table.pools.get(name)
        if pool is not None and amount:
            fits = min(fits, max(pool.free, 0) // amount)
    return fits


def _left_out(
    table: AgentTable, shape: Interned, shunned: Collection[int], now: int, among: Collection[int] | None
) -> Mask | None:
    out = None
    if shunned:
        out = _rows(table, shunned)
    if among is not None:
        out = ~_rows(table, among) if out is None else out | ~_rows(table, among)
    if shape.ask.run_ms:
        ends = table.ends_at[: len(table)]
        early = (ends > 0) & (ends < now + shape.ask.run_ms)
        if early.any():
            out = early if out is None else out | early
    return out


def _rows(table: AgentTable, numbers: Collection[int]) -> Mask:
    mask = np.zeros(len(table), np.bool_)
    for number in numbers:
        if (row := table.rows.get(number)) is not None:
            mask[row] = True
    return mask
