"""An agent's line to control: one session, dialled once. Whether and where to dial again is the agent's."""

from __future__ import annotations

from collections import deque

import grpc

from fairlead.model.errors import Problem
from fairlead.model.orders import Frame
from fairlead.shell.wire.columns import DOWN, UP
from fairlead.shell.wire.dialling import Dialled, dial

QUEUED = 8 << 20
"""Bytes that may wait to be sent before `send` waits."""


class ControlLine:
    """One session, seen from the agent."""

    def __init__(self, dialled: Dialled) -> None:
        self._dialled = dialled
        self._frames: deque[Frame] = deque()

    @classmethod
    async def dial(
        cls,
        address: str,
        credentials: grpc.ChannelCredentials,
        *,
        name: str = "",
        timeout_s: float = 10.0,
    ) -> ControlLine | Problem:
        """Open a session with the control at `address`."""
        dialled = await dial(
            address, "/fairlead.v1.Control/Connect", credentials, name=name, timeout_s=timeout_s
        )
        return dialled if isinstance(dialled, Problem) else cls(dialled)

    async def send(self, frame: Frame) -> None:
        """A frame up, as soon as there is room; nothing when the session is over, which `receive` tells."""
        await self._dialled.outbox.room(QUEUED)
        self._dialled.outbox.put(UP.encode(frame))

    async def receive(self) -> Frame | Problem:
        """The next frame down, or why there will be none."""
        while not self._frames:
            data = await self._dialled.read()
            if isinstance(data, Problem):
                return data
            frames = DOWN.decode(data)
            if isinstance(frames, Problem):
                self._dialled.cancel()
                return frames
            self._frames.extend(frames)
        return self._frames.popleft()

    async def close(self) -> None:
        """End the session."""
        await self._dialled.close()
