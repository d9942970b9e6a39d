"""Which bytes of one stream are held, and what is still missing.

Pieces arrive in any order, twice, overlapping, cut elsewhere: none of that does harm. `Coverage` counts only
(what may be acknowledged); `Assembly` keeps the bytes as well (what a reader is given).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from msgspec import Struct


class Gap(Struct, frozen=True, gc=False):
    """Bytes from `start` to before `stop` that nobody holds here."""

    start: int
    stop: int


class Coverage:
    """Disjoint ranges of a stream, touching ones joined, and its total length once that is known."""

    __slots__ = ("_starts", "_stops", "total")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self.total: int | None = None

    def add(self, start: int, length: int) -> list[tuple[int, int]]:
        """Hold this range too; what of it was new, as (start, stop)."""
        stop = start + length
        if length <= 0:
            return []
        fresh = [(gap.start, gap.stop) for gap in self.gaps(start, stop)]
        low = bisect_left(self._stops, start)
        high = bisect_right(self._starts, stop)
        if low < high:
            start = min(start, self._starts[low])
            stop = max(stop, self._stops[high - 1])
        self._starts[low:high] = [start]
        self._stops[low:high] = [stop]
        return fresh

    def ends_at(self, total: int) -> None:
        """The stream is so long; the first word on it stands."""
        if self.total is None:
            self.total = total

    @property
    def contiguous(self) -> int:
        """How many bytes from the beginning are held without a gap."""
        return self._stops[0] if self._starts and self._starts[0] == 0 else 0

    @property
    def held(self) -> int:
        """How many bytes are held in all."""
        return sum(self._stops) - sum(self._starts)

    @property
    def whole(self) -> bool:
        """Every byte is held, and it is known that there are no more."""
        return self.total is not None and self.contiguous >= self.total

    def gaps(self, start: int = 0, stop: int | None = None) -> list[Gap]:
        """What is missing before `stop`: by default the total, or the last byte held."""
        if stop is None:
            stop = self.total if self.total is not None else (self._stops[-1] if self._stops else 0)
        missing: list[Gap] = []
        at = bisect_right(self._stops, start)
        while start < stop:
            next_start = self._starts[at] if at < len(self._starts) else stop
            if start < next_start:
                missing.append(Gap(start, min(next_start, stop)))
            if at == len(self._starts):
                break
            start = self._stops[at]
            at += 1
        return missing


class Assembly:
    """The bytes of one stream, as far as they came."""

    __slots__ = ("_pieces", "_starts", "coverage")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._pieces: list[bytes] = []
        self.coverage = Coverage()

    def add(self, offset: int, data: bytes, end: bool = False) -> None:
        """Take what of these bytes is new; with `end` the stream ends behind them."""
        for start, stop in self.coverage.add(offset, len(data)):
            at = bisect_left(self._starts, start)
            self._starts.insert(at, start)
            self._pieces.insert(at, data[start - offset : stop - offset])
        if end:
            self.coverage.ends_at(offset + len(data))

    def read(self, start: int, length: int) -> list[bytes | Gap]:
        """What lies there, in order: bytes, and gaps by name, up to where the stream or what came ends."""
        stop = start + length
        parts: list[bytes | Gap] = []
        at = max(bisect_right(self._starts, start) - 1, 0)
        while at < len(self._starts) and self._starts[at] < stop:
            begin, piece = self._starts[at], self._pieces[at]
            at += 1
            if begin + len(piece) <= start:
                continue
            if begin > start:
                parts.append(Gap(start, begin))
                start = begin
            part = piece[start - begin : stop - begin]
            parts.append(part)
            start += len(part)
        total = self.coverage.total
        if total is not None and start < min(stop, total):
            parts.append(Gap(start, min(stop, total)))
        return parts
