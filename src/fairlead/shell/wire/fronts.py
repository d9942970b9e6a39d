"""Control's door for fronts: every call is a link, every ask on it an event of the plane."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import grpc

from fairlead.model.changes import Part
from fairlead.model.errors import Problem
from fairlead.model.requests import Answer, Told
from fairlead.plane.words import Asked, Unlinked
from fairlead.shell.wire.asks import decode_asks, encode_answer, encode_told
from fairlead.shell.wire.listening import Calls, Context, Gate, Served, accept, method
from fairlead.shell.wire.outbox import LARGEST_PIECE

QUEUED = 64 << 20
"""Bytes that may wait for one front; it asks again and resumes after being cut."""

SERVICE = "Plane"
METHOD = "Link"


class FrontDoor:
    """Links of fronts. `admits` says whether a certificate is a server's."""

    def __init__(
        self,
        on_event: Callable[[Asked | Unlinked], None],
        admits: Callable[[Context], bool],
        queued: int = QUEUED,
    ) -> None:
        self._on_event = on_event
        self._admits = admits
        self._queued = queued
        self._numbers = count(1)
        self._links: dict[int, Served] = {}
        # The same segment goes to every link that follows: it is encoded once.
        self._last: tuple[Part, bytes] | None = None
        self.gate = Gate()

    def handler(self, calls: Calls) -> Any:
        """What gRPC calls."""
        return method(SERVICE, METHOD, self._link, calls)

    def answer(self, link: int, answer: Answer) -> None:
        """The reply to an ask; nothing when the link is over."""
        served = self._links.get(link)
        if served is None:
            return
        piece = encode_answer(answer)
        if len(piece) > LARGEST_PIECE:
            piece = encode_answer(Answer(answer.id, _too_large(len(piece))))
        served.send(piece)

    def tell(self, link: int, told: Told) -> None:
        """A segment to a link that follows; nothing when the link is over."""
        served = self._links.get(link)
        if served is None:
            return
        if self._last is None or self._last[0] is not told.part:
            self._last = (told.part, encode_told(told))
        served.send(self._last[1])

    def hang_up(self, link: int) -> None:
        """End a link after what was said on it before; its front asks again, wherever the leader is then."""
        served = self._links.get(link)
        if served is not None:
            served.hang_up()

    async def _link(self, context: Context) -> None:
        if not self._admits(context):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "the certificate is not a server's")
        await accept(context)
        link = next(self._numbers)
        served = self._links[link] = Served(context, self._queued)
        try:
            await served.run(lambda: self._read(link, served))
        finally:
            del self._links[link]
            self._on_event(Unlinked(link))

    async def _read(self, link: int, served: Served) -> Problem | None:
        while (data := await served.read()) is not None:
            asks = decode_asks(data)
            if isinstance(asks, Problem):
                return asks
            await self.gate.passed()
            for ask in asks:
                self._on_event(Asked(link, ask))
        return None


def _too_large(size: int) -> Problem:
    return Problem(
        code="too_large",
        message="the answer is too large to be sent",
        why=f"{size} bytes, above the limit of {LARGEST_PIECE}",
        fix="ask for fewer items at once",
    )
