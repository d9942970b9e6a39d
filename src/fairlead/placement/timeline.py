"""What will be free when, if everything ends at its limit: where a lot can start, and what may go before it.

Time is cut at the instants at which something ends or is booked to begin. A booking is exact by agent, so a
lot that is placed around it never delays it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairlead.placement.columns import needs_of
from fairlead.placement.scale import LIMIT, Ints, Mask
from fairlead.placement.shapes import Interned
from fairlead.placement.table import AgentTable

Seats = list[tuple[int, int]]
# Work without a limit is taken to run so long: nothing is promised after it.
FOREVER = 1 << 60


class Booking:
    """A lot's place in time; `seats` are (row, how many)."""

    __slots__ = ("end", "seats", "shape", "start")

    def __init__(self, shape: Interned, start: int, end: int, seats: Seats) -> None:
        self.shape = shape
        self.start = start
        self.end = end
        self.seats = seats


class Timeline:
    """Free amounts by instant, resource and row."""

    def __init__(self, table: AgentTable, now: int) -> None:
        table.settle()
        self.table = table
        self.rows = len(table)
        self.times: list[int] = [now]
        self._free: NDArray[np.int64] = self._present()

    def _present(self) -> Ints:
        columns = [column[: self.rows] for column in self.table.free]
        return np.array(columns, np.int64).reshape(1, len(columns), self.rows)

    def ends(self, running: Sequence[tuple[Interned, int, int, int]]) -> None:
        """What runs gives its room back at its end: (shape, agent, how many, when)."""
        instants = sorted({max(end, self.times[0]) for _, _, _, end in running} - set(self.times))
        added = len(instants)
        self._free = np.repeat(self._free[:1], added + 1, axis=0)
        self.times = [self.times[0], *instants]
        gains = np.zeros_like(self._free)
        for shape, number, many, end in running:
            at = bisect_left(self.times, end) if end > self.times[0] else 0
            row = self.table.rows[number]
            for column, amount in zip(shape.columns, shape.amounts, strict=True):
                gains[at, column, row] += amount * many
        self._free += np.cumsum(gains, axis=0)

    def forward(self, now: int) -> None:
        """What lies before is forgotten."""
        at = bisect_right(self.times, now) - 1
        if at > 0:
            self.times = self.times[at:]
            self._free = self._free[at:]
        self.times[0] = now

    def earliest(self, shape: Interned, count: int, run_ms: int, only_now: bool = False) -> Booking | None:
        """The first instant from which so many fit for so long; None if they never do."""
        able = self._able(shape)
        run = run_ms or FOREVER
        for at, start in enumerate(self.times[:1] if only_now else self.times):
            until = bisect_left(self.times, start + run)
            fits = self._fits(shape, self._free[at:until].min(axis=0), able)
            if int(fits.sum()) >= count:
                return Booking(shape, start, start + run, _seats(fits, count))
        return None

    def book(self, booking: Booking) -> None:
        """Its room is taken from its start to its end."""
        self._change(booking, -1)

    def cancel(self, booking: Booking) -> None:
        """Its room is free again."""
        self._change(booking, 1)

    def _change(self, booking: Booking, sign: int) -> None:
        first, last = self._cut(booking.start), self._cut(booking.end)
        for row, many in booking.seats:
            for column, amount in zip(booking.shape.columns, booking.shape.amounts, strict=True):
                self._free[first:last, column, row] += sign * amount * many

    def _cut(self, instant: int) -> int:
        """The index of the instant, made if it is none yet."""
        if instant <= self.times[0]:
            return 0
        at = bisect_left(self.times, instant)
        if at == len(self.times) or self.times[at] != instant:
            self.times.insert(at, instant)
            self._free = np.insert(self._free, at, self._free[at - 1], axis=0)
        return at

    def _able(self, shape: Interned) -> Mask:
        rows = self.rows
        able: Mask = (self.table.columns.of(shape).offset < LIMIT) & self.table.open[:rows]
        for need in needs_of(self.table, shape):
            if need.amount == 0:
                able &= need.column[:rows] >= 0
        return able

    def _fits(self, shape: Interned, free: Ints, able: Mask) -> Ints:
        fits = np.full(self.rows, FOREVER, np.int64)
        for column, amount in zip(shape.columns, shape.amounts, strict=True):
            if amount:
                np.minimum(fits, free[column] // amount, out=fits)
        return np.where(able, np.clip(fits, 0, 1 << 32), 0)


def _seats(fits: Ints, count: int) -> Seats:
    """The rows with least room first: they are full, and leave the large ones whole."""
    found: Seats = []
    for row in np.argsort(fits, kind="stable").tolist():
        many = min(count, int(fits[row]))
        if many:
            found.append((row, many))
            count -= many
            if not count:
                break
    return found
