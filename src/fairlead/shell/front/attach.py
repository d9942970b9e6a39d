"""Streams of one instance: its raw log, and its output with what happens to it in frames.

A frame is `type u8, length u32 big endian, payload`: 1 stdout, 2 stderr, 0 a JSON event. A stream of frames
resumes by the offsets of both logs and ends only after all output is there, or is known to lack bytes. Bytes
are pulled by offset; a slow reader holds up nobody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from fairlead.model.blocks import ERR, OUT
from fairlead.model.errors import Problem
from fairlead.model.requests import Look

from .logs import Reader
from .routes_work import find, has_ended, has_output, looks_as
from .site import Site
from .table import Call
from .waiting import LOOK_FIRST_S, LOOK_LAST_S, LOOK_ONE_SOONEST_S, Item, instance_of, rung

log = logging.getLogger(__name__)

# Each follower is a connection and some hundred KB at most; more would take what deciding needs.
FOLLOWERS = 1_000
BEAT_S = 15.0
EVENT = 0
NAMES = {OUT: "out", ERR: "err"}


def frame(kind: int, payload: bytes) -> bytes:
    """One frame."""
    return bytes((kind,)) + len(payload).to_bytes(4, "big") + payload


def event(word: str, **more: Any) -> bytes:
    """One event as a frame."""
    return frame(EVENT, msgspec.json.encode({"event": word, **more}))


class Cut(ConnectionError):
    """A raw log cannot say that bytes are missing: the answer is cut there, and asking again says why."""


class Following:
    """One instance that somebody follows: what control says of it, and readers of its current attempt."""

    def __init__(self, site: Site, asked: Look, item: Item) -> None:
        self.site = site
        self.item = item
        self.attempt = 0
        self.offsets = [0, 0]
        self._asked = asked
        self._where = instance_of(item)
        self._bell = Bell()
        self._readers: list[Reader] = []
        self._stack = ExitStack()
        self._looked = time.monotonic()
        self._pause = LOOK_FIRST_S
        self._refreshed = False

    def __enter__(self) -> Following:
        self._stack.enter_context(self.site.feed.listening([self._where], self._bell.news))
        self.site.followers += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.site.followers -= 1
        self.leave()
        self._stack.close()

    @property
    def now(self) -> int:
        """The current attempt, 0 when there is none."""
        return int(self.item["attempt"] or 0)

    def turn_to(self, attempt: int, term: int) -> None:
        """Read that attempt, from the offsets on."""
        self.leave()
        self.attempt = attempt
        if not attempt:
            return
        keys = [(*self._where, attempt, term, stream) for stream in (OUT, ERR)]
        self._readers = [self.site.logs.open(key) for key in keys]
        for reader in self._readers:
            reader.listen(self._bell)

    def leave(self) -> None:
        """Read nothing any more."""
        for reader in self._readers:
            reader.leave(self._bell)
            reader.close()
        self._readers = []

    async def read(self, stream: int) -> bytes:
        """The next bytes of a log, none when none are here (yet)."""
        if not self._readers:
            return b""
        data = await self._readers[stream].read(self.offsets[stream])
        self.offsets[stream] += len(data)
        return data

    def hole(self, stream: int) -> int | None:
        """Where the bytes of a log go on behind those that are missing; None when none are known to be."""
        if not self._readers:
            return None
        at, reader = self.offsets[stream], self._readers[stream]
        if reader.find(at) is not None:
            return None
        after = reader.following(at)
        if after is None and reader.total is not None and reader.total > at:
            after = reader.total
        return after

    async def settled(self) -> bool:
        """Is nothing more to come? What other fronts stored is looked for once before saying so."""
        over = self.now and self.attempt not in (0, self.now)
        if not over and not (has_ended(self.item) and has_output(self.item)):
            return False
        if self._refreshed:
            return True
        try:
            await self.site.logs.refresh()
        except OSError as fault:
            log.warning("the store of output does not answer: %s", fault)
            return False
        self._refreshed = True
        self._bell.set()
        return False

    async def lost(self, stream: int) -> int | None:
        """A hole that nothing will fill any more, by where the bytes go on."""
        if self.hole(stream) is None:
            return None
        final = await self.settled() or await self.settled()
        return self.hole(stream) if final else None

    def due(self) -> float:
        """In how many seconds to ask control again."""
        pause = LOOK_ONE_SOONEST_S if self._bell.changed else self._pause
        return max(0.0, self._looked + pause - time.monotonic())

    async def look(self) -> bool:
        """Ask control how it is; whether anything is new. Looks become rare while nothing is."""
        self._pause = LOOK_FIRST_S if self._bell.changed else min(self._pause * 2, LOOK_LAST_S)
        self._bell.changed = False
        self._looked = time.monotonic()
        item = await find(self.site, self._asked)
        if isinstance(item, Problem) or item == self.item:
            return False
        self.item = item
        self._refreshed = False
        self._pause = LOOK_FIRST_S
        return True

    async def rest(self, seconds: float) -> None:
        """Wait until there may be news."""
        await rung(self._bell.event, min(seconds, self.due()))


class Bell:
    """Wakes a follower, and tells whether it was control that had news."""

    __slots__ = ("changed", "event", "news")

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.changed = False
        self.news = News(self)

    def set(self) -> None:
        """There may be bytes."""
        self.event.set()


class News:
    """The side of a bell that the segments ring."""

    __slots__ = ("_bell",)

    def __init__(self, bell: Bell) -> None:
        self._bell = bell

    def set(self) -> None:
        """The state may be another."""
        self._bell.changed = True
        self._bell.event.set()


async def _begin(site: Site, call: Call) -> Following | Problem:
    if site.followers >= FOLLOWERS:
        said = f"{FOLLOWERS} streams are open"
        return Problem("too_many_followers", said, retryable=True, retry_after_ms=2_000)
    asked = Look("instances", looks_as(call), call.name, limit=1)
    item = await find(site, asked)
    return item if isinstance(item, Problem) else Following(site, asked, item)


async def attach(site: Site, call: Call) -> Response | Problem:
    """Both logs and the state of an instance in frames, until it ended and its output is whole."""
    following = await _begin(site, call)
    if isinstance(following, Problem):
        return following
    following.offsets = [call.query["out"], call.query["err"]]
    # Offsets count for the attempt they came from.
    following.attempt = call.query["attempt"] or following.now
    return StreamingResponse(_frames(following), media_type="application/octet-stream")


async def _frames(following: Following) -> AsyncIterator[bytes]:
    with following:
        yield event("state", **following.item)
        reading = 0
        beat = time.monotonic() + BEAT_S
        while not following.site.stopping:
            if following.now not in (0, reading):
                reading = following.now
                if following.attempt not in (0, reading):
                    following.offsets = [0, 0]
                    yield event("attempt", attempt=reading)
                following.turn_to(reading, int(following.item["term"]))
            moved = False
            for stream in (OUT, ERR):
                if data := await following.read(stream):
                    moved = True
                    yield frame(stream + 1, data)
            if following.due() <= 0 and await following.look():
                yield event("state", **following.item)
            elif not moved and await following.settled():
                for piece in (holes := _holes(following)):
                    yield piece
                if not holes:
                    yield event("end", **following.item)
                    return
            elif not moved:
                if time.monotonic() >= beat:
                    beat = time.monotonic() + BEAT_S
                    yield event("beat")
                await following.rest(beat - time.monotonic())


def _holes(following: Following) -> list[bytes]:
    """Steps over bytes that are missing for good, and says so."""
    said: list[bytes] = []
    for stream in (OUT, ERR):
        after = following.hole(stream)
        if after is not None:
            at = following.offsets[stream]
            said.append(event("gap", stream=NAMES[stream], offset=at, until=after))
            following.offsets[stream] = after
    return said


async def logs(site: Site, call: Call) -> Response | Problem:
    """The bytes of one log from an offset on, as they were written."""
    following = await _begin(site, call)
    if isinstance(following, Problem):
        return following
    stream, follow = call.query["stream"], bool(call.query["follow"])
    attempt = call.query["attempt"] or following.now
    if not follow or attempt != following.now:
        await site.logs.refresh()
    term = int(following.item["term"] or 0)
    if attempt != following.now:
        term = max(site.logs.terms(*instance_of(following.item), attempt), default=0)
    following.offsets[stream] = call.query["offset"]
    following.turn_to(attempt, term)
    hole = await following.lost(stream)
    # What is open is opened again by whoever sends it: this answer may never be begun.
    following.leave()
    if hole is not None:
        said = f"{NAMES[stream]} has a hole from {call.query['offset']} to {hole}"
        return Problem("gap", said, why="bytes were lost", where="offset", fix=f"read on with offset={hole}")
    headers = {"X-Fairlead-Attempt": str(attempt)}
    pieces = _bytes(following, stream, follow, (attempt, term))
    return StreamingResponse(pieces, headers=headers, media_type="application/octet-stream")


async def _bytes(
    following: Following, stream: int, follow: bool, attempt: tuple[int, int]
) -> AsyncIterator[bytes]:
    with following:
        following.turn_to(*attempt)
        while not following.site.stopping:
            if not following.attempt and following.now:
                following.turn_to(following.now, int(following.item["term"]))
            if data := await following.read(stream):
                yield data
            elif await following.lost(stream) is not None:
                raise Cut(f"the log has a hole at {following.offsets[stream]}")
            elif not follow:
                return
            elif following.due() <= 0:
                await following.look()
            elif await following.settled():
                return
            else:
                await following.rest(BEAT_S)
