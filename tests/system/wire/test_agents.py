"""Frames between agents and control, over real connections with certificates at both ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.system.wire.ends import (
    HOST,
    Events,
    Papers,
    Proxy,
    agent_of,
    connections,
    run,
    serve,
    until,
)

from fairlead.model.errors import Problem
from fairlead.model.keys import Keys, one
from fairlead.model.orders import (
    Ack,
    Beat,
    Ended,
    Frame,
    Hello,
    How,
    Leaving,
    Load,
    Moved,
    OutputDone,
    Refused,
    Report,
    Reported,
    Retract,
    Retracted,
    Servers,
    Specs,
    Stages,
    Start,
    Stop,
    Welcome,
    What,
)
from fairlead.model.storage import Fence
from fairlead.plane.words import Closed, Opened, Received
from fairlead.shell.wire.agents import AgentDoor
from fairlead.shell.wire.control_line import ControlLine


@asynccontextmanager
async def agent_session(
    papers: Papers, **limits: int
) -> AsyncIterator[tuple[AgentDoor, Events, ControlLine]]:
    """A door and one agent connected to it."""
    events = Events()
    door = AgentDoor(events, agent_of, **limits)
    listening = await serve(papers, door)
    line = await ControlLine.dial(f"{HOST}:{listening.port}", papers.agent, name="fairlead")
    assert isinstance(line, ControlLine), line
    try:
        yield door, events, line
    finally:
        await line.close()
        await listening.close()


KEYS = Keys([1, 2], [0, 5], [3, 1], [1, 2])


FENCE = Fence("home", 1, 4)


ORDERS: list[Any] = [
    Welcome(FENCE, 10_000, 30_000, True),
    Servers(["a:1"], ["b:2", "c:3"]),
    Start(KEYS, ["one", "two"], [0, 600_000]),
    Stop(KEYS, How.kill, 3),
    Retract(KEYS),
    Ack(KEYS, What.output),
    Specs(["one"], [b"\x00\xff"]),
    Beat(),
    Beat(KEYS),
    Moved("there:1"),
]


WORDS: list[Any] = [
    Hello("boot", "mark", None, ["cpu"], [8], ["zone=a"], []),
    Hello("boot", "mark", FENCE, [], [], [], ["x"]),
    Report(KEYS, [1, 1], [3, 5], ["one", "two"]),
    Reported(4),
    Refused(KEYS, [1, 2]),
    Stages(KEYS, [2, 3], [10, 20]),
    Ended(KEYS, [1, 1], [1, 2], [0, 4], [0, -9], [1, 2], [3, 4], [0, 1]),
    OutputDone(KEYS, [2, 3], [0, 2**40], [0, 0]),
    Retracted(KEYS, [1, 0]),
    Load(250, 1000),
    Leaving(True, 60_000),
]


def test_every_frame_arrives_as_it_was_sent_in_both_directions(papers: Papers) -> None:
    async def test() -> None:
        async with agent_session(papers) as (door, events, line):
            opened = await events.until(Opened)
            assert opened == Opened(1, 7)
            for number, word in enumerate(WORDS, 1):
                await line.send(Frame(number, 0, [word]))
            await line.send(Frame(len(WORDS) + 1, 0, WORDS))
            await events.until(Received, len(WORDS) + 1)
            received = [event.frame for event in events.of(Received)]
            assert received == [
                *(Frame(number, 0, [word]) for number, word in enumerate(WORDS, 1)),
                Frame(len(WORDS) + 1, 0, WORDS),
            ]
            for number, order in enumerate(ORDERS, 1):
                door.send(1, Frame(number, 9, [order]))
            door.send(1, Frame(99, 9, ORDERS))
            frames = [await line.receive() for _ in range(len(ORDERS) + 1)]
            assert frames == [
                *(Frame(number, 9, [order]) for number, order in enumerate(ORDERS, 1)),
                Frame(99, 9, ORDERS),
            ]

    run(test)


def test_one_span_and_no_rows_cross_too(papers: Papers) -> None:
    async def test() -> None:
        async with agent_session(papers) as (_, events, line):
            empty = Keys([], [], [], [])
            await line.send(Frame(1, 0, [Stages(empty, [], []), Retracted(one(1, 2, 3), [1])]))
            received = await events.until(Received)
            assert received.frame.body == [Stages(empty, [], []), Retracted(one(1, 2, 3), [1])]

    run(test)


def test_a_closed_session_is_told_once(papers: Papers) -> None:
    async def test() -> None:
        before = connections()
        async with agent_session(papers) as (door, events, line):
            await events.until(Opened)
            assert connections() == before + 2
            await line.close()
            assert await events.until(Closed) == Closed(1)
            # gRPC keeps the connection of a closed channel while anybody holds the channel.
            await until(lambda: connections() <= before)
            assert isinstance(await line.receive(), Problem)
            door.send(1, Frame(1, 0, [Beat()]))
            door.hang_up(1)
        assert events.all == [Opened(1, 7), Closed(1)]

    run(test)


def test_a_cut_connection_closes_its_session_once(papers: Papers) -> None:
    """The cable is pulled in a proxy between the two: neither end says goodbye."""

    async def test() -> None:
        events = Events()
        door = AgentDoor(events, agent_of)
        listening = await serve(papers, door)
        proxy = Proxy(listening.port)
        line = await ControlLine.dial(await proxy.start(), papers.agent, name="fairlead")
        assert isinstance(line, ControlLine)
        await line.send(Frame(1, 0, [Reported(0)]))
        await events.until(Received)
        proxy.cut()
        problem = await line.receive()
        assert isinstance(problem, Problem)
        assert problem.retryable
        await events.until(Closed)
        await line.send(Frame(2, 0, []))
        await line.close()
        await proxy.stop()
        await listening.close()
        assert [type(event) for event in events.all] == [Opened, Received, Closed]

    run(test)


def test_sessions_end_when_their_server_does_and_numbers_never_repeat(papers: Papers) -> None:
    async def test() -> None:
        events = Events()
        door = AgentDoor(events, agent_of)
        listening = await serve(papers, door)
        for session in (1, 2, 3):
            line = await ControlLine.dial(f"{HOST}:{listening.port}", papers.agent, name="fairlead")
            assert isinstance(line, ControlLine)
            assert await events.until(Opened, session) == Opened(session, 7)
            if session < 3:
                await line.close()
                await events.until(Closed, session)
        await listening.close()
        assert len(events.of(Closed)) == 3
        assert isinstance(await line.receive(), Problem)
        await line.close()
        assert sorted(event.session for event in events.of(Closed)) == [1, 2, 3]

    run(test)


def test_a_hang_up_comes_after_what_was_sent_before(papers: Papers) -> None:
    async def test() -> None:
        async with agent_session(papers) as (door, events, line):
            await events.until(Opened)
            body = Specs(["h"], [bytes(300_000)])
            for number in range(1, 11):
                door.send(1, Frame(number, 0, [body]))
            door.send(1, Frame(11, 0, [Moved("there:1")]))
            door.hang_up(1)
            frames = [await line.receive() for _ in range(11)]
            assert [frame.number for frame in frames if isinstance(frame, Frame)] == list(range(1, 12))
            assert isinstance(await line.receive(), Problem)
            assert await events.until(Closed) == Closed(1)

    run(test)


def test_an_agent_that_does_not_read_is_hung_up(papers: Papers) -> None:
    async def test() -> None:
        async with agent_session(papers, queued=4 << 20) as (door, events, line):
            await events.until(Opened)
            body = Specs(["h"], [bytes(1 << 20)])
            number = 0
            while not events.of(Closed):
                number += 1
                assert number < 200
                door.send(1, Frame(number, 0, [body]))
                await asyncio.sleep(0)
            got: Frame | Problem = await line.receive()
            while isinstance(got, Frame):
                got = await line.receive()
            assert events.all == [Opened(1, 7), Closed(1)]

    run(test)


def test_an_agent_that_leaves_under_a_flood_of_orders_leaves_no_fault_behind(papers: Papers) -> None:
    async def test() -> None:
        async with agent_session(papers) as (door, events, line):
            await events.until(Opened)
            body = Specs(["h"], [bytes(500_000)])
            for number in range(1, 21):
                door.send(1, Frame(number, 0, [body]))
            assert isinstance(await line.receive(), Frame)
            door.hang_up(1)
            closing = asyncio.create_task(line.close())
            while not events.of(Closed):
                door.send(1, Frame(99, 0, [Beat()]))
                await asyncio.sleep(0)
            await closing
        assert events.all == [Opened(1, 7), Closed(1)]

    run(test)


def test_a_frame_above_the_limit_costs_its_session_and_no_other(
    papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with agent_session(papers) as (door, events, line):
            await events.until(Opened)
            door.send(1, Frame(1, 0, [Specs(["h"], [bytes(5 << 20)])]))
            assert isinstance(await line.receive(), Problem)
            assert await events.until(Closed) == Closed(1)
            with pytest.raises(ValueError, match="above the limit"):
                await line.send(Frame(1, 0, [Hello("b" * (5 << 20), "m", None, [], [], [], [])]))
        assert "the call is cut" in caplog.text

    run(test)


def test_while_the_gate_is_shut_nothing_is_read(papers: Papers) -> None:
    async def test() -> None:
        async with agent_session(papers) as (door, events, line):
            await events.until(Opened)
            door.gate.hold()
            body = Hello("b", "m", None, [], [], ["x" * 1000] * 1000, [])
            sending = asyncio.gather(*(line.send(Frame(number, 0, [body])) for number in range(1, 21)))
            door.send(1, Frame(1, 0, [Beat()]))
            assert isinstance(await line.receive(), Frame)
            assert not events.of(Received)
            door.gate.release()
            await sending
            await events.until(Received, 20)
            assert [event.frame.number for event in events.of(Received)] == list(range(1, 21))

    run(test)
