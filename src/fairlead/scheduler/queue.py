"""What waits for a place, and in which order it is tried.

Lots of one shape form a line: higher priority first, then arrival, then job. Shapes, not instances, set the
cost: a blocked shape is one look, however many wait behind its head.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from fairlead.model.wall import Offer
from fairlead.placement.table import Interned

Order = tuple[int, int, int, int]


class Lot:
    """Instances of one job that want the same attempt number; spans are taken from the front."""

    __slots__ = ("counts", "firsts", "offer", "order", "shape")

    def __init__(self, offer: Offer, shape: Interned) -> None:
        self.offer = offer
        self.shape = shape
        # Reversed, so that the next span is popped from the end.
        self.firsts = offer.first[::-1]
        self.counts = offer.count[::-1]
        first = offer.first[0] if offer.first else 0
        self.order: Order = (-offer.priority, offer.arrival, offer.job, first)

    def total(self) -> int:
        """How many instances wait in it."""
        return sum(self.counts)

    def take(self, count: int) -> Iterator[tuple[int, int]]:
        """The next `count` instances as (first, count)."""
        while count:
            first, has = self.firsts[-1], self.counts[-1]
            if has <= count:
                self.firsts.pop()
                self.counts.pop()
                yield first, has
                count -= has
            else:
                self.firsts[-1] += count
                self.counts[-1] -= count
                yield first, count
                count = 0

    def remove(self, first: int, count: int) -> None:
        """These instances wait no more."""
        firsts: list[int] = []
        counts: list[int] = []
        for has_first, has in zip(self.firsts, self.counts, strict=True):
            for kept_first, kept in _without(has_first, has, first, count):
                firsts.append(kept_first)
                counts.append(kept)
        self.firsts, self.counts = firsts, counts


def _without(first: int, count: int, gone: int, many: int) -> Iterator[tuple[int, int]]:
    """A span without another, later part first as lots keep them."""
    end, gone_end = first + count, gone + many
    if gone_end <= first or gone >= end:
        yield first, count
        return
    if gone_end < end:
        yield gone_end, end - gone_end
    if gone > first:
        yield first, gone - first


class Line:
    """The lots of one shape in order."""

    __slots__ = ("blocked_at", "heap", "shape")

    def __init__(self, shape: Interned) -> None:
        self.shape = shape
        self.heap: list[tuple[Order, int, Lot]] = []
        # The table's room version at which the head found no place; -1: not blocked.
        self.blocked_at = -1

    def drop_head(self) -> None:
        """The head has nothing left to place."""
        heapq.heappop(self.heap)


class Queue:
    """All lines, and the lots by job."""

    def __init__(self) -> None:
        self.lines: dict[int, Line] = {}
        self.by_job: dict[int, list[Lot]] = {}
        self.waiting = 0
        self._arrivals = 0
        # The room version at which every line was found blocked; and where a step that was cut goes on.
        self._tried_at = -1
        self._go_on: tuple[Order, int] | None = None

    def add(self, lot: Lot) -> None:
        """One more lot; it may come before the blocked head, so its line is tried again."""
        line = self.lines.get(id(lot.shape))
        if line is None:
            line = self.lines[id(lot.shape)] = Line(lot.shape)
        self._arrivals += 1
        self._tried_at = -1
        heapq.heappush(line.heap, (lot.order, self._arrivals, lot))
        if line.heap[0][2] is lot:
            line.blocked_at = -1
        self.by_job.setdefault(lot.offer.job, []).append(lot)
        self.waiting += lot.total()

    def withdraw(self, job: int, first: int, count: int) -> None:
        """Take instances out wherever they wait."""
        lots = self.by_job.get(job, [])
        for lot in lots:
            before = lot.total()
            lot.remove(first, count)
            self.waiting -= before - lot.total()
        self._keep(job, [lot for lot in lots if lot.firsts])

    def took(self, lot: Lot, count: int) -> None:
        """So many of a lot have a place now."""
        self.waiting -= count
        if not lot.firsts:
            job = lot.offer.job
            self._keep(job, [other for other in self.by_job.get(job, []) if other is not lot])

    def heads(self, room_version: int) -> list[Line]:
        """The lines worth trying, best head first, from where the last step stopped; what is empty goes."""
        if self._tried_at == room_version:
            return []
        found: list[tuple[Order, int, Line]] = []
        for key, line in list(self.lines.items()):
            while line.heap and not line.heap[0][2].firsts:
                heapq.heappop(line.heap)
                line.blocked_at = -1
            if not line.heap:
                del self.lines[key]
            elif line.blocked_at != room_version:
                found.append((line.heap[0][0], line.heap[0][1], line))
        found.sort(key=lambda item: item[:2])
        if self._go_on is not None:
            later = [item for item in found if item[:2] >= self._go_on]
            found = later + found[: len(found) - len(later)]
            self._go_on = None
        return [line for _, _, line in found]

    def go_on_at(self, line: Line) -> None:
        """The step's decisions are used up before this line."""
        self._go_on = (line.heap[0][0], line.heap[0][1]) if line.heap else None

    def all_tried(self, room_version: int, decisions: int) -> None:
        """Every line was looked at: nothing more fits until room changes or something is added."""
        if decisions:
            self._tried_at = room_version

    def _keep(self, job: int, lots: list[Lot]) -> None:
        if lots:
            self.by_job[job] = lots
        else:
            self.by_job.pop(job, None)
