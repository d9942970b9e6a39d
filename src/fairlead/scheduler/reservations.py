"""Which agent is kept for which attempt: numpy columns per job, and counts per agent.

Soft: rebuilt from what controllers resume and agents report. A reservation begins with a proposal and ends
with a report, a refusal or a loss; the room in the agent table moves with it, here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fairlead.model.lifecycles import Stage
from fairlead.placement.runs import Run, runs
from fairlead.placement.table import AgentTable, Interned

# Placed under an earlier term; seen in the report that is coming in; wanted ended.
RESUMED = 1
SEEN = 2
STOPPING = 4


class JobBook:
    """The reservations of one job; rows grow to the highest index placed."""

    __slots__ = ("agent", "attempt", "flags", "lease_ms", "open", "shape", "spec", "stage", "term")

    def __init__(self, shape: Interned, spec: str, lease_ms: int) -> None:
        self.shape = shape
        self.spec = spec
        self.lease_ms = lease_ms
        self.open = 0
        self.agent = np.zeros(0, np.uint32)
        self.term = np.zeros(0, np.uint32)
        self.attempt = np.zeros(0, np.uint16)
        self.stage = np.zeros(0, np.uint8)
        self.flags = np.zeros(0, np.uint8)

    def reach(self, end: int) -> None:
        """Make rows up to `end`."""
        rows = len(self.agent)
        if end <= rows:
            return
        more = max(end, rows * 2) - rows
        for name in ("agent", "term", "attempt", "stage", "flags"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros(more, column.dtype)]))

    def matching(self, agent: int, first: int, count: int, attempt: int) -> list[Run]:
        """Which of these rows are held by that agent in that attempt."""
        end = min(first + count, len(self.agent))
        if first < 0 or first >= end:
            return []
        if end - first == 1:
            here = self.agent[first] == agent and self.attempt[first] == attempt and self.stage[first] != 0
            return [(first, 1)] if here else []
        rows = slice(first, end)
        mask = (self.agent[rows] == agent) & (self.attempt[rows] == attempt) & (self.stage[rows] != 0)
        return runs(mask, first)


class Reservations:
    """All books; the table's room follows every change here."""

    def __init__(self, table: AgentTable) -> None:
        self.table = table
        self.books: dict[int, JobBook] = {}
        # agent -> job -> open reservations.
        self.holds: dict[int, dict[int, int]] = {}

    def book(self, job: int, shape: Interned, spec: str, lease_ms: int) -> JobBook:
        """The job's book, opened when it is first needed."""
        book = self.books.get(job)
        if book is None:
            book = self.books[job] = JobBook(shape, spec, lease_ms)
        return book

    def reserve(
        self, book: JobBook, job: int, span: tuple[int, int, int], agent: int, term: int, flags: int = 0
    ) -> None:
        """Keep an agent for a span (first, count, attempt); the room was taken by who placed it."""
        first, count, attempt = span
        book.reach(first + count)
        rows = slice(first, first + count)
        book.agent[rows] = agent
        book.term[rows] = term
        book.attempt[rows] = attempt
        book.stage[rows] = Stage.assigned
        book.flags[rows] = flags
        book.open += count
        held = self.holds.setdefault(agent, {})
        held[job] = held.get(job, 0) + count

    def release(self, job: int, agent: int, run: Run) -> None:
        """These rows are over: their room is free."""
        first, count = run
        book = self.books[job]
        book.stage[first : first + count] = 0
        book.flags[first : first + count] = 0
        book.open -= count
        held = self.holds[agent]
        held[job] -= count
        if not held[job]:
            del held[job]
            if not held:
                del self.holds[agent]
        self.table.give(book.shape, agent, count)

    def held_by(self, agent: int) -> Iterator[tuple[int, JobBook, NDArray[np.intp]]]:
        """The agent's open rows: (job, book, indices)."""
        for job in list(self.holds.get(agent, ())):
            book = self.books[job]
            yield job, book, np.flatnonzero((book.agent == agent) & (book.stage != 0))

    def forget(self, job: int) -> None:
        """The job is over; nothing of it may be open."""
        book = self.books.get(job)
        if book is not None and not book.open:
            del self.books[job]


def spans_of(indices: NDArray[np.intp], attempts: NDArray[np.uint16]) -> Iterator[tuple[int, int, int]]:
    """Sorted indices as (first, count, attempt) spans."""
    if not len(indices):
        return
    breaks = np.flatnonzero((np.diff(indices) != 1) | (np.diff(attempts.astype(np.int64)) != 0)) + 1
    starts = [0, *breaks.tolist()]
    ends = [*breaks.tolist(), len(indices)]
    for start, end in zip(starts, ends, strict=True):
        yield int(indices[start]), end - start, int(attempts[start])
