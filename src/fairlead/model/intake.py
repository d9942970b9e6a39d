"""Which offsets of an agent's output may be acknowledged: those stored, with all before them stored too.

The agent's spool is the copy until then. Where it begins on a connection is the point from which it vouches
for everything earlier: it was acknowledged elsewhere, or the agent would have sent it again. Repeats and
overlaps change nothing; a hole stops the acknowledgement in front of it until it is filled.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from msgspec import Struct

# Job, index, attempt, term, stream.
Stream = tuple[int, int, int, int, int]


class Acked(Struct, frozen=True, gc=False):
    """Per stream, in columns: all bytes below `offset` are stored."""

    job: list[int]
    index: list[int]
    attempt: list[int]
    term: list[int]
    stream: list[int]
    offset: list[int]


class Reach:
    """How far one stream is stored without a hole."""

    __slots__ = ("islands", "total", "upto")

    def __init__(self, base: int) -> None:
        self.upto = base
        # Stored stretches behind a hole, by start.
        self.islands: list[tuple[int, int]] = []
        self.total: int | None = None

    def add(self, start: int, end: int) -> None:
        """These bytes are stored."""
        if start > self.upto:
            insort(self.islands, (start, end))
            return
        self.upto = max(self.upto, end)
        while self.islands and self.islands[0][0] <= self.upto:
            self.upto = max(self.upto, self.islands.pop(0)[1])

    def ended(self) -> bool:
        """Is the whole stream stored, its end included?"""
        return self.total is not None and self.upto >= self.total


class Ledger:
    """What one connection of an agent sent, and how much of it is stored."""

    __slots__ = ("_reach",)

    def __init__(self) -> None:
        self._reach: dict[Stream, Reach] = {}

    def __len__(self) -> int:
        return len(self._reach)

    def heard(self, stream: Stream, offset: int) -> None:
        """Bytes from there on arrived; only the first word about a stream matters."""
        if stream not in self._reach:
            self._reach[stream] = Reach(offset)

    def stored(self, stream: Stream, offset: int, length: int, end: bool) -> None:
        """What was heard is stored; with `end` the stream is whole at `offset + length`."""
        reach = self._reach.get(stream)
        if reach is None:
            reach = self._reach[stream] = Reach(offset)
        reach.add(offset, offset + length)
        if end:
            reach.total = offset + length

    def acknowledge(self, streams: Iterable[Stream]) -> Acked:
        """How far the agent may drop these streams; what is whole is forgotten here too."""
        acked = Acked([], [], [], [], [], [])
        for stream in dict.fromkeys(streams):
            reach = self._reach.get(stream)
            if reach is None:
                continue
            columns = (acked.job, acked.index, acked.attempt, acked.term, acked.stream, acked.offset)
            for column, value in zip(columns, (*stream, reach.upto), strict=True):
                column.append(value)
            if reach.ended():
                del self._reach[stream]
        return acked
