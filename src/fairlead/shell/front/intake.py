"""Takes blocks of output from agents: checked, readable at once, stored, and only then acknowledged.

One put is in flight; the next takes whatever arrived meanwhile, up to 4 MiB in one object. While the store is
down the same put is repeated and nothing is acknowledged: agents run out of credit and keep what they have.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from fairlead.model import blob_keys
from fairlead.model.blocks import Expand, Refusal, parse
from fairlead.model.errors import Problem
from fairlead.model.intake import Acked, Ledger, Stream

from .link import Blobs
from .logs import Block, Logs

log = logging.getLogger(__name__)

OBJECT_BYTES = 4 << 20
# What may wait for a store that stands still, from all agents together: behind it they are sent away, and keep
# their output until the store is back.
WAITING_BYTES = 256 << 20
RETRY_FIRST_S = 0.2
RETRY_LAST_S = 5.0


class Waiting(Struct, gc=False):
    """A block that is not stored yet, and who waits for it."""

    block: Block
    data: bytes
    done: asyncio.Future[Acked]


class Intake:
    """The way of blocks from agents to the store."""

    def __init__(self, boot: str, blobs: Blobs, logs: Logs, expand: Expand) -> None:
        self._boot = boot
        self._blobs = blobs
        self._logs = logs
        self._expand = expand
        self._ledger = Ledger()
        self._queue: deque[Waiting] = deque()
        self._batch: list[Waiting] = []
        self._arrived = asyncio.Event()
        self._closed = False
        self._thread = ThreadPoolExecutor(1, "output")
        self._objects = 0
        self.waiting_bytes = 0
        self.taken_bytes = 0
        self.stored_bytes = 0
        self.retries = 0

    async def take(self, agent: int, block: bytes) -> Acked | Problem:
        """Up to where the block's streams are stored, answered once the block is; or why it is none."""
        sealed = parse(block, self._expand)
        if isinstance(sealed, Refusal) or sealed.size != len(block):
            flaw = sealed.flaw.value if isinstance(sealed, Refusal) else "more bytes follow it"
            log.warning("agent %d sent %d bytes that are no block: %s", agent, len(block), flaw)
            return Problem("bad_block", "the bytes are no block", why=flaw, retryable=True)
        if self._closed or self.waiting_bytes + len(block) > WAITING_BYTES:
            why = "it stops" if self._closed else f"{self.waiting_bytes} bytes wait for the store"
            return Problem("busy", "this front takes no output now", why=why, retryable=True)
        held = self._logs.hold(sealed, block)
        for stream, start, _, _ in held.pieces():
            self._ledger.heard(stream, start)
        waiting = Waiting(held, block, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self.waiting_bytes += len(block)
        self.taken_bytes += len(block)
        self._arrived.set()
        return await waiting.done

    async def run(self) -> None:
        """Store what arrives; runs until cancelled."""
        while True:
            await self._arrived.wait()
            batch = self._batch = self._next_batch()
            key = blob_keys.fresh(self._boot, self._objects)
            await self._put(key, b"".join(waiting.data for waiting in batch))
            self._objects += 1
            self._settle(key, batch)
            await self._bridge(batch)
            self._answer(batch)

    def close(self) -> None:
        """No more puts; whoever still waits is told nothing, and sends again elsewhere."""
        self._closed = True
        self._thread.shutdown(wait=True)
        for waiting in (*self._batch, *self._queue):
            waiting.done.cancel()

    def _next_batch(self) -> list[Waiting]:
        batch = [self._queue.popleft()]
        size = len(batch[0].data)
        while self._queue and size + len(self._queue[0].data) <= OBJECT_BYTES:
            batch.append(self._queue.popleft())
            size += len(batch[-1].data)
        if not self._queue:
            self._arrived.clear()
        return batch

    async def _put(self, key: str, data: bytes) -> None:
        """Until it is stored. A put that failed may have been done, so the same one is repeated."""
        pause = RETRY_FIRST_S
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(self._thread, self._blobs.put, key, data)
            except OSError as fault:
                self.retries += 1
                log.warning("output is not stored, agents keep it: %s", fault)
                await asyncio.sleep(pause)
                pause = min(pause * 2, RETRY_LAST_S)
            else:
                return

    def _settle(self, key: str, batch: list[Waiting]) -> None:
        """The batch is stored."""
        self._logs.stored(key, [waiting.block for waiting in batch])
        for waiting in batch:
            self.waiting_bytes -= len(waiting.data)
            self.stored_bytes += len(waiting.data)
            for stream, start, end, last in waiting.block.pieces():
                self._ledger.stored(stream, start, end, last)

    async def _bridge(self, batch: list[Waiting]) -> None:
        """An agent that left for another front and came back skips what is stored there: look for it."""
        holes = self._ledger.holes(_streams(batch))
        if not holes:
            return
        try:
            await self._logs.refresh()
        except OSError as fault:
            log.warning("blocks of other fronts cannot be looked for: %s", fault)
        for stream, start, end in holes:
            if self._logs.holds(stream, start, end):
                self._ledger.stored(stream, start, end)

    def _answer(self, batch: list[Waiting]) -> None:
        for waiting in batch:
            if not waiting.done.done():
                acked = self._ledger.acknowledge(_streams([waiting]))
                waiting.block.add_whole(acked)
                waiting.done.set_result(acked)
        self._ledger.forget(_streams(batch))


def _streams(batch: list[Waiting]) -> list[Stream]:
    return [piece[0] for waiting in batch for piece in waiting.block.pieces()]
