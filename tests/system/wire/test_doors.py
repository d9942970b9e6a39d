"""Who is let in at all, and what garbage costs."""

from __future__ import annotations

import socket

import grpc
import pytest
from tests.system.wire.ends import (
    HOST,
    Events,
    Papers,
    agent_of,
    is_server,
    raw_call,
    run,
    serve,
)

from fairlead.model.errors import Problem
from fairlead.model.intake import Acked
from fairlead.model.orders import (
    Frame,
    Reported,
)
from fairlead.model.requests import (
    Look,
)
from fairlead.plane.words import Closed, Opened, Received, Unlinked
from fairlead.shell.wire.agents import AgentDoor
from fairlead.shell.wire.control_line import ControlLine
from fairlead.shell.wire.fronts import FrontDoor
from fairlead.shell.wire.link import ControlLink
from fairlead.shell.wire.listening import listen
from fairlead.shell.wire.output import OutputDoor, OutputLine


def test_garbage_is_refused_on_every_door_and_the_next_caller_is_served(papers: Papers) -> None:
    async def test() -> None:
        events = Events()

        async def keep(agent: int, block: bytes) -> Acked | Problem:
            raise AssertionError("garbage is no block")

        doors = AgentDoor(events, lambda _: 7), FrontDoor(events, is_server), OutputDoor(keep, lambda _: 7)
        listening = await serve(papers, *doors)
        for method in ("Control/Connect", "Plane/Link", "Output/Push"):
            code, details = await raw_call(listening.port, papers, f"/fairlead.v1.{method}", b"\xff\xfe\xfd")
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "the bytes are no" in details
        await events.until(Closed)
        assert not events.of(Received)
        line = await ControlLine.dial(f"{HOST}:{listening.port}", papers.agent, name="fairlead")
        assert isinstance(line, ControlLine)
        await line.send(Frame(1, 0, [Reported(0)]))
        await events.until(Received)
        await line.close()
        await listening.close()
        assert len(events.of(Opened)) == len(events.of(Closed)) == 2
        assert len(events.of(Unlinked)) == 1

    run(test)


@pytest.mark.parametrize("who", ["nobody", "stranger"])
def test_no_connection_without_a_certificate_of_our_authority(papers: Papers, who: str) -> None:
    async def test() -> None:
        events = Events()
        listening = await serve(papers, AgentDoor(events, agent_of))
        address = f"{HOST}:{listening.port}"
        problem = await ControlLine.dial(address, getattr(papers, who), name="fairlead")
        assert isinstance(problem, Problem)
        assert problem.code == "unreachable"
        await listening.close()
        assert not events.all

    run(test)


def test_a_certificate_of_another_role_is_not_admitted(papers: Papers) -> None:
    async def test() -> None:
        events = Events()

        async def keep(agent: int, block: bytes) -> Acked | Problem:
            raise AssertionError

        doors = AgentDoor(events, agent_of), FrontDoor(events, is_server), OutputDoor(keep, agent_of)
        listening = await serve(papers, *doors)
        address = f"{HOST}:{listening.port}"
        for dialling in (
            ControlLine.dial(address, papers.front, name="fairlead"),
            OutputLine.dial(address, papers.front, name="fairlead"),
        ):
            problem = await dialling
            assert isinstance(problem, Problem)
            assert problem.code == "not_admitted"
        link = ControlLink([address], lambda: papers.agent, name="fairlead")
        reply = await link.ask(Look("jobs", ""), timeout_ms=300)
        assert isinstance(reply, Problem)
        assert reply.code == "no_control"
        await link.close()
        await listening.close()
        assert not events.all

    run(test)


def test_a_taken_port_is_a_problem_that_names_the_way_out(papers: Papers) -> None:
    async def test() -> None:
        with socket.socket() as other:
            other.bind((HOST, 0))
            other.listen()
            port = other.getsockname()[1]
            problem = await listen([AgentDoor(Events(), agent_of)], HOST, port, papers.server)
        assert isinstance(problem, Problem)
        assert problem.code == "port_taken"
        assert "--listen" in problem.fix
        listening = await serve(papers, AgentDoor(Events(), agent_of))
        again = await listen([AgentDoor(Events(), agent_of)], HOST, listening.port, papers.server)
        assert isinstance(again, Problem)
        await listening.close()
        nowhere = await listen([AgentDoor(Events(), agent_of)], "192.0.2.1", 0, papers.server)
        assert isinstance(nowhere, Problem)
        assert nowhere.code == "cannot_listen"

    run(test)


def test_dialling_where_nobody_listens_is_a_problem(papers: Papers) -> None:
    async def test() -> None:
        with socket.socket() as closed:
            closed.bind((HOST, 0))
            address = f"{HOST}:{closed.getsockname()[1]}"
            problem = await ControlLine.dial(address, papers.agent, name="fairlead")
        assert isinstance(problem, Problem)
        assert problem.code == "unreachable"
        assert problem.retryable

    run(test)
