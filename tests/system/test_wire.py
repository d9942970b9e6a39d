"""The wire over real connections: gRPC on loopback, both ends with certificates."""

from __future__ import annotations

import asyncio
import datetime
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import grpc
import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fairlead.model.changes import FORMAT, AgentWanted, Part
from fairlead.model.errors import Problem
from fairlead.model.keys import Keys, one
from fairlead.model.orders import (
    Ack,
    AskReport,
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
from fairlead.model.requests import (
    Accepted,
    Answer,
    Cancel,
    Changed,
    Elsewhere,
    Follow,
    Following,
    Look,
    Seen,
    Submit,
    Told,
)
from fairlead.model.storage import Fence
from fairlead.plane.words import Asked, Closed, Opened, Received, Unlinked
from fairlead.shell.wire.agents import AgentDoor
from fairlead.shell.wire.control_line import ControlLine
from fairlead.shell.wire.fronts import FrontDoor
from fairlead.shell.wire.link import ControlLink
from fairlead.shell.wire.listening import Context, Door, Listening, listen
from fairlead.shell.wire.output import OutputDoor, OutputLine, Stored
from fairlead.shell.wire.pb import agent_pb2

HOST = "127.0.0.1"


class Papers(NamedTuple):
    """Certificates of one authority: a server's, agent 7's, and none at all."""

    server: grpc.ServerCredentials
    agent: grpc.ChannelCredentials
    front: grpc.ChannelCredentials
    nobody: grpc.ChannelCredentials
    stranger: grpc.ChannelCredentials


class Authority:
    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.pem = self._sign(self.name, self.key.public_key(), authority=True)

    def _sign(self, name: x509.Name, key: ec.EllipticCurvePublicKey, authority: bool) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("fairlead")]), critical=False)
        )
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """(key, certificate), both PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return pem, self._sign(subject, key.public_key(), authority=False)


@pytest.fixture(scope="module")
def papers() -> Papers:
    ours, other = Authority(), Authority()

    def client(pair: tuple[bytes, bytes] | None) -> grpc.ChannelCredentials:
        key, certificate = pair or (None, None)
        return grpc.ssl_channel_credentials(ours.pem, key, certificate)

    return Papers(
        grpc.ssl_server_credentials([ours.issue("server")], ours.pem, require_client_auth=True),
        client(ours.issue("agent-7")),
        client(ours.issue("server")),
        client(None),
        client(other.issue("agent-7")),
    )


def common_name(context: Context) -> str:
    return b"".join(context.auth_context()["x509_common_name"]).decode()


def agent_of(context: Context) -> int | None:
    kind, _, number = common_name(context).partition("-")
    return int(number) if kind == "agent" else None


def is_server(context: Context) -> bool:
    return common_name(context) == "server"


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A test of its own loop; a fault in any task that nobody awaited fails it too."""
    faults: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        async with asyncio.timeout(30):
            await test()

    asyncio.run(bounded())
    gc.collect()
    assert not faults


class Events:
    """What a door told, in order."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._more = asyncio.Event()

    def __call__(self, event: Any) -> None:
        self.all.append(event)
        self._more.set()

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.all if type(event) is kind]

    async def until(self, kind: type, count: int = 1) -> Any:
        """The count-th event of that kind."""
        while len(self.of(kind)) < count:
            self._more.clear()
            await self._more.wait()
        return self.of(kind)[count - 1]


def connections() -> int:
    """How many connections this process has open; each has both its ends here."""
    return sum(each.status == "ESTABLISHED" for each in psutil.Process().net_connections("tcp"))


async def until(condition: Callable[[], bool]) -> None:
    """Bounded by the test's own limit."""
    while not condition():
        await asyncio.sleep(0.005)


