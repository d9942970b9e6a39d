"""Which attempts a record speaks of, in columns.

A row is a *span*: `count` neighbouring instances of one job, all in the same attempt. An array of a million
is one row as long as all of it shares one fate; a record never has a Python object per instance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

Span = tuple[int, int, int, int]


class Keys(Struct, frozen=True, gc=False, array_like=True):
    """Spans in columns: job number, first index, how many, attempt number."""

    job: list[int]
    first: list[int]
    count: list[int]
    attempt: list[int]

    def spans(self) -> Iterator[Span]:
        """Row by row: (job, first, count, attempt)."""
        return zip(self.job, self.first, self.count, self.attempt, strict=True)

    def total(self) -> int:
        """How many attempts the rows name together."""
        return sum(self.count)

    def __len__(self) -> int:
        return len(self.job)


class Rows:
    """Builds the columns of one record; a row that continues the one before it is merged into it."""

    __slots__ = ("attempt", "count", "facts", "first", "job")

    def __init__(self, facts: int = 0) -> None:
        self.job: list[int] = []
        self.first: list[int] = []
        self.count: list[int] = []
        self.attempt: list[int] = []
        self.facts: list[list[Any]] = [[] for _ in range(facts)]

    def add(self, job: int, first: int, count: int, attempt: int, *facts: Any) -> None:
        """One more span, with the facts that hold for all of it."""
        if self.job and self._continues(job, first, attempt, facts):
            self.count[-1] += count
            return
        self.job.append(job)
        self.first.append(first)
        self.count.append(count)
        self.attempt.append(attempt)
        for column, fact in zip(self.facts, facts, strict=True):
            column.append(fact)

    def _continues(self, job: int, first: int, attempt: int, facts: tuple[Any, ...]) -> bool:
        return (
            self.job[-1] == job
            and self.first[-1] + self.count[-1] == first
            and self.attempt[-1] == attempt
            and all(column[-1] == fact for column, fact in zip(self.facts, facts, strict=True))
        )

    def keys(self) -> Keys:
        """The key columns; the builder must not be added to afterwards."""
        return Keys(self.job, self.first, self.count, self.attempt)

    def __len__(self) -> int:
        return len(self.job)

    def __bool__(self) -> bool:
        return bool(self.job)


def one(job: int, index: int, attempt: int, count: int = 1) -> Keys:
    """Keys of a single span."""
    return Keys([job], [index], [count], [attempt])
