"""The instances of a job as numpy pages: 4,096 rows a page, a page only once a row left `waiting`.

Decides nothing: the ledger writes here when a change is applied, views and decisions read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fairlead.model.lifecycles import State
from fairlead.placement.runs import Run, runs

ROWS = 4096
# Wider than any exit, so that a reason and an exit are one number.
SPREAD = 1 << 20
COLUMNS: dict[str, type[np.generic]] = {
    "state": np.uint8,
    "reason": np.uint8,
    "output": np.uint8,
    "attempt": np.uint16,
    "agent": np.uint32,
    "term": np.uint32,
    "exit": np.int16,
    # Milliseconds since the job was submitted, plus 1; 0 is never.
    "placed": np.uint32,
    "started": np.uint32,
    "ended": np.uint32,
    # Stored bytes of each stream, once that is known.
    "out_length": np.uint64,
    "err_length": np.uint64,
}


class Page:
    """Columns for up to 4,096 instances."""

    __slots__ = tuple(COLUMNS)

    state: NDArray[np.uint8]
    reason: NDArray[np.uint8]
    output: NDArray[np.uint8]
    attempt: NDArray[np.uint16]
    agent: NDArray[np.uint32]
    term: NDArray[np.uint32]
    exit: NDArray[np.int16]
    placed: NDArray[np.uint32]
    started: NDArray[np.uint32]
    ended: NDArray[np.uint32]
    out_length: NDArray[np.uint64]
    err_length: NDArray[np.uint64]

    def __init__(self, rows: int) -> None:
        for name, kind in COLUMNS.items():
            setattr(self, name, np.zeros(rows, kind))


class Pages:
    """All rows of one job."""

    __slots__ = ("count", "pages")

    def __init__(self, count: int) -> None:
        self.count = count
        self.pages: dict[int, Page] = {}

    def rows_in(self, page: int) -> int:
        """How many rows a page has; the last may be short."""
        return min(ROWS, self.count - page * ROWS)

    def page(self, number: int) -> Page:
        """The page, made now if it was never written."""
        found = self.pages.get(number)
        if found is None:
            found = self.pages[number] = Page(self.rows_in(number))
        return found

    def slices(self, first: int, count: int) -> Iterator[tuple[Page, slice, int]]:
        """A span as (page, rows of it, first index); pages are made."""
        for number, rows, start in self.cuts(first, count):
            yield self.page(number), rows, start

    def cuts(self, first: int, count: int) -> Iterator[tuple[int, slice, int]]:
        """A span as (page number, rows of it, first index), clipped to the job."""
        at, end = max(first, 0), min(first + count, self.count)
        while at < end:
            number, row = divmod(at, ROWS)
            many = min(end - at, ROWS - row)
            yield number, slice(row, row + many), at
            at += many

    def in_state(self, state: State, first: int, count: int) -> Iterator[Run]:
        """Which of a span are in this state, as runs."""
        for number, rows, start in self.cuts(first, count):
            page = self.pages.get(number)
            if page is not None:
                yield from runs(page.state[rows] == state, start)
            elif state is State.waiting:
                yield start, rows.stop - rows.start

    def in_attempt(self, agent: int, first: int, count: int, attempt: int, term: int) -> Iterator[Run]:
        """Which of a span are active in this attempt on this agent, as runs; term -1: any."""
        for number, rows, start in self.cuts(first, count):
            page = self.pages.get(number)
            if page is None:
                continue
            mask = (page.state[rows] == State.active) & (page.attempt[rows] == attempt)
            mask &= page.agent[rows] == agent
            if term >= 0:
                mask &= page.term[rows] == term
            yield from runs(mask, start)

    def causes(self) -> dict[tuple[int, int], int]:
        """How often what did not succeed ended so: by (reason, exit)."""
        found: dict[tuple[int, int], int] = {}
        for page in self.pages.values():
            unhappy = page.state != State.succeeded
            pairs = page.reason[unhappy].astype(np.int64) * SPREAD + page.exit[unhappy]
            for pair, count in zip(*np.unique(pairs, return_counts=True), strict=True):
                reason, exit = divmod(int(pair) + SPREAD // 2, SPREAD)
                key = (reason, exit - SPREAD // 2)
                found[key] = found.get(key, 0) + int(count)
        return found

    def attempts(self, first: int, count: int) -> Iterator[tuple[int, int, int]]:
        """A span cut where the number of attempts so far changes: (first, count, attempts)."""
        for number, rows, start in self.cuts(first, count):
            page = self.pages.get(number)
            if page is None:
                yield start, rows.stop - rows.start, 0
            else:
                yield from _equal(page.attempt[rows], start)


def _equal(column: NDArray[np.uint16], first: int) -> Iterator[tuple[int, int, int]]:
    breaks = (np.flatnonzero(np.diff(column)) + 1).tolist()
    for start, end in zip([0, *breaks], [*breaks, len(column)], strict=True):
        yield first + start, end - start, int(column[start])
