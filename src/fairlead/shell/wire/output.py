"""Output from agents to a front: blocks up, what is stored for good down, never more than the credit between.

A block is opaque here. Credit is bytes of blocks: the front gives a window when the line opens, and gives
back a block's bytes when the block is stored. So a store that stands still stops its senders, and nothing
grows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from fairlead.model.errors import Problem
from fairlead.model.intake import Acked
from fairlead.shell.wire.dialling import Dialled, dial
from fairlead.shell.wire.listening import Calls, Context, Served, accept, method, status
from fairlead.shell.wire.pb import agent_pb2

WINDOW = 8 << 20
"""Bytes of blocks that one connection may have unacknowledged."""

BLOCKS = 1_024
"""Blocks of one connection that may be unacknowledged, however small."""

PING_MS = 20_000
QUEUED = 16 << 20
COLUMNS = ("job", "index", "attempt", "term", "stream", "offset")
SERVICE = "Output"
METHOD = "Push"
LOG = logging.getLogger(__name__)


OnBlock = Callable[[int, bytes], Awaitable[Acked | Problem]]
"""(agent, block) to what may be acknowledged once it is stored, or why the block is refused."""


class OutputDoor:
    """A front's door for output. `peer` says which agent a certificate names, None for no agent's."""

    def __init__(
        self, on_block: OnBlock, peer: Callable[[Context], int | None], window: int = WINDOW
    ) -> None:
        self._on_block = on_block
        self._peer = peer
        self._window = window
        self._storing: set[asyncio.Task[None]] = set()

    def handler(self, calls: Calls) -> Any:
        """What gRPC calls."""
        return method(SERVICE, METHOD, self._push, calls)

    async def settled(self) -> None:
        """Wait for the blocks that are being stored; their senders may be gone by now."""
        while self._storing:
            await asyncio.wait(self._storing)

    async def _push(self, context: Context) -> None:
        agent = self._peer(context)
        if agent is None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "the certificate is not an agent's")
        await accept(context)
        served = Served(context, QUEUED)
        pushing = _Pushing(served, agent, self._on_block, self._window, self._storing)
        await served.run(pushing.work)


class _Pushing:
    """One open line of an agent."""

    def __init__(
        self, served: Served, agent: int, on_block: OnBlock, window: int, storing: set[asyncio.Task[None]]
    ) -> None:
        self._served = served
        self._agent = agent
        self._on_block = on_block
        self._window = window
        self._all = storing
        self._mine: set[asyncio.Task[None]] = set()
        self._taken = 0

    async def work(self) -> Problem | None:
        self._served.send(agent_pb2.OutputDown(credit=[self._window]).SerializeToString())
        while (data := await self._served.read()) is not None:
            try:
                blocks = agent_pb2.OutputUp.FromString(data).blocks
            except DecodeError as error:
                return Problem("malformed_frame", "the bytes are no blocks", why=str(error))
            for block in blocks:
                if self._taken + len(block) > self._window:
                    return Problem("over_credit", "more bytes than credit", why=f"{self._window} in all")
                await self._take(block)
        while self._mine:
            await asyncio.wait(self._mine)
        return None

    async def _take(self, block: bytes) -> None:
        while len(self._mine) >= BLOCKS:
            await asyncio.wait(self._mine, return_when=asyncio.FIRST_COMPLETED)
        self._taken += len(block)
        task = asyncio.get_running_loop().create_task(self._store(block))
        for tasks in (self._mine, self._all):
            tasks.add(task)
        task.add_done_callback(self._stored)

    async def _store(self, block: bytes) -> None:
        kept = await self._on_block(self._agent, block)
        if isinstance(kept, Problem):
            self._served.cut(*status(kept))
            return
        self._taken -= len(block)
        columns = {name: getattr(kept, name) for name in COLUMNS}
        self._served.send(agent_pb2.OutputDown(**columns, credit=[len(block)]).SerializeToString())

    def _stored(self, task: asyncio.Task[None]) -> None:
        self._mine.discard(task)
        self._all.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            LOG.error("a block of agent %d could not be stored", self._agent, exc_info=fault)
            self._served.cut(grpc.StatusCode.INTERNAL, "the block could not be stored")


class OutputLine:
    """An agent's line to a front. One task sends, another receives."""

    def __init__(self, dialled: Dialled) -> None:
        self._dialled = dialled
        self._credit = 0
        self._over = False
        self._moved = asyncio.Event()

    @classmethod
    async def dial(
        cls,
        address: str,
        credentials: grpc.ChannelCredentials,
        *,
        name: str = "",
        timeout_s: float = 10.0,
    ) -> OutputLine | Problem:
        """Open a line to the front at `address`."""
        dialled = await dial(
            address,
            "/fairlead.v1.Output/Push",
            credentials,
            name=name,
            ping_ms=PING_MS,
            timeout_s=timeout_s,
        )
        return dialled if isinstance(dialled, Problem) else cls(dialled)

    async def send(self, block: bytes) -> None:
        """A block up, as soon as there is credit; nothing when the line is over, which `receive` tells."""
        while self._credit < len(block) and not self._over:
            self._moved.clear()
            await self._moved.wait()
        if not self._over:
            self._credit -= len(block)
            self._dialled.outbox.put(agent_pb2.OutputUp(blocks=[block]).SerializeToString())

    async def receive(self) -> Acked | Problem:
        """What is stored for good since the last call, or why nothing more will be."""
        while not isinstance(data := await self._dialled.read(), Problem):
            try:
                message = agent_pb2.OutputDown.FromString(data)
            except DecodeError as error:
                self._end()
                return Problem("malformed_frame", "the bytes are no acknowledgement", why=str(error))
            self._credit += sum(message.credit)
            self._moved.set()
            columns = [getattr(message, name)[:] for name in COLUMNS]
            if len({len(column) for column in columns}) > 1:
                self._end()
                return Problem("malformed_frame", "columns of unequal length in an acknowledgement")
            if columns[0]:
                return Acked(*columns)
        self._end()
        return data

    async def close(self) -> None:
        """End the line; what is not acknowledged is the sender's to send again."""
        self._end()
        await self._dialled.close()

    def _end(self) -> None:
        self._over = True
        self._moved.set()
        self._dialled.cancel()
