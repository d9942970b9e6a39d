from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fairlead.shell.wire.outbox import LARGEST_PIECE, MESSAGE_BYTES, Outbox


class Stream:
    """A stream that writes when it is told to."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.open = asyncio.Event()
        self.open.set()
        self.broken = False

    async def write(self, data: bytes) -> None:
        await self.open.wait()
        if self.broken:
            raise asyncio.InvalidStateError("the call is over")
        self.written.append(data)


def run(test: Callable[[Stream, Outbox], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        stream = Stream()
        outbox = Outbox(stream.write)
        async with asyncio.timeout(5):
            await test(stream, outbox)
            await outbox.stop()

    asyncio.run(bounded())


def test_what_waits_together_travels_together_and_in_order() -> None:
    async def test(stream: Stream, outbox: Outbox) -> None:
        stream.open.clear()
        pieces = [bytes([number]) * 10 for number in range(100)]
        for piece in pieces:
            outbox.put(piece)
        assert outbox.waiting == 1000
        stream.open.set()
        await outbox.flush()
        assert stream.written == [b"".join(pieces)]
        assert outbox.waiting == 0
        outbox.put(b"more")
        await outbox.flush()
        assert stream.written[1:] == [b"more"]

    run(test)


def test_joined_messages_keep_to_their_size_and_a_large_piece_travels_alone() -> None:
    async def test(stream: Stream, outbox: Outbox) -> None:
        pieces = [bytes(size) for size in (600_000, 600_000, 10, 3 << 20, 10, 20)]
        for piece in pieces:
            outbox.put(piece)
        await outbox.flush()
        assert [len(data) for data in stream.written] == [600_000, 600_010, 3 << 20, 30]
        assert all(len(data) <= MESSAGE_BYTES or data in pieces for data in stream.written)

    run(test)


def test_a_piece_that_no_receiver_accepts_is_a_bug_of_the_caller() -> None:
    async def test(stream: Stream, outbox: Outbox) -> None:
        with pytest.raises(ValueError, match="above the limit"):
            outbox.put(bytes(LARGEST_PIECE + 1))

    run(test)


def test_room_comes_when_enough_was_written() -> None:
    async def test(stream: Stream, outbox: Outbox) -> None:
        stream.open.clear()
        outbox.put(bytes(100))
        waiting = asyncio.create_task(outbox.room(100))
        await asyncio.sleep(0)
        assert not waiting.done()
        stream.open.set()
        await waiting
        assert stream.written

    run(test)


def test_a_stream_that_broke_takes_everything_and_blocks_nobody() -> None:
    async def test(stream: Stream, outbox: Outbox) -> None:
        stream.broken = True
        outbox.put(bytes(100))
        await outbox.room(1)
        outbox.put(b"x")
        await outbox.flush()
        assert not stream.written

    run(test)


def test_after_stop_nothing_is_written_and_nobody_waits() -> None:
    async def test(stream: Stream, outbox: Outbox) -> None:
        stream.open.clear()
        for _ in range(3):
            outbox.put(bytes(MESSAGE_BYTES))
        waiting = asyncio.create_task(outbox.room(1))
        await asyncio.sleep(0)
        await outbox.stop()
        await waiting
        outbox.put(b"late")
        assert not stream.written
        assert outbox.waiting == 0

    run(test)


def test_a_hang_up_waits_for_what_was_put_before() -> None:
    async def test(stream: Stream, outbox: Outbox) -> None:
        told: list[int] = []
        outbox.when_empty(lambda: told.append(len(stream.written)))
        assert told == [0]
        outbox.put(b"x")
        outbox.when_empty(lambda: told.append(len(stream.written)))
        assert told == [0]
        await outbox.flush()
        await asyncio.sleep(0)
        assert told == [0, 1]

    run(test)
