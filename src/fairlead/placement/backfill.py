"""Who may start before older work that cannot: nobody whose start would delay what was promised.

`easy` promises a start to the first lots that have to wait, as many as `depth` says, and lets others go
before them wherever that changes nothing for them. `Promises` gives every lot a start when it comes, and
only ever moves it forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from fairlead.placement.shapes import Interned
from fairlead.placement.timeline import Booking, Timeline

# When something ends early, so many of the lots that wait longest may move forward.
MOST_MOVED = 64


class Wish(NamedTuple):
    """A lot whose instances start together, and the longest they may run; 0: nobody knows."""

    key: int
    shape: Interned
    size: int
    run_ms: int


class Plan(NamedTuple):
    """What starts now, and what was promised to those that wait."""

    start: list[tuple[int, Booking]]
    promised: list[tuple[int, Booking]]


def easy(timeline: Timeline, waiting: Sequence[Wish], depth: int = 1) -> Plan:
    """The lots in their order; those that cannot start now and are not promised anything are passed over."""
    now = timeline.times[0]
    plan = Plan([], [])
    blocked: set[tuple[int, int, int]] = set()
    for wish in waiting:
        # What did not fit once does not fit for longer or for more either, since room only goes.
        kind = (id(wish.shape), wish.size, wish.run_ms)
        if kind in blocked:
            continue
        full = len(plan.promised) >= depth
        booking = timeline.earliest(wish.shape, wish.size, wish.run_ms, only_now=full)
        if booking is None:
            blocked.add(kind)
            continue
        if booking.start == now:
            plan.start.append((wish.key, booking))
            timeline.book(booking)
        else:
            plan.promised.append((wish.key, booking))
            timeline.book(booking)
    return plan


class Promises:
    """Every lot's promised start; later than it was told at first it never becomes."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.waiting: dict[int, tuple[Wish, Booking]] = {}
        self.running: dict[int, Booking] = {}
        # What each waiting lot was told when it came.
        self.promised: dict[int, int] = {}

    def submit(self, wish: Wish, now: int) -> int | None:
        """A lot comes: when it will start at the latest; None if it never fits."""
        self.timeline.forward(now)
        booking = self.timeline.earliest(wish.shape, wish.size, wish.run_ms)
        if booking is None:
            return None
        self.timeline.book(booking)
        self.waiting[wish.key] = (wish, booking)
        self.promised[wish.key] = booking.start
        return booking.start

    def ended(self, key: int, now: int) -> None:
        """A lot ended; what it was still booked for is free."""
        self.timeline.forward(now)
        booking = self.running.pop(key)
        if booking.end > now:
            self.timeline.cancel(Booking(booking.shape, now, booking.end, booking.seats))
            self._forward()

    def due(self, now: int) -> list[tuple[int, Booking]]:
        """Lots whose time has come, now running."""
        self.timeline.forward(now)
        found = [(key, booking) for key, (_, booking) in self.waiting.items() if booking.start <= now]
        for key, booking in found:
            del self.waiting[key], self.promised[key]
            self.running[key] = booking
        return found

    def _forward(self) -> None:
        """Everybody anew in the order of arrival; if that breaks a promise, each by itself, none later."""
        oldest = dict(islice(self.waiting.items(), MOST_MOVED))
        before = {key: booking for key, (_, booking) in oldest.items()}
        for booking in before.values():
            self.timeline.cancel(booking)
        anew: dict[int, Booking] = {}
        for key, (wish, _) in oldest.items():
            found = self.timeline.earliest(wish.shape, wish.size, wish.run_ms)
            if found is None or found.start > self.promised[key]:
                break
            self.timeline.book(found)
            anew[key] = found
        if len(anew) == len(before):
            self._settle(anew)
            return
        for booking in anew.values():
            self.timeline.cancel(booking)
        for booking in before.values():
            self.timeline.book(booking)
        self._closer(oldest)

    def _closer(self, oldest: dict[int, tuple[Wish, Booking]]) -> None:
        """Each as early as the others' places leave room; its own is one way."""
        for key, (wish, booking) in oldest.items():
            self.timeline.cancel(booking)
            sooner = self.timeline.earliest(wish.shape, wish.size, wish.run_ms)
            if sooner is None or sooner.start >= booking.start:
                sooner = booking
            self.timeline.book(sooner)
            self.waiting[key] = (wish, sooner)

    def _settle(self, found: dict[int, Booking]) -> None:
        for key, booking in found.items():
            self.waiting[key] = (self.waiting[key][0], booking)


class Estimate(NamedTuple):
    """When a lot will start: if work ends as it usually does, and if everything runs to its limit."""

    soonest: int
    latest: int | None


def estimate(
    usual: Timeline, limits: Timeline, waiting: Sequence[Wish], usual_ms: Sequence[int]
) -> list[Estimate]:
    """For each waiting lot in order; `usual_ms` are the run times expected of them."""
    found = []
    for wish, expected in zip(waiting, usual_ms, strict=True):
        first = usual.earliest(wish.shape, wish.size, expected)
        last = limits.earliest(wish.shape, wish.size, wish.run_ms)
        if first:
            usual.book(first)
        if last:
            limits.book(last)
        soonest = first.start if first else usual.times[0]
        found.append(Estimate(min(soonest, last.start) if last else soonest, last.start if last else None))
    return found
