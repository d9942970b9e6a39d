"""A batch queue replayed on the engine: the same jobs, our order, our backfilling.

Every processor is a slot of an agent; a job is a lot whose instances start together. What the replay decides
is decided by `placement`: nothing here knows whether something fits.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from fairlead.model.asks import Ask
from fairlead.placement.backfill import Promises, Wish, easy
from fairlead.placement.shapes import Interned
from fairlead.placement.table import AgentTable
from fairlead.placement.timeline import Booking, Timeline
from fairlead.sim.traces.reading import TraceJob

# Below this a run time says nothing about slowness.
SHORTEST_RUN_MS = 10_000

Rank = Callable[[TraceJob, int], tuple[float, int]]


class Started(Struct, frozen=True, gc=False):
    """When a job started, and when it had been promised to at its submission; -1: nothing was."""

    job: TraceJob
    at: int
    promised: int = -1

    @property
    def wait(self) -> int:
        """How long it waited."""
        return self.at - self.job.submitted

    @property
    def slowdown(self) -> float:
        """Time in the system over run time, bounded from below."""
        run = max(self.job.run_ms, SHORTEST_RUN_MS)
        return max(1.0, (self.wait + self.job.run_ms) / run)


def _arrival(job: TraceJob, _: int) -> tuple[float, int]:
    return (0.0, job.submitted)


def _short(job: TraceJob, _: int) -> tuple[float, int]:
    return (float(job.limit_ms), job.submitted)


def _narrow(job: TraceJob, _: int) -> tuple[float, int]:
    return (job.limit_ms * math.sqrt(job.size), job.submitted)


def _small(job: TraceJob, _: int) -> tuple[float, int]:
    return (float(job.limit_ms * job.size), job.submitted)


def _aging(job: TraceJob, now: int) -> tuple[float, int]:
    """Waiting in units of its own limit, cubed, for wide jobs more: short ones soon, none for ever last."""
    waited = (now - job.submitted) / max(job.limit_ms, 1)
    return (-(waited**3) * job.size, job.submitted)


ORDERS: dict[str, Rank] = {
    "arrival": _arrival,
    "short": _short,
    "narrow": _narrow,
    "small": _small,
    "aging": _aging,
}


def machines(count: int, slots: int) -> AgentTable:
    """So many agents with so many slots each."""
    table = AgentTable()
    for number in range(1, count + 1):
        table.set_agent(number, {"slots": slots}, {})
        table.set_open(number, True)
    return table


class Replay:
    """One trace, one cluster, one discipline."""

    def __init__(
        self, table: AgentTable, jobs: Sequence[TraceJob], progress: Callable[[int], None] | None = None
    ):
        self.table = table
        self.shape: Interned = table.intern(Ask((("slots", 1),)))
        self.jobs = {job.key: job for job in jobs}
        self.coming = sorted(jobs, key=lambda job: (job.submitted, job.key))
        self.ends: list[tuple[int, int]] = []
        self.started: list[Started] = []
        self.progress = progress

    def _instants(self) -> int | None:
        coming = self.coming[self._next].submitted if self._next < len(self.coming) else None
        ending = self.ends[0][0] if self.ends else None
        return min((at for at in (coming, ending) if at is not None), default=None)

    def _start(self, key: int, at: int, promised: int = -1) -> None:
        job = self.jobs[key]
        # What passes its limit is ended there.
        heapq.heappush(self.ends, (at + min(job.run_ms, job.limit_ms), key))
        self.started.append(Started(job, at, promised))
        if self.progress is not None:
            self.progress(len(self.started))

    def easy(self, order: str, depth: int = 1) -> list[Started]:
        """The first `depth` that wait are promised a start, at every event anew; others go before them."""
        rank = ORDERS[order]
        waiting: dict[int, TraceJob] = {}
        running: dict[int, Booking] = {}
        self._next = 0
        while (now := self._instants()) is not None:
            while self.ends and self.ends[0][0] == now:
                booking = running.pop(heapq.heappop(self.ends)[1])
                for row, many in booking.seats:
                    self.table.give(self.shape, self.table.numbers[row], many)
            while self._next < len(self.coming) and self.coming[self._next].submitted == now:
                job = self.coming[self._next]
                waiting[job.key] = job
                self._next += 1
            timeline = Timeline(self.table, now)
            timeline.ends([
                (self.shape, self.table.numbers[row], many, booking.end)
                for booking in running.values()
                for row, many in booking.seats
            ])  # fmt: skip
            queue = sorted(waiting.values(), key=lambda job: (rank(job, now), job.key))
            wishes = [Wish(job.key, self.shape, job.size, job.limit_ms) for job in queue]
            for key, booking in easy(timeline, wishes, depth).start:
                del waiting[key]
                running[key] = booking
                for row, many in booking.seats:
                    self.table.take(self.shape, self.table.numbers[row], many)
                self._start(key, now)
        return self.started

    def conservative(self) -> list[Started]:
        """Everybody is promised a start at submission, which only ever comes nearer."""
        promises = Promises(Timeline(self.table, 0))
        promised: dict[int, int] = {}
        self._next = 0
        while (now := self._soonest(promises)) is not None:
            while self.ends and self.ends[0][0] == now:
                promises.ended(heapq.heappop(self.ends)[1], now)
            while self._next < len(self.coming) and self.coming[self._next].submitted == now:
                job = self.coming[self._next]
                self._next += 1
                start = promises.submit(Wish(job.key, self.shape, job.size, job.limit_ms), now)
                promised[job.key] = -1 if start is None else start
            for key, _ in promises.due(now):
                self._start(key, now, promised[key])
        return self.started

    def _soonest(self, promises: Promises) -> int | None:
        due = min((booking.start for _, booking in promises.waiting.values()), default=None)
        event = self._instants()
        return min((at for at in (due, event) if at is not None), default=None)


def summary(started: Sequence[Started]) -> dict[str, float]:
    """What a queue is judged by; times in seconds."""
    waits = [each.wait / 1000 for each in started]
    return {
        "jobs": len(started),
        "mean_wait_s": sum(waits) / len(waits),
        "max_wait_s": max(waits),
        "mean_bounded_slowdown": sum(each.slowdown for each in started) / len(started),
        "makespan_s": (
            max(each.at + each.job.run_ms for each in started) - min(each.job.submitted for each in started)
        )
        / 1000,
    }
