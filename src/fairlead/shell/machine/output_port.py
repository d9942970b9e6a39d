"""An agent's line to a front: dialled when there is output, fed from the spool, told what is stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from fairlead.agent.words import (
    DialOutput,
    Event,
    HangUpOutput,
    OutputDialled,
    OutputDropped,
    OutputStored,
    ReadOutput,
    key_of,
)
from fairlead.model.errors import Problem
from fairlead.model.intake import Acked
from fairlead.shell.machine.agent_loop import AgentLoop, Handlers
from fairlead.shell.machine.spool import Spool

# So little is packed at once, and what comes in the next moments travels together.
SMALL = 32 << 10
PAUSE_S = 0.002
LOG = logging.getLogger(__name__)


class OutputStream(Protocol):
    """One open line."""

    async def send(self, block: bytes) -> None: ...

    async def receive(self) -> Acked | Problem: ...

    async def close(self) -> None: ...


DialOutputTo = Callable[[str], Awaitable[OutputStream | Problem]]


class OutputPort:
    """Lines by the numbers that the core gave them; it has one at a time.

    Reading and packing much is for one thread beside the loop, so that a flood of output does not delay orders.
    """

    def __init__(self, loop: AgentLoop, dial: DialOutputTo, spool: Spool) -> None:
        self._loop = loop
        self._dial = dial
        self._spool = spool
        self._packer = ThreadPoolExecutor(1, "pack")
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._reads: dict[int, asyncio.Queue[ReadOutput]] = {}

    def handlers(self) -> Handlers:
        """What this port does."""
        return {DialOutput: self._begin, HangUpOutput: self._hang_up, ReadOutput: self._read}

    def close(self) -> None:
        """End the thread."""
        self._packer.shutdown(cancel_futures=True)

    def _begin(self, effect: DialOutput) -> None:
        self._reads[effect.link] = asyncio.Queue()
        self._tasks[effect.link] = self._loop.start(self._line(effect.link, effect.address))

    def _hang_up(self, effect: HangUpOutput) -> None:
        if task := self._tasks.pop(effect.link, None):
            task.cancel()

    def _read(self, effect: ReadOutput) -> None:
        if reads := self._reads.get(effect.link):
            reads.put_nowait(effect)

    async def _line(self, link: int, address: str) -> None:
        try:
            stream = await self._dial(address)
            if isinstance(stream, Problem):
                LOG.info("%s", stream.message)
                self._loop.post(OutputDropped(link))
                return
            self._loop.post(OutputDialled(link))
            sending = self._loop.start(self._send(link, stream))
            try:
                await self._receive(link, stream)
            finally:
                sending.cancel()
                await stream.close()
        finally:
            self._tasks.pop(link, None)
            self._reads.pop(link, None)

    async def _send(self, link: int, stream: OutputStream) -> None:
        loop = asyncio.get_running_loop()

        def post(event: Event) -> None:
            loop.call_soon_threadsafe(self._loop.post, event)

        reads = self._reads[link]
        while True:
            asked = [await reads.get()]
            while not reads.empty():
                asked.append(reads.get_nowait())
            read = _join(asked)
            blocks = self._spool.blocks(read, post)
            if sum(read.length) >= SMALL:
                while (block := await loop.run_in_executor(self._packer, next, blocks, None)) is not None:
                    await stream.send(block)
                continue
            for block in blocks:
                await stream.send(block)
            await asyncio.sleep(PAUSE_S)

    async def _receive(self, link: int, stream: OutputStream) -> None:
        while not isinstance(got := await stream.receive(), Problem):
            rows = zip(got.job, got.index, got.attempt, got.term, strict=True)
            keys = [key_of(*row) for row in rows]
            self._loop.post(OutputStored(keys, list(got.stream), list(got.offset)))
        LOG.info("the line for output is over: %s %s", got.message, got.why)
        self._loop.post(OutputDropped(link))


def _join(asked: list[ReadOutput]) -> ReadOutput:
    """What waits together is read and packed together, in its order."""
    first = asked[0]
    for more in asked[1:]:
        first.key.extend(more.key)
        first.stream.extend(more.stream)
        first.offset.extend(more.offset)
        first.length.extend(more.length)
        first.end.extend(more.end)
    return first
