"""Real handshakes over loopback."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from tests.unit.shell.access.made_site import NOW, joined

from fairlead.shell.access import tls
from fairlead.shell.access.ca import DAY_MS, Authority
from fairlead.shell.access.identity import Identity
from fairlead.shell.access.peers import peer_identity, server_name

WHO = "/test.Door/Who"


class Door(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Tells callers who they are."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        async def who(request: bytes, context: Any) -> bytes:
            peer = peer_identity(context.auth_context())
            told = (peer and peer.uri, tls.agent_of(context), tls.is_server(context))
            return repr(told).encode()

        return grpc.unary_unary_rpc_method_handler(who)


@asynccontextmanager
async def serving(credentials: grpc.ServerCredentials) -> Any:
    server = aio.server(handlers=[Door()])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def ask(address: str, credentials: grpc.ChannelCredentials, name: str = "") -> str:
    """The answer, or the name of the status."""
    options: list[tuple[str, str | int]] = [("grpc.use_local_subchannel_pool", 1)]
    options += [("grpc.ssl_target_name_override", name)] if name else []
    async with aio.secure_channel(address, credentials, options) as channel:
        try:
            answer = await channel.unary_unary(WHO, bytes, bytes)(b"", timeout=5)
        except aio.AioRpcError as error:
            return error.code().name
        return bytes(answer).decode()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("lab", NOW)


@pytest.fixture
def server(authority: Authority, tmp_path: Path) -> Identity:
    return joined(authority, tmp_path / "server", "server", 1)


@pytest.fixture
def call(server: Identity) -> Iterator[Callable[..., str]]:
    def one(credentials: grpc.ChannelCredentials, name: str = "", shown: Identity = server) -> str:
        async def run() -> str:
            async with serving(tls.server_credentials(lambda: shown)) as address:
                return await ask(address, credentials, name)

        return asyncio.run(run())

    yield one


def test_a_certificate_of_the_site_is_let_in_and_named(
    authority: Authority, tmp_path: Path, call: Callable[..., str]
) -> None:
    agent = tls.channel_credentials(joined(authority, tmp_path / "agent", "agent", 7))
    front = tls.channel_credentials(joined(authority, tmp_path / "front", "front", 2))
    assert call(agent) == "('fairlead://lab/agent/7', 7, False)"
    assert call(agent, server_name("lab")) == "('fairlead://lab/agent/7', 7, False)"
    assert call(front) == "('fairlead://lab/front/2', None, True)"


def test_who_shows_no_certificate_is_refused(authority: Authority, call: Callable[..., str]) -> None:
    assert call(grpc.ssl_channel_credentials(authority.pem.encode())) == "UNAVAILABLE"


def test_a_certificate_of_another_authority_is_refused_by_either_end(
    authority: Authority, tmp_path: Path, call: Callable[..., str]
) -> None:
    foreign = joined(Authority.create("lab", NOW), tmp_path / "foreign", "agent", 7)
    believes_the_server = grpc.ssl_channel_credentials(
        authority.pem.encode(), foreign.key_pem, foreign.certificate_pem
    )
    assert call(believes_the_server) == "UNAVAILABLE"
    mine = joined(authority, tmp_path / "mine", "agent", 7)
    believes_a_stranger = grpc.ssl_channel_credentials(
        foreign.authority_pem, mine.key_pem, mine.certificate_pem
    )
    assert call(believes_a_stranger) == "UNAVAILABLE"


def test_an_expired_certificate_is_refused_by_either_end(
    authority: Authority, tmp_path: Path, call: Callable[..., str]
) -> None:
    old = NOW - 31 * DAY_MS
    expired = joined(authority, tmp_path / "agent", "agent", 7, old)
    assert call(tls.channel_credentials(expired)) == "UNAVAILABLE"
    valid = tls.channel_credentials(joined(authority, tmp_path / "valid", "agent", 7))
    assert call(valid, shown=joined(authority, tmp_path / "stale", "server", 1, old)) == "UNAVAILABLE"


def test_an_agents_certificate_does_not_serve(
    authority: Authority, tmp_path: Path, call: Callable[..., str]
) -> None:
    agent = joined(authority, tmp_path / "agent", "agent", 7)
    assert call(tls.channel_credentials(agent), shown=agent) == "UNAVAILABLE"
    assert call(tls.channel_credentials(agent), server_name("lab"), shown=agent) == "UNAVAILABLE"


def test_a_renewed_certificate_is_shown_without_a_new_start(
    authority: Authority, tmp_path: Path, server: Identity
) -> None:
    """The server begins with a certificate that is refused; from the next handshake on it is not."""
    current = [joined(authority, tmp_path / "old", "server", 1, NOW - 31 * DAY_MS)]
    agent = tls.channel_credentials(joined(authority, tmp_path / "agent", "agent", 7))

    async def run() -> tuple[str, str]:
        async with serving(tls.server_credentials(lambda: current[0])) as address:
            before = await ask(address, agent)
            current[0] = server
            return before, await ask(address, agent)

    assert asyncio.run(run()) == ("UNAVAILABLE", "('fairlead://lab/agent/7', 7, False)")


def https(server: ssl.SSLContext, ask: Callable[[int], Awaitable[Any]]) -> Any:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    async def run() -> Any:
        listening = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=server)
        async with listening:
            return await ask(listening.sockets[0].getsockname()[1])

    return asyncio.run(run())


async def hello(port: int, context: ssl.SSLContext, name: str = "127.0.0.1") -> tuple[bytes, bytes | None]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.write(b"hello\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer, shown


def test_https_is_believed_by_those_who_know_the_authority(authority: Authority, server: Identity) -> None:
    context = tls.https_server(server)
    knowing = tls.https_client(authority.pem)
    for name in ("127.0.0.1", "localhost", server_name("lab")):
        assert https(context, lambda port, name=name: hello(port, knowing, name))[0] == b"hello\n"  # type: ignore[misc]
    assert https(context, lambda port: hello(port, tls.https_stranger()))[0] == b"hello\n"
    for stranger in (tls.https_client(Authority.create("lab", NOW).pem), ssl.create_default_context()):
        with pytest.raises(ssl.SSLCertVerificationError):
            https(context, lambda port, stranger=stranger: hello(port, stranger))  # type: ignore[misc]
    with pytest.raises(ssl.SSLCertVerificationError):
        https(context, lambda port: hello(port, knowing, "elsewhere.example"))


def test_https_shows_a_renewed_certificate_on_new_connections(
    authority: Authority, tmp_path: Path, server: Identity
) -> None:
    context = tls.https_server(server)
    before = https(context, lambda port: hello(port, tls.https_client(authority.pem)))[1]
    tls.show(context, joined(authority, tmp_path / "server", "server", 1, NOW + DAY_MS // 24))
    after = https(context, lambda port: hello(port, tls.https_client(authority.pem)))[1]
    assert before != after
