"""An agent's sessions with control: dials, carries frames both ways, hangs up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from fairlead.agent.words import Dial, Dialled, Dropped, HangUp, Heard, Say
from fairlead.model.errors import Problem
from fairlead.model.orders import Frame
from fairlead.shell.machine.agent_loop import AgentLoop, Handlers

LOG = logging.getLogger(__name__)


class ControlStream(Protocol):
    """One open session."""

    async def send(self, frame: Frame) -> None: ...

    async def receive(self) -> Frame | Problem: ...

    async def close(self) -> None: ...


DialControl = Callable[[str], Awaitable[ControlStream | Problem]]


class ControlPort:
    """Sessions by the numbers that the core gave them; it has one at a time."""

    def __init__(self, loop: AgentLoop, dial: DialControl) -> None:
        self._loop = loop
        self._dial = dial
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._frames: dict[int, asyncio.Queue[Frame]] = {}

    def handlers(self) -> Handlers:
        """What this port does."""
        return {Dial: self._begin, HangUp: self._hang_up, Say: self._say}

    def _begin(self, effect: Dial) -> None:
        self._frames[effect.session] = asyncio.Queue()
        self._tasks[effect.session] = self._loop.start(self._session(effect.session, effect.address))

    def _hang_up(self, effect: HangUp) -> None:
        if task := self._tasks.pop(effect.session, None):
            task.cancel()

    def _say(self, effect: Say) -> None:
        if frames := self._frames.get(effect.session):
            frames.put_nowait(effect.frame)

    async def _session(self, session: int, address: str) -> None:
        try:
            stream = await self._dial(address)
            if isinstance(stream, Problem):
                LOG.info("%s", stream.message)
                self._loop.post(Dropped(session))
                return
            LOG.info("connected to %s", address)
            self._loop.post(Dialled(session))
            sending = self._loop.start(self._send(session, stream))
            try:
                await self._receive(session, stream)
            finally:
                sending.cancel()
                await stream.close()
        finally:
            self._tasks.pop(session, None)
            self._frames.pop(session, None)

    async def _send(self, session: int, stream: ControlStream) -> None:
        frames = self._frames[session]
        while True:
            await stream.send(await frames.get())

    async def _receive(self, session: int, stream: ControlStream) -> None:
        while not isinstance(got := await stream.receive(), Problem):
            self._loop.post(Heard(session, got))
        LOG.info("the session is over: %s %s", got.message, got.why)
        self._loop.post(Dropped(session))
