"""Follows control's segments once for all who wait: rings those whose work changed, keeps the recent ones.

A waiter is woken and then asks control for the state; it never computes a state from the segments itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from fairlead.base.ids import find_job_number
from fairlead.model.changes import Change, Part
from fairlead.model.errors import Problem
from fairlead.model.keys import Keys
from fairlead.model.limits import ATTEND_MS
from fairlead.model.requests import LOOK_ROWS, Attend

from .link import ControlLink, Ring

log = logging.getLogger(__name__)

# A job by number, and an instance of it where only that one matters.
Place = tuple[int, int | None]

# What is kept for followers of events who come back: rows of columns, whatever the number of segments.
KEPT_ROWS = 500_000
AGAIN_FIRST_S = 0.1
AGAIN_LAST_S = 2.0
# A waiter looks at most so often while its job changes, and at least so often whatever it hears: starting and
# running are in no segment.
LOOK_SOONEST_S = 0.05
# Who follows one instance hears only of it, and little: its end is not to wait.
LOOK_ONE_SOONEST_S = 0.005
LOOK_FIRST_S = 0.25
LOOK_LAST_S = 15.0


class Feed:
    """The segments as they become durable."""

    def __init__(self, link: ControlLink) -> None:
        self._link = link
        self._open: list[Part] = []
        self._rows: deque[int] = deque()
        self._total = 0
        # Who waits for a job, for one instance of a job, for anything.
        self._jobs: dict[int, set[Ring]] = {}
        self._instances: dict[int, dict[int, set[Ring]]] = {}
        self._any: set[Ring] = set()
        self.parts: deque[Part] = deque()
        # Segments below this one are not kept any more.
        self.floor = 0
        # The last segment heard, and the last with which a batch was whole.
        self.head = 0
        self.whole = 0
        self.resyncs = 0

    async def run(self) -> None:
        """Follow, and follow again from there when the link was cut; runs for ever."""
        pause = AGAIN_FIRST_S
        while True:
            try:
                async for said in self._link.follow(self.head + 1):
                    pause = AGAIN_FIRST_S
                    if isinstance(said, Part):
                        self.hear(said)
                    else:
                        self.jump(said.since)
            except (OSError, TimeoutError) as fault:
                log.warning("the link to control is cut: %s", fault)
            self.ring_all()
            await asyncio.sleep(pause)
            pause = min(pause * 2, AGAIN_LAST_S)

    def hear(self, part: Part) -> None:
        """One segment. Parts of a batch count when its last one is here; without it they are void."""
        if part.n <= self.head:
            return
        self.head = part.n
        self.floor = self.floor or part.n
        if self._open and self._open[0].batch != part.batch:
            self._open.clear()
        self._open.append(part)
        if part.more:
            return
        self.whole = part.n
        whole, self._open = self._open, []
        for one in whole:
            self._keep(one)
        for one in whole:
            for change in one.changes:
                self._ring(change)
        _ring(self._any)

    async def attend(self) -> None:
        """Tell control for which jobs somebody waits, again and again: their callers are not gone."""
        while True:
            jobs = sorted({*self._jobs, *self._instances})
            if jobs:
                with suppress(OSError, TimeoutError):
                    await self._link.ask(Attend(jobs), ATTEND_MS)
            await asyncio.sleep(ATTEND_MS / 1000)

    def jump(self, since: int) -> None:
        """Segments before that one were not told: everybody looks anew."""
        self.resyncs += 1
        self._open.clear()
        self.parts.clear()
        self._rows.clear()
        self._total = 0
        self.floor = since
        self.head = self.whole = since - 1
        self.ring_all()

    def _keep(self, part: Part) -> None:
        rows = 1 + sum(len(jobs_of(change)) for change in part.changes)
        self.parts.append(part)
        self._rows.append(rows)
        self._total += rows
        while self._total > KEPT_ROWS and len(self.parts) > 1:
            self.floor = self.parts.popleft().n + 1
            self._total -= self._rows.popleft()

    def _ring(self, change: Change) -> None:
        for job in set(jobs_of(change)) if self._jobs else ():
            _ring(self._jobs.get(job, ()))
        keys: Keys | None = getattr(change, "keys", None)
        for job, first, count, _ in keys.spans() if self._instances and keys is not None else ():
            waiting = self._instances.get(job, {})
            near = range(first, first + count) if count < len(waiting) else list(waiting)
            for index in near:
                if first <= index < first + count:
                    _ring(waiting.get(index, ()))

    def ring_all(self) -> None:
        """Everybody looks anew."""
        for bells in (*self._jobs.values(), self._any):
            _ring(bells)
        for waiting in self._instances.values():
            for bells in waiting.values():
                _ring(bells)

    @contextmanager
    def listening(self, places: Iterable[Place], bell: Ring) -> Iterator[None]:
        """Ring the bell when one of these changes; when anything does, where nothing is named."""
        named = list(places)
        for bells in [self._bells(place) for place in named] or [self._any]:
            bells.add(bell)
        try:
            yield
        finally:
            self._any.discard(bell)
            for job, index in named:
                self._bells((job, index)).discard(bell)
                if index is not None and not self._instances[job][index]:
                    del self._instances[job][index]
                if not self._instances.get(job, True):
                    del self._instances[job]
                if not self._jobs.get(job, True):
                    del self._jobs[job]

    def _bells(self, place: Place) -> set[Ring]:
        job, index = place
        if index is None:
            return self._jobs.setdefault(job, set())
        return self._instances.setdefault(job, {}).setdefault(index, set())


def _ring(bells: Iterable[Ring]) -> None:
    for bell in bells:
        bell.set()


def jobs_of(change: Change) -> list[int]:
    """The numbers of the jobs a change speaks of."""
    keys: Keys | None = getattr(change, "keys", None)
    found: list[int] = getattr(change, "job", []) if keys is None else keys.job
    return found


async def rung(bell: asyncio.Event, seconds: float) -> bool:
    """Wait for the bell, at most so long; and muffle it."""
    try:
        async with asyncio.timeout(seconds):
            await bell.wait()
    except TimeoutError:
        return False
    bell.clear()
    return True


Item = dict[str, Any]
Look = Callable[[], Awaitable[Item | Problem]]


def instance_of(item: Item) -> tuple[int, int]:
    """The numbers behind the id of an instance."""
    job, _, index = str(item["id"]).rpartition("/")
    number = find_job_number(job)
    if number is None or not index.isdecimal():
        raise ValueError(f"control calls an instance {item['id']}")
    return number, int(index)


def places_of(item: Item) -> list[Place]:
    """What to listen to for an item: an instance, a job, or the jobs of a submission."""
    if "index" in item:
        return [instance_of(item)]
    jobs = item.get("jobs", ())
    if len(jobs) >= LOOK_ROWS:
        # Not all of them are named, so whatever happens may be news.
        return []
    ids = [item.get("id"), *jobs]
    found = [find_job_number(str(one.get("id") if isinstance(one, dict) else one)) for one in ids]
    return [(number, None) for number in found if number is not None]


async def until(feed: Feed, look: Look, done: Callable[[Item], bool], seconds: float) -> Item | Problem:
    """The item once it is done, or as it is when the time is over; at once when it is not to be seen."""
    ends = time.monotonic() + seconds
    item = await look()
    if isinstance(item, Problem) or done(item) or seconds <= 0:
        return item
    bell = asyncio.Event()
    pause = LOOK_FIRST_S
    with feed.listening(places_of(item), bell):
        while True:
            # Again inside: what happened between the first look and now rang no bell.
            looked = time.monotonic()
            item = await look()
            left = ends - time.monotonic()
            if isinstance(item, Problem) or done(item) or left <= 0:
                return item
            if await rung(bell, min(pause, left)):
                pause = LOOK_FIRST_S
                await asyncio.sleep(looked + LOOK_SOONEST_S - time.monotonic())
            else:
                pause = min(pause * 2, LOOK_LAST_S)
