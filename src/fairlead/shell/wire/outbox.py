"""What waits to be sent on one stream: bounded, in order, and what waits together travels together.

Every message here is made so that the bytes of several after each other are one message with the content of
all. So coalescing is joining, and a stream costs one write for a thousand small pieces.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import grpc

MESSAGE_BYTES = 1 << 20
"""What is joined at most; a larger piece travels alone."""

LARGEST_PIECE = 4 << 20
"""What a receiver accepts."""

ACCEPTED = "fairlead-accepted"
"""The metadata with which a server opens a call. A refused call has none, and its status may come later."""


class Outbox:
    """Pieces that wait for one stream, and the task that writes them while there are any."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._pieces: deque[bytes] = deque()
        self._task: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._stopped = False
        self._low = 0
        self.waiting = 0

    def put(self, piece: bytes) -> None:
        """Send this after what was put before; nothing happens on a stream that is over."""
        if self._stopped:
            return
        if len(piece) > LARGEST_PIECE:
            raise ValueError(f"a message of {len(piece)} bytes is above the limit of {LARGEST_PIECE}")
        self._pieces.append(piece)
        self.waiting += len(piece)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain())

    async def room(self, limit: int) -> None:
        """Wait until fewer bytes than `limit` wait, or the stream is over."""
        while self.waiting >= limit and not self._stopped:
            self._low = limit
            self._room.clear()
            await self._room.wait()

    def when_empty(self, then: Callable[[], object]) -> None:
        """Call this when everything put so far was written."""
        if self._task is None:
            then()
        else:
            self._task.add_done_callback(lambda _: then())

    async def flush(self) -> None:
        """Wait until everything put so far was written, or the stream is over."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """The stream is over: what still waits is dropped."""
        self._stopped = True
        self._pieces.clear()
        self.waiting = 0
        self._room.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        # The stream is gone when nobody holds it.
        self._write = _nowhere

    async def _drain(self) -> None:
        try:
            while self._pieces:
                message = self._join()
                await self._write(message)
                self.waiting -= len(message)
                if self.waiting < self._low:
                    self._room.set()
        except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            # The stream broke under the write. Whoever reads it learns why, and stops this outbox.
            self._stopped = True
            self._room.set()
        finally:
            self._task = None

    def _join(self) -> bytes:
        first = self._pieces.popleft()
        size = len(first)
        if not self._pieces or size + len(self._pieces[0]) > MESSAGE_BYTES:
            return first
        joined = [first]
        while self._pieces and size + len(self._pieces[0]) <= MESSAGE_BYTES:
            joined.append(self._pieces.popleft())
            size += len(joined[-1])
        return b"".join(joined)


async def _nowhere(_: bytes) -> None:
    raise AssertionError("a stopped outbox writes nothing")
