"""GPUs by device: which ones are free, by how much, and which ones an instance gets.

Less than one GPU is a share of a single device; one or more are whole devices. Amounts are thousandths of a
device. Per row two figures are kept up to date, so that a row is judged by one comparison: the largest share
still free on a device, and the amount that is free in whole devices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DEVICE = "gpu"
WHOLE = 1000

Taken = tuple[int, ...]


class Devices:
    """What is used of every device of every row."""

    def __init__(self, size: int) -> None:
        self.has: NDArray[np.int64] = np.zeros(size, np.int64)
        self.free: NDArray[np.int32] = np.zeros((size, 0), np.int32)
        self.largest: NDArray[np.int64] = np.zeros(size, np.int64)
        self.whole: NDArray[np.int64] = np.zeros(size, np.int64)

    def grow(self, size: int) -> None:
        """Make room for more rows."""
        more = size - len(self.has)
        self.has = np.concatenate([self.has, np.zeros(more, np.int64)])
        self.largest = np.concatenate([self.largest, np.zeros(more, np.int64)])
        self.whole = np.concatenate([self.whole, np.zeros(more, np.int64)])
        self.free = np.concatenate([self.free, np.zeros((more, self.free.shape[1]), np.int32)])

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Rows in a new order."""
        rows = len(order)
        for column in (self.has, self.largest, self.whole, self.free):
            column[:rows] = column[order]

    def equip(self, row: int, amount: int) -> None:
        """The row has this much in devices now; what is used of them stays used."""
        before, now = int(self.has[row]), amount // WHOLE
        self._widen(now)
        self.free[row, before:now] += WHOLE
        self.free[row, now:before] -= WHOLE
        self.has[row] = now
        self._sum(row)

    def choose(self, row: int, amount: int) -> Taken:
        """The tightest device that holds the share, or the first whole ones; those least used if none do."""
        free: list[int] = self.free[row].tolist()
        count = max(1, amount // WHOLE)
        wanted = min(amount, WHOLE)
        self._widen(count)
        fitting = sorted((left, at) for at, left in enumerate(free) if left >= wanted)
        if len(fitting) < count:
            # More than there is: an attempt that its agent reports is counted, whatever it does.
            fitting = sorted((-left, at) for at, left in enumerate(self.free[row].tolist()))
        return tuple(sorted(at for _, at in fitting[:count]))

    def use(self, row: int, devices: Taken, amount: int) -> None:
        """So much of each of these devices is used; less than nothing gives it back."""
        free = self.free[row]
        for at in devices:
            free[at] -= amount
        self._sum(row)

    def fits(self, row: int, amount: int) -> int:
        """How many times this amount fits now."""
        if amount >= WHOLE:
            return int(self.whole[row]) // amount
        free: list[int] = self.free[row].tolist()
        return sum(left // amount for left in free if left > 0)

    def _widen(self, count: int) -> None:
        lacking = count - self.free.shape[1]
        if lacking > 0:
            more = np.zeros((len(self.free), lacking), np.int32)
            self.free = np.concatenate([self.free, more], axis=1)

    def _sum(self, row: int) -> None:
        free: list[int] = self.free[row].tolist()
        self.largest[row] = max(free, default=0)
        self.whole[row] = WHOLE * free.count(WHOLE)


def rounded(amount: int) -> int:
    """More than one device is whole devices."""
    return amount if amount <= WHOLE else -(-amount // WHOLE) * WHOLE


def of_each(amount: int) -> int:
    """How much of each of its devices an instance takes."""
    return min(amount, WHOLE)
