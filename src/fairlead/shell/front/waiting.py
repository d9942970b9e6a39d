"""Follows control's segments once for all who wait: rings those whose work changed, keeps the recent ones.

A waiter is woken and then asks control for the state; it never computes a state from the segments itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from fairlead.model.changes import Change, Part
from fairlead.model.errors import Problem
from fairlead.model.keys import Keys

from .link import ControlLink

log = logging.getLogger(__name__)

# What is kept for followers of events who come back: rows of columns, whatever the number of segments.
KEPT_ROWS = 500_000
AGAIN_FIRST_S = 0.1
AGAIN_LAST_S = 2.0
# A waiter looks at most so often while its job changes, and at least so often whatever it hears: starting and
# running are in no segment.
LOOK_SOONEST_S = 0.05
LOOK_FIRST_S = 0.25
LOOK_LAST_S = 15.0


class Feed:
    """The segments as they become durable."""

    def __init__(self, link: ControlLink) -> None:
        self._link = link
        self._open: list[Part] = []
        self._rows: deque[int] = deque()
        self._total = 0
        self._by_job: dict[int, set[asyncio.Event]] = {}
        self._any: set[asyncio.Event] = set()
        self.parts: deque[Part] = deque()
        # Segments below this one are not kept any more.
        self.floor = 0
        self.head = 0
        self.resyncs = 0

    async def run(self) -> None:
        """Follow, and follow again from there when the link was cut; runs for ever."""
        pause = AGAIN_FIRST_S
        while True:
            try:
                async for said in self._link.follow(self.head + 1 if self.head else 0):
                    pause = AGAIN_FIRST_S
                    if isinstance(said, Part):
                        self.hear(said)
                    else:
                        self.jump(said.since)
            except (OSError, TimeoutError) as fault:
                log.warning("the link to control is cut: %s", fault)
            self._ring_all()
            await asyncio.sleep(pause)
            pause = min(pause * 2, AGAIN_LAST_S)

    def hear(self, part: Part) -> None:
        """One segment. Parts of a batch count when its last one is here; without it they are void."""
        if part.n <= self.head:
            return
        self.head = part.n
        if self._open and self._open[0].batch != part.batch:
            self._open.clear()
        self._open.append(part)
        if part.more:
            return
        whole, self._open = self._open, []
        for one in whole:
            self._keep(one)
        self._ring(job for one in whole for change in one.changes for job in jobs_of(change))

    def jump(self, since: int) -> None:
        """Segments before that one were not told: everybody looks anew."""
        self.resyncs += 1
        self._open.clear()
        self.parts.clear()
        self._rows.clear()
        self._total = 0
        self.floor = since
        self.head = since - 1
        self._ring_all()

    def _keep(self, part: Part) -> None:
        if not self.parts and not self.floor:
            self.floor = part.n
        rows = 1 + sum(len(jobs_of(change)) for change in part.changes)
        self.parts.append(part)
        self._rows.append(rows)
        self._total += rows
        while self._total > KEPT_ROWS and len(self.parts) > 1:
            self.floor = self.parts.popleft().n + 1
            self._total -= self._rows.popleft()

    def _ring(self, jobs: Iterable[int]) -> None:
        for job in set(jobs) if self._by_job else ():
            for bell in self._by_job.get(job, ()):
                bell.set()
        for bell in self._any:
            bell.set()

    def _ring_all(self) -> None:
        for bells in (*self._by_job.values(), self._any):
            for bell in bells:
                bell.set()

    @contextmanager
    def listening(self, jobs: Iterable[int], bell: asyncio.Event) -> Iterator[None]:
        """Ring the bell when one of these jobs changes; when anything does, where no job is named."""
        places = [self._by_job.setdefault(job, set()) for job in jobs] or [self._any]
        for place in places:
            place.add(bell)
        try:
            yield
        finally:
            for place in places:
                place.discard(bell)
            for job in jobs:
                if not self._by_job.get(job, True):
                    del self._by_job[job]


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


async def until(
    feed: Feed, look: Look, jobs: Callable[[Item], list[int]], done: Callable[[Item], bool], seconds: float
) -> Item | Problem:
    """The item once it is done, or as it is when the time is over; at once when it is not to be seen."""
    ends = time.monotonic() + seconds
    item = await look()
    if isinstance(item, Problem) or done(item) or seconds <= 0:
        return item
    bell = asyncio.Event()
    pause = LOOK_FIRST_S
    with feed.listening(jobs(item), bell):
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
