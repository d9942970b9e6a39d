"""Blocks up, acknowledgements down, never more than the credit between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from tests.system.wire.ends import (
    HOST,
    Papers,
    agent_of,
    raw_call,
    run,
    serve,
    until,
)

from fairlead.model.errors import Problem
from fairlead.model.intake import Acked
from fairlead.shell.wire.output import OutputDoor, OutputLine
from fairlead.shell.wire.pb import agent_pb2


def stored(offset: int, count: int = 1) -> Acked:
    ones = [1] * count
    return Acked(ones, ones, ones, ones, [0] * count, [offset] * count)


@asynccontextmanager
async def output_line(
    papers: Papers, keep: Callable[[int, bytes], Awaitable[Any]], **limits: int
) -> AsyncIterator[tuple[OutputDoor, OutputLine]]:
    door = OutputDoor(keep, agent_of, **limits)
    listening = await serve(papers, door)
    line = await OutputLine.dial(f"{HOST}:{listening.port}", papers.agent, name="fairlead")
    assert isinstance(line, OutputLine), line
    try:
        yield door, line
    finally:
        await line.close()
        await listening.close()
        await door.settled()


def test_blocks_arrive_in_order_and_are_acknowledged_when_kept(papers: Papers) -> None:
    async def test() -> None:
        kept: list[bytes] = []

        async def keep(agent: int, block: bytes) -> Acked:
            assert agent == 7
            kept.append(block)
            await asyncio.sleep(0)
            return stored(len(kept))

        async with output_line(papers, keep) as (_, line):
            blocks = [bytes([number % 256]) * 100_000 for number in range(200)]

            async def send() -> None:
                for block in blocks:
                    await line.send(block)

            sending = asyncio.create_task(send())
            rows = 0
            while rows < len(blocks):
                got = await line.receive()
                assert isinstance(got, Acked)
                rows += len(got.offset)
            await sending
            assert kept == blocks

    run(test)


def test_no_more_than_the_window_is_ever_unacknowledged(papers: Papers) -> None:
    async def test() -> None:
        open_blocks = asyncio.Event()
        now = peak = 0

        async def keep(agent: int, block: bytes) -> Acked:
            nonlocal now, peak
            now += 1
            peak = max(peak, now)
            await open_blocks.wait()
            now -= 1
            return stored(1)

        async with output_line(papers, keep, window=10_000) as (_, line):
            receiving = asyncio.create_task(line.receive())
            sending = asyncio.gather(*(line.send(bytes(3_000)) for _ in range(9)))
            await until(lambda: now == 3)
            open_blocks.set()
            await receiving
            rows = len(receiving.result().offset)  # type: ignore[union-attr]
            while rows < 9:
                got = await line.receive()
                assert isinstance(got, Acked)
                rows += len(got.offset)
            await sending
            assert peak == 3

    run(test)


def test_a_sender_beyond_its_credit_is_cut(papers: Papers) -> None:
    async def test() -> None:
        async def keep(agent: int, block: bytes) -> Acked:
            return stored(1)

        listening = await serve(papers, OutputDoor(keep, lambda _: 7, window=100))
        data = agent_pb2.OutputUp(blocks=[bytes(60), bytes(60)]).SerializeToString()
        code, details = await raw_call(listening.port, papers, "/fairlead.v1.Output/Push", data)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "credit" in details
        await listening.close()

    run(test)


@pytest.mark.parametrize("retryable", [True, False])
def test_a_refused_block_ends_the_line_and_the_sender_learns_why(papers: Papers, retryable: bool) -> None:
    async def test() -> None:
        async def keep(agent: int, block: bytes) -> Problem:
            return Problem("bad_block", "the block is damaged", why="crc", retryable=retryable)

        async with output_line(papers, keep) as (_, line):
            receiving = asyncio.create_task(line.receive())
            await line.send(b"block")
            problem = await receiving
            assert isinstance(problem, Problem)
            assert "the block is damaged: crc" in problem.why
            assert problem.retryable is retryable
            await line.send(b"another")

    run(test)


def test_a_store_that_fails_ends_the_line_and_is_logged(
    papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async def keep(agent: int, block: bytes) -> Acked:
            raise OSError("disk gone")

        async with output_line(papers, keep) as (_, line):
            receiving = asyncio.create_task(line.receive())
            await line.send(b"block")
            problem = await receiving
            assert isinstance(problem, Problem)
            assert problem.retryable
        assert "disk gone" in caplog.text

    run(test)