class Proxy:
    """A cable that can be cut, or carry nothing while both ends believe it whole."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.carries = True
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        return f"{HOST}:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def stop(self) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(HOST, self.port)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            self._writers.append(sink)
            self._tasks.add(asyncio.create_task(self._carry(source, sink)))

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            if self.carries:
                sink.write(data)


async def serve(papers: Papers, *doors: Door, port: int = 0) -> Listening:
    listening = await listen(doors, HOST, port, papers.server)
    assert isinstance(listening, Listening), listening
    return listening


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
    AskReport(FENCE),
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


async def raw_call(port: int, papers: Papers, method: str, data: bytes) -> tuple[grpc.StatusCode, str]:
    """Say these bytes; how the call ends."""
    options = [("grpc.ssl_target_name_override", "fairlead"), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.secure_channel(f"{HOST}:{port}", papers.front, options) as channel:
        call = channel.stream_stream(method, None, None)(None)
        await call.write(data)
        with suppress(grpc.aio.AioRpcError):
            while await call.read() is not grpc.aio.EOF:
                pass
        return await call.code(), await call.details()


def test_garbage_is_refused_on_every_door_and_the_next_caller_is_served(papers: Papers) -> None:
    async def test() -> None:
        events = Events()

        async def keep(agent: int, block: bytes) -> Stored | Problem:
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

        async def keep(agent: int, block: bytes) -> Stored | Problem:
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
        link = ControlLink([address], papers.agent, name="fairlead")
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


# A front's link.


class Plane:
    """A control with a log, at a port of its own; it leads, or knows who does."""

    def __init__(self) -> None:
        self.leader: str | None = None
        self.silent = False
        self.floor = 0
        self.log: list[Part] = []
        self.asked: list[Any] = []
        self.following: dict[int, int] = {}
        self.door = FrontDoor(self._event, is_server)

    async def start(self, papers: Papers, port: int = 0) -> str:
        self.listening = await serve(papers, self.door, port=port)
        self.address = f"{HOST}:{self.listening.port}"
        return self.address

    async def stop(self) -> None:
        await self.listening.close()

    def commit(self) -> Part:
        part = Part(FORMAT, len(self.log), len(self.log), False, 1, 0, [])
        self.log.append(part)
        for link in self.following:
            self.door.tell(link, Told(part))
        return part

    def _event(self, event: Asked | Unlinked) -> None:
        if isinstance(event, Unlinked):
            self.following.pop(event.link, None)
            return
        ask = event.ask
        self.asked.append(ask.request)
        if self.leader is not None:
            self.door.answer(event.link, Answer(ask.id, Elsewhere(self.leader)))
        elif isinstance(ask.request, Follow):
            self._follow(event.link, ask.id, ask.request.since)
        elif not self.silent:
            self.door.answer(event.link, Answer(ask.id, Changed([str(ask.request)], ["ok"])))

    def _follow(self, link: int, number: int, since: int) -> None:
        start = len(self.log) if since < 0 else max(since, self.floor)
        self.door.answer(link, Answer(number, Following(start, 0 <= since < start)))
        for part in self.log[start:]:
            self.door.tell(link, Told(part))
        self.following[link] = start


def change(name: str) -> Cancel:
    return Cancel([name], "t", 1)


@asynccontextmanager
async def planes(papers: Papers, count: int) -> AsyncIterator[tuple[list[Plane], ControlLink]]:
    several = [Plane() for _ in range(count)]
    link = ControlLink([await plane.start(papers) for plane in several], papers.front, name="fairlead")
    try:
        yield several, link
    finally:
        await link.close()
        for plane in several:
            await plane.stop()


def test_asks_are_answered_each_with_its_own_reply(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 1) as ([plane], link):
            asks = [change(f"job-{number}") for number in range(500)]
            replies = await asyncio.gather(*(link.ask(ask) for ask in asks))
            assert replies == [Changed([str(ask)], ["ok"]) for ask in asks]
            assert plane.asked == asks

    run(test)


def test_requests_and_replies_of_every_shape_arrive_whole(papers: Papers) -> None:
    async def test() -> None:
        events = Events()
        door = FrontDoor(events, is_server)
        listening = await serve(papers, door)
        link = ControlLink([f"{HOST}:{listening.port}"], papers.front, name="fairlead")
        request = Submit("key", "digest", "name", "t", "me", [b"\x00spec"])
        replies: list[Any] = [
            Accepted("s-1", ["j-1"], ["a"]),
            Seen([{"a": [1, {"b": None}], "c": 1.5}], 7),
            Problem("busy", "no", retryable=True),
        ]
        for number, reply in enumerate(replies, 1):
            waiting = asyncio.create_task(link.ask(request))
            asked = await events.until(Asked, number)
            assert asked.ask.request == request
            door.answer(asked.link, Answer(asked.ask.id, reply))
            assert await waiting == reply
        await link.close()
        await events.until(Unlinked)
        await listening.close()

    run(test)


def test_a_follower_of_the_leader_sends_the_ask_to_the_leader(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 3) as ([first, second, third], link):
            first.leader = second.leader = third.address
            assert await link.ask(change("a")) == Changed([str(change("a"))], ["ok"])
            assert third.asked == [change("a")]

    run(test)


def test_an_ask_is_repeated_after_the_leader_moved(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 2) as ([old, new], link):
            new.leader = old.address
            assert isinstance(await link.ask(change("before")), Changed)
            old.silent = True
            waiting = [asyncio.create_task(link.ask(change(str(number)))) for number in range(20)]
            await until(lambda: len(old.asked) == 21)
            new.leader = None
            await old.stop()
            replies = await asyncio.gather(*waiting)
            assert replies == [Changed([str(change(str(number)))], ["ok"]) for number in range(20)]
            assert [ask.names for ask in new.asked if isinstance(ask, Cancel)][-20:] == [
                [str(number)] for number in range(20)
            ]

    run(test)


def test_a_leader_that_fell_silent_without_a_word_is_given_up(papers: Papers) -> None:
    """Its machine is gone: the connection stands, and pings are not answered."""

    async def test() -> None:
        async with planes(papers, 2) as ([old, new], _):
            proxy = Proxy(old.listening.port)
            addresses = [new.address, await proxy.start()]
            link = ControlLink(addresses, papers.front, name="fairlead", ping_ms=200)
            assert isinstance(await link.ask(change("before")), Changed)
            assert old.asked
            proxy.carries = False
            assert isinstance(await link.ask(change("after")), Changed)
            assert new.asked == [change("after")]
            await link.close()
            await proxy.stop()

    run(test)


def test_an_ask_waits_until_somebody_leads(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 2) as ([one_, two], link):
            one_.leader = two.leader = ""
            waiting = asyncio.create_task(link.ask(change("a")))
            await until(lambda: len(one_.asked) + len(two.asked) >= 3)
            assert not waiting.done()
            two.leader, one_.leader = None, two.address
            assert isinstance(await waiting, Changed)

    run(test)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_leader_is_found_though_nobody_knows_it(papers: Papers, place: int) -> None:
    async def test() -> None:
        async with planes(papers, 3) as (several, link):
            for plane in several:
                plane.leader = ""
            several[place].leader = None
            await several[place - 1].stop()
            assert isinstance(await link.ask(change("a")), Changed)
            assert several[place].asked == [change("a")]

    run(test)


def test_nobody_in_time_is_a_problem_that_can_be_tried_again(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 1) as ([plane], link):
            plane.silent = True
            reply = await link.ask(change("a"), timeout_ms=100)
            assert isinstance(reply, Problem)
            assert reply.code == "no_control"
            assert reply.retryable
            plane.silent = False
            assert isinstance(await link.ask(change("b")), Changed)

    run(test)


def test_what_is_too_large_is_refused_by_either_end_and_breaks_nothing(papers: Papers) -> None:
    async def test() -> None:
        events = Events()
        door = FrontDoor(events, is_server)
        listening = await serve(papers, door)
        link = ControlLink([f"{HOST}:{listening.port}"], papers.front, name="fairlead")
        reply = await link.ask(Submit("k", "d", "n", "t", "c", [bytes(5 << 20)]))
        assert isinstance(reply, Problem)
        assert reply.code == "too_large"
        waiting = asyncio.create_task(link.ask(Look("jobs", "t")))
        asked = await events.until(Asked)
        door.answer(asked.link, Answer(asked.ask.id, Seen([{"a": "x" * (5 << 20)}])))
        reply = await waiting
        assert isinstance(reply, Problem)
        assert reply.code == "too_large"
        await link.close()
        await listening.close()

    run(test)


def test_following_goes_on_after_cuts_without_gap_or_duplicate(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 2) as ([old, new], link):
            new.leader = old.address
            for _ in range(5):
                new.log.append(old.commit())
            following = link.follow(2)
            seen: list[int] = []

            async def take(count: int) -> None:
                for _ in range(count):
                    part = await anext(following)
                    assert isinstance(part, Part)
                    seen.append(part.n)

            await take(3)
            for _ in range(3):
                await until(lambda: bool(old.following))
                (cut,) = old.following
                new.log.append(old.commit())
                old.door.hang_up(cut)
                new.log.append(old.commit())
                await take(2)
                await until(lambda gone=cut: gone not in old.following)
            new.leader = None
            new.commit()
            await old.stop()
            await take(1)
            new.commit()
            await take(1)
            assert seen == list(range(2, 13))
            await following.aclose()

    run(test)


def test_following_from_now_says_nothing_of_the_past_and_goes_on_from_there(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 1) as ([plane], link):
            for _ in range(4):
                plane.commit()
            following = link.follow(-1)
            first = asyncio.create_task(anext(following))
            await until(lambda: bool(plane.following))
            plane.commit()
            part = await first
            assert isinstance(part, Part)
            assert part.n == 4
            for each in list(plane.following):
                plane.door.hang_up(each)
                plane.commit()
            part = await anext(following)
            assert isinstance(part, Part)
            assert part.n == 5
            await following.aclose()

    run(test)


def test_where_segments_are_gone_the_follower_is_told_to_look_anew(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 1) as ([plane], link):
            for _ in range(6):
                plane.commit()
            plane.floor = 4
            following = link.follow(1)
            assert await anext(following) == Following(4, True)
            assert [await anext(following) for _ in range(2)] == plane.log[4:]
            await following.aclose()

    run(test)


def test_asks_are_answered_while_the_follower_takes_nothing(papers: Papers) -> None:
    """More segments than may wait for it are dropped, and asked for again when it takes on."""

    async def test() -> None:
        async with planes(papers, 1) as ([plane], link):
            following = link.follow(0)
            plane.commit()
            await anext(following)
            big = "x" * (1 << 20)
            for n in range(1, 41):
                plane.log.append(_large(n, big))
                for each in plane.following:
                    plane.door.tell(each, Told(plane.log[-1]))
                assert isinstance(await link.ask(change("a")), Changed)
            follows = sum(isinstance(ask, Follow) for ask in plane.asked)
            assert follows == 1
            seen = []
            for _ in range(40):
                part = await anext(following)
                assert isinstance(part, Part)
                seen.append(part.n)
            assert seen == list(range(1, 41))
            assert sum(isinstance(ask, Follow) for ask in plane.asked) == 2
            await following.aclose()

    run(test)


def _large(n: int, text: str) -> Part:
    return Part(FORMAT, n, n, False, 1, 0, [AgentWanted(1, 1, text)])


# Output.


def stored(offset: int, count: int = 1) -> Stored:
    ones = [1] * count
    return Stored(ones, ones, ones, ones, [0] * count, [offset] * count)


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

        async def keep(agent: int, block: bytes) -> Stored:
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
                assert isinstance(got, Stored)
                rows += len(got.offset)
            await sending
            assert kept == blocks

    run(test)


def test_no_more_than_the_window_is_ever_unacknowledged(papers: Papers) -> None:
    async def test() -> None:
        open_blocks = asyncio.Event()
        now = peak = 0

        async def keep(agent: int, block: bytes) -> Stored:
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
                assert isinstance(got, Stored)
                rows += len(got.offset)
            await sending
            assert peak == 3

    run(test)


def test_a_sender_beyond_its_credit_is_cut(papers: Papers) -> None:
    async def test() -> None:
        async def keep(agent: int, block: bytes) -> Stored:
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
        async def keep(agent: int, block: bytes) -> Stored:
            raise OSError("disk gone")

        async with output_line(papers, keep) as (_, line):
            receiving = asyncio.create_task(line.receive())
            await line.send(b"block")
            problem = await receiving
            assert isinstance(problem, Problem)
            assert problem.retryable
        assert "disk gone" in caplog.text

    run(test)


def test_one_span_and_no_rows_cross_too(papers: Papers) -> None:
    async def test() -> None:
        async with agent_session(papers) as (_, events, line):
            empty = Keys([], [], [], [])
            await line.send(Frame(1, 0, [Stages(empty, [], []), Retracted(one(1, 2, 3), [1])]))
            received = await events.until(Received)
            assert received.frame.body == [Stages(empty, [], []), Retracted(one(1, 2, 3), [1])]

    run(test)
