"""Which offsets of agents' output may be acknowledged: those stored, with all before them stored too.

The agent's spool is the copy until then. Where it first begins is the point from which it vouches for
everything earlier: that was acknowledged elsewhere, or the agent would have sent it again. Beginning lower
takes that word back. Repeats and overlaps change nothing; a hole stops the acknowledgement in front of it
until its bytes are stored, here or by another front.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct

# Job, index, attempt, term, stream.
Stream = tuple[int, int, int, int, int]

# Streams that never end here, because their agent moved to another front, push each other out. A forgotten
# one is vouched for anew by what its agent sends next, which comes behind everything that came before.
STREAMS = 100_000


class Acked(Struct, frozen=True, gc=False):
    """Per stream, in columns: all bytes below `offset` are stored; one more than its length: its end is too.

    Else an acknowledgement of the last bytes could be taken for one of an end that was sent after them.
    """

    job: list[int]
    index: list[int]
    attempt: list[int]
    term: list[int]
    stream: list[int]
    offset: list[int]


class Reach:
    """How far one stream is stored without a hole."""

    __slots__ = ("base", "islands", "total", "upto")

    def __init__(self, base: int) -> None:
        self.base = base
        self.upto = base
        # Stored stretches behind a hole, by start.
        self.islands: list[tuple[int, int]] = []
        self.total: int | None = None

    def begin(self, offset: int) -> None:
        """The agent begins here: from a lower place than before, all between counts only once stored."""
        if offset < self.base:
            insort(self.islands, (self.base, self.upto))
            self.base = self.upto = offset

    def add(self, start: int, end: int) -> None:
        """These bytes are stored."""
        insort(self.islands, (start, end))
        while self.islands and self.islands[0][0] <= self.upto:
            self.upto = max(self.upto, self.islands.pop(0)[1])

    def ended(self) -> bool:
        """Is the whole stream stored?"""
        return self.total is not None and self.upto >= self.total


class Ledger:
    """What agents sent to one front, and how much of it is stored."""

    __slots__ = ("_most", "_reach")

    def __init__(self, most: int = STREAMS) -> None:
        self._most = most
        self._reach: OrderedDict[Stream, Reach] = OrderedDict()

    def __len__(self) -> int:
        return len(self._reach)

    def heard(self, stream: Stream, offset: int) -> None:
        """Bytes from there on arrived."""
        reach = self._reach.get(stream)
        if reach is None:
            self._reach[stream] = Reach(offset)
            if len(self._reach) > self._most:
                self._reach.popitem(last=False)
            return
        reach.begin(offset)
        self._reach.move_to_end(stream)

    def stored(self, stream: Stream, start: int, end: int, last: bool = False) -> None:
        """These bytes are stored; with `last` the stream has no more."""
        reach = self._reach.get(stream)
        if reach is None:
            reach = self._reach[stream] = Reach(start)
        reach.add(start, end)
        if last:
            reach.total = end

    def holes(self, streams: Iterable[Stream]) -> list[tuple[Stream, int, int]]:
        """What keeps these from being acknowledged further: the first hole of each."""
        return [
            (stream, reach.upto, reach.islands[0][0])
            for stream in dict.fromkeys(streams)
            if (reach := self._reach.get(stream)) is not None and reach.islands
        ]

    def acknowledge(self, streams: Iterable[Stream]) -> Acked:
        """How far the agent may drop these streams."""
        acked = Acked([], [], [], [], [], [])
        columns = (acked.job, acked.index, acked.attempt, acked.term, acked.stream, acked.offset)
        for stream in dict.fromkeys(streams):
            reach = self._reach.get(stream)
            if reach is None:
                continue
            for column, value in zip(columns, (*stream, reach.upto + reach.ended()), strict=True):
                column.append(value)
        return acked

    def forget(self, streams: Iterable[Stream]) -> None:
        """What is whole of these, and acknowledged, is over."""
        for stream in dict.fromkeys(streams):
            reach = self._reach.get(stream)
            if reach is not None and reach.ended():
                del self._reach[stream]
