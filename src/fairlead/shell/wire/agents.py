"""Control's door for agents: every call is a session, every frame an event of the plane.

A session's number never repeats while this process lives. Its end is told exactly once, whoever caused it.
No pings: contact is what the frames themselves prove.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import grpc

from fairlead.model.errors import Problem
from fairlead.model.orders import Frame
from fairlead.plane.words import Closed, Opened, Received
from fairlead.shell.wire.columns import DOWN, UP
from fairlead.shell.wire.listening import Calls, Context, Gate, Served, accept, method

QUEUED = 16 << 20
"""Bytes that may wait for one agent. It reports anew after a hang-up, so nothing is lost by one."""

SERVICE = "Control"
METHOD = "Connect"


class AgentDoor:
    """Sessions of agents. `peer` says which agent a certificate names, None for one that is no agent's."""

    def __init__(
        self,
        on_event: Callable[[Opened | Received | Closed], None],
        peer: Callable[[Context], int | None],
        queued: int = QUEUED,
    ) -> None:
        self._on_event = on_event
        self._peer = peer
        self._queued = queued
        self._numbers = count(1)
        self._sessions: dict[int, Served] = {}
        self.gate = Gate()

    def handler(self, calls: Calls) -> Any:
        """What gRPC calls."""
        return method(SERVICE, METHOD, self._connect, calls)

    def send(self, session: int, frame: Frame) -> None:
        """A frame down a session; nothing when it is over."""
        served = self._sessions.get(session)
        if served is not None:
            served.send(DOWN.encode(frame))

    def hang_up(self, session: int) -> None:
        """End a session after what was sent on it before."""
        served = self._sessions.get(session)
        if served is not None:
            served.hang_up()

    async def _connect(self, context: Context) -> None:
        agent = self._peer(context)
        if agent is None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "the certificate is not an agent's")
        # The agent waits for this: it means that the session is open.
        await accept(context)
        session = next(self._numbers)
        served = self._sessions[session] = Served(context, self._queued)
        self._on_event(Opened(session, agent))
        try:
            await served.run(lambda: self._read(session, served))
        finally:
            del self._sessions[session]
            self._on_event(Closed(session))

    async def _read(self, session: int, served: Served) -> Problem | None:
        while (data := await served.read()) is not None:
            frames = UP.decode(data)
            if isinstance(frames, Problem):
                return frames
            await self.gate.passed()
            for frame in frames:
                self._on_event(Received(session, frame))
        return None
