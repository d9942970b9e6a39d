"""Both ends of a real connection on loopback: certificates, a cable that can be cut, and what a door told."""

from __future__ import annotations

import asyncio
import datetime
import gc
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

import grpc
import psutil
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fairlead.shell.wire.listening import Context, Door, Listening, listen

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


def name_of(context: Context) -> str:
    return b"".join(context.auth_context()["x509_common_name"]).decode()


def agent_of(context: Context) -> int | None:
    kind, _, number = name_of(context).partition("-")
    return int(number) if kind == "agent" else None


def is_server(context: Context) -> bool:
    return name_of(context) == "server"


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
