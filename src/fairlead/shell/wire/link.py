"""A front's link to the control that leads: finds it, asks until answered, follows without gap or duplicate.

There is one stream at a time. When it breaks, or its control does not lead, the next one is dialled and all
that is unanswered is asked again there: every change carries a key, so asking twice does once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from itertools import count

import grpc

from fairlead.model.changes import Part
from fairlead.model.errors import Problem
from fairlead.model.requests import Answer, Ask, Elsewhere, Follow, Following, Reply, Request, Told
from fairlead.shell.wire.asks import decode_down, encode_ask
from fairlead.shell.wire.dialling import Dialled, dial
from fairlead.shell.wire.outbox import LARGEST_PIECE

ASKED = 64 << 20
"""Bytes of asks that may be unanswered; more are refused at once."""

AHEAD = 32 << 20
"""Bytes of segments that may wait for the follower; what is beyond is asked for again later."""

PING_MS = 5_000
"""A control whose machine is gone is noticed after this, and as much again."""

DIAL_S = 3.0
LOG = logging.getLogger(__name__)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0


class ControlLink:
    """The leader, wherever it is, dialled with the credentials of that moment.

    `control` and `output` are where this front's own server is reached.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        credentials: Callable[[], grpc.ChannelCredentials],
        *,
        name: str = "",
        control: str = "",
        output: str = "",
        ping_ms: int = PING_MS,
    ) -> None:
        self.learn(addresses)
        self._ping_ms = ping_ms
        self._credentials = credentials
        self._name = name
        self._own = (control, output)
        self._turn = 0
        self._hint = ""
        self._last = ""
        self._numbers = count(1)
        self._asked: dict[int, tuple[bytes, asyncio.Future[Reply]]] = {}
        self._asked_bytes = 0
        self._follower: _Follower | None = None
        self._dialled: Dialled | None = None
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def learn(self, addresses: Sequence[str]) -> None:
        """Where control may be found from now on."""
        if not addresses:
            raise ValueError("a link needs an address to begin with")
        self._addresses = list(addresses)

    async def ask(self, request: Request, timeout_ms: int = 30_000) -> Reply:
        """The leader's reply; a Problem `no_control` when there was none in time."""
        number = next(self._numbers)
        piece = encode_ask(Ask(number, request))
        refusal = self._refusal(len(piece))
        if refusal is not None:
            return refusal
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Reply] = loop.create_future()
        timer = loop.call_later(timeout_ms / 1000, _give_up, waiter, timeout_ms)
        self._asked[number] = (piece, waiter)
        self._asked_bytes += len(piece)
        self._say(piece)
        try:
            return await waiter
        finally:
            timer.cancel()
            del self._asked[number]
            self._asked_bytes -= len(piece)
            self._rest()

    async def follow(self, since: int) -> AsyncGenerator[Part | Following, None]:
        """Every segment from `since` on (-1: from now), once and in order, for as long as it is iterated.

        A Following (with `resync`) comes where segments are missing: what is known must be looked up anew,
        and the segments go on from its `since`.
        """
        if self._follower is not None:
            raise RuntimeError("a link follows once; share what it yields")
        follower = self._follower = _Follower(since)
        self._say(self._follow_piece(follower))
        try:
            while True:
                yield await follower.take()
                if follower.behind and not follower.waiting and self._dialled is not None:
                    self._dialled.cancel()
        finally:
            self._follower = None
            self._rest()
            if self._dialled is not None:
                # Control stops telling only when the link is over.
                self._dialled.cancel()

    async def close(self) -> None:
        """End the link; what is unanswered gets its Problem when its time is over."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def _refusal(self, size: int) -> Problem | None:
        if size > LARGEST_PIECE:
            why = f"{size} bytes, above the limit of {LARGEST_PIECE}"
            return Problem("too_large", "the request is too large", why=why, fix="split it in several")
        if self._asked_bytes + size > ASKED:
            why = f"{self._asked_bytes} bytes of requests are unanswered"
            return Problem("control_busy", "control is busy", why=why, retryable=True, retry_after_ms=1000)
        return None

    def _say(self, piece: bytes) -> None:
        self._wanted.set()
        if self._dialled is not None:
            self._dialled.outbox.put(piece)
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._task.add_done_callback(self._ran)

    def _ran(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            LOG.error("the link to control failed; the next request begins it anew", exc_info=fault)
            self._task = None

    def _rest(self) -> None:
        if not self._asked and self._follower is None:
            self._wanted.clear()

    def _follow_piece(self, follower: _Follower) -> bytes:
        number = next(self._numbers)
        follower.await_reply(number)
        return encode_ask(Ask(number, Follow(follower.next, *self._own)))

    async def _run(self) -> None:
        misses = 0
        while True:
            await self._wanted.wait()
            address = self._next_address()
            dialled = await dial(
                address,
                "/fairlead.v1.Plane/Link",
                self._credentials(),
                name=self._name,
                ping_ms=self._ping_ms,
                timeout_s=DIAL_S,
            )
            helpful = False
            if isinstance(dialled, Dialled):
                helpful = await self._talk(dialled)
            misses = 0 if helpful else misses + 1
            # Who was just told where the leader is goes there at once, but does not run in circles.
            if not (self._hint and misses == 1):
                await asyncio.sleep(_pause(misses))

    def _next_address(self) -> str:
        """Where the leader is said to be, else the next one in turn that was not tried last."""
        address, self._hint = self._hint, ""
        if not address:
            address = self._in_turn()
            if address == self._last:
                address = self._in_turn()
        self._last = address
        return address

    def _in_turn(self) -> str:
        self._turn += 1
        return self._addresses[self._turn % len(self._addresses)]

    async def _talk(self, dialled: Dialled) -> bool:
        """Ask and hear on one stream until it is over; whether its control was of any help."""
        helpful = False
        self._dialled = dialled
        try:
            for piece, _ in self._asked.values():
                dialled.outbox.put(piece)
            if self._follower is not None:
                dialled.outbox.put(self._follow_piece(self._follower))
            while not isinstance(data := await dialled.read(), Problem):
                items = decode_down(data)
                if isinstance(items, Problem):
                    return False
                heard = [self._hear(item) for item in items]
                helpful = helpful or any(heard)
                if not all(heard):
                    return helpful
            return helpful
        finally:
            self._dialled = None
            await dialled.close()

    def _hear(self, item: Answer | tuple[Told, int]) -> bool:
        """Take note; False when this stream is of no use any more."""
        if isinstance(item, tuple):
            told, size = item
            return self._follower is None or self._follower.tell(told.part, size)
        if isinstance(item.reply, Elsewhere):
            self._hint = item.reply.leader
            return False
        if self._follower is not None and item.id == self._follower.number:
            return self._follower.begin(item.reply)
        _, waiter = self._asked.get(item.id, (b"", None))
        if waiter is not None and not waiter.done():
            waiter.set_result(item.reply)
        return True


class _Follower:
    """What is known of the log, and what waits to be taken."""

    def __init__(self, since: int) -> None:
        self.next = since
        self.number = 0
        self.behind = False
        self._begun = False
        self.waiting: deque[tuple[Part | Following, int]] = deque()
        self._bytes = 0
        self._some = asyncio.Event()

    def await_reply(self, number: int) -> None:
        """The wish to follow is asked anew, under this number."""
        self.number = number
        self._begun = False

    def begin(self, reply: Reply) -> bool:
        """Control's answer to the wish to follow."""
        if not isinstance(reply, Following):
            return False
        self._begun, self.behind = True, False
        if self.next < 0:
            self.next = reply.since
        elif reply.resync or reply.since > self.next:
            self.next = reply.since
            self._add(Following(reply.since, True), 0)
        return True

    def tell(self, part: Part, size: int) -> bool:
        """One segment; False when it is not the next one, so that following must begin anew."""
        if not self._begun or self.behind or part.n < self.next:
            return True
        if part.n > self.next:
            return False
        if self._bytes + size > AHEAD:
            self.behind = True
            return True
        self.next = part.n + 1
        self._add(part, size)
        return True

    def _add(self, item: Part | Following, size: int) -> None:
        self.waiting.append((item, size))
        self._bytes += size
        self._some.set()

    async def take(self) -> Part | Following:
        """The next thing to know."""
        while not self.waiting:
            self._some.clear()
            await self._some.wait()
        item, size = self.waiting.popleft()
        self._bytes -= size
        return item


def _give_up(waiter: asyncio.Future[Reply], timeout_ms: int) -> None:
    if not waiter.done():
        waiter.set_result(
            Problem(
                code="no_control",
                message="control did not answer",
                why=f"no control that leads answered within {timeout_ms} ms",
                fix="check that a server of this cluster is up, then try again",
                retryable=True,
                retry_after_ms=1000,
            )
        )


def _pause(misses: int) -> float:
    longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * (1 << min(misses, 10)))
    return longest * (0.5 + secrets.randbelow(1000) / 2000)
