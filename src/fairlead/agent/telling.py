"""Gathers what an agent has to say in one step into as few frames as their limits allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.model.keys import Rows
from fairlead.model.limits import ORDER_ROWS
from fairlead.model.orders import Ended, OutputDone, Refused, Report, Reported, Retracted, Stages, Word

# A frame stays under 256 KiB: no row of any record takes more than this many bytes.
FRAME_ROWS = 1_500


class Column:
    """One kind of record in the making; full ones are put to the words, in order."""

    __slots__ = ("_facts", "_make", "_rows", "words")

    def __init__(self, make: Callable[..., Word], facts: int) -> None:
        self._make = make
        self._facts = facts
        self._rows = Rows(facts)
        self.words: list[tuple[int, Word]] = []

    def add(self, job: int, first: int, count: int, number: int, *facts: Any) -> None:
        """One more span."""
        self._rows.add(job, first, count, number, *facts)
        if len(self._rows) >= ORDER_ROWS:
            self._close()

    def __bool__(self) -> bool:
        return bool(self._rows) or bool(self.words)

    def take(self) -> list[tuple[int, Word]]:
        """All records so far with their numbers of rows; the column is empty then."""
        if self._rows:
            self._close()
        words, self.words = self.words, []
        return words

    def _close(self) -> None:
        rows, self._rows = self._rows, Rows(self._facts)
        self.words.append((len(rows), self._make(rows.keys(), *rows.facts)))


class Telling:
    """The records of one step. A report comes before everything else, and its count after all of it."""

    def __init__(self) -> None:
        self.report = Column(Report, 3)
        self.stages = Column(Stages, 2)
        self.refused = Column(Refused, 1)
        self.retracted = Column(Retracted, 1)
        self.ended = Column(Ended, 7)
        self.output = Column(OutputDone, 3)
        self.reported: int | None = None
        self.others: list[Word] = []

    @property
    def urgent(self) -> bool:
        """There is more to say than how far attempts are."""
        columns = (self.report, self.refused, self.retracted, self.ended, self.output)
        return any(columns) or self.reported is not None or bool(self.others)

    def frames(self) -> list[list[Word]]:
        """The bodies of the frames to say; nothing is left here."""
        columns = (self.report, self.stages, self.refused, self.retracted, self.ended, self.output)
        words = [word for column in columns for word in column.take()]
        if self.reported is not None:
            words.append((0, Reported(self.reported)))
        words.extend((0, word) for word in self.others)
        self.reported = None
        self.others = []
        bodies: list[list[Word]] = []
        size = 0
        for rows, word in words:
            if not bodies or size + rows > FRAME_ROWS:
                bodies.append([])
                size = 0
            bodies[-1].append(word)
            size += rows
        return bodies
