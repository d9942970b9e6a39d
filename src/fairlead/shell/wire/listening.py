"""The serving end: a port with doors behind it, and the calls that are open.

A server listens with client certificates required. Each door is one method; whom it lets in is asked of a
function that the caller gives, for what a certificate says is not the wire's business.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import grpc
from grpc import aio

from fairlead.model.errors import Problem
from fairlead.shell.wire.outbox import ACCEPTED, LARGEST_PIECE, Outbox

Context = aio.ServicerContext[Any, bytes]

OPTIONS = [
    ("grpc.max_receive_message_length", LARGEST_PIECE),
    ("grpc.max_send_message_length", LARGEST_PIECE),
    # Else a second server on the same port would start, and share its callers.
    ("grpc.so_reuseport", 0),
    # Fronts and senders of output ping idle servers; more often than this counts as abuse.
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
]

LOG = logging.getLogger(__name__)


Calls = set["asyncio.Task[Any]"]
"""The tasks of a server's open calls."""


class Door(Protocol):
    """One service of a server."""

    def handler(self, calls: Calls) -> grpc.GenericRpcHandler[Any, Any]:
        """What gRPC calls."""
        ...


class Listening:
    """A server that accepts calls on `port`."""

    def __init__(self, server: aio.Server, port: int, calls: Calls) -> None:
        self._server = server
        self._calls = calls
        self.port = port

    async def close(self, grace: float | None = None) -> None:
        """Accept nothing more; open calls are cut, after `grace` seconds when they do not end by themselves.

        When this returns every call is over, and its door has told so.
        """
        await self._server.stop(grace)
        while self._calls:
            await asyncio.wait(self._calls)
        # gRPC's own tasks around them end with the next turn of the loop.
        await asyncio.sleep(0)


async def listen(
    doors: Sequence[Door], host: str, port: int, credentials: grpc.ServerCredentials
) -> Listening | Problem:
    """Serve these doors; port 0 takes a free one."""
    taken = _refusal(host, port)
    if taken is not None:
        return taken
    calls: Calls = set()
    server = aio.server(handlers=[door.handler(calls) for door in doors], options=OPTIONS)
    try:
        bound = server.add_secure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", credentials)
    except RuntimeError as error:
        return _taken(host, port, str(error))
    await server.start()
    return Listening(server, bound, calls)


def _refusal(host: str, port: int) -> Problem | None:
    """Why nobody can listen there. gRPC itself would only say that it failed, and print it as well."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _taken(host, port, "another program listens there")
        return Problem(
            code="cannot_listen",
            message=f"cannot listen on {host}:{port}",
            why=error.strerror or str(error),
            where="--listen",
            fix="--listen 127.0.0.1:0",
        )
    return None


def _taken(host: str, port: int, why: str) -> Problem:
    return Problem(
        code="port_taken",
        message=f"port {port} of {host} is taken",
        why=why,
        where="--listen",
        fix=f"--listen {host}:0",
    )


def status(problem: Problem) -> tuple[grpc.StatusCode, str]:
    """How a call ends that was refused: the peer is at fault, or it may try again."""
    code = grpc.StatusCode.UNAVAILABLE if problem.retryable else grpc.StatusCode.INVALID_ARGUMENT
    return code, f"{problem.message}: {problem.why}" if problem.why else problem.message


class Served:
    """One open call, seen from the server."""

    def __init__(self, context: Context, limit: int) -> None:
        self._context = context
        self._limit = limit
        task = asyncio.current_task()
        assert task is not None, "a call is served in a task of its own"
        self._task = task
        self._outbox = Outbox(context.write)
        self._end: tuple[grpc.StatusCode, str] | None = None
        self._over = False

    def send(self, piece: bytes) -> None:
        """Queue bytes; a peer too slow for its limit is cut off."""
        if len(piece) > LARGEST_PIECE:
            # A bug of whoever made it. It costs this one call, not the server and everyone on it.
            LOG.error("%d bytes at once for %s: the call is cut", len(piece), self._context.peer())
            self.cut(grpc.StatusCode.INTERNAL, f"a message above the limit of {LARGEST_PIECE} bytes")
            return
        self._outbox.put(piece)
        if self._outbox.waiting > self._limit:
            self.cut(grpc.StatusCode.RESOURCE_EXHAUSTED, f"more than {self._limit} bytes wait to be read")

    def hang_up(self) -> None:
        """End the call in good order, after what was sent before."""
        self._outbox.when_empty(lambda: self.cut(grpc.StatusCode.OK, ""))

    def cut(self, code: grpc.StatusCode, why: str) -> None:
        """End the call now."""
        if self._end is None and not self._over:
            self._end = (code, why)
            self._task.cancel()

    async def read(self) -> bytes | None:
        """The next message; None when the peer has said everything."""
        message = await self._context.read()
        return message if isinstance(message, bytes) else None

    async def run(self, work: Callable[[], Awaitable[Problem | None]]) -> None:
        """Do the work of this call; a Problem it ends with is told to the peer."""
        try:
            problem = await work()
            if problem is None:
                await self._outbox.flush()
            else:
                self._end = status(problem)
        except asyncio.CancelledError:
            if self._end is None:
                raise
            self._task.uncancel()
        finally:
            self._over = True
            await self._outbox.stop()
        if self._end is not None and self._end[0] is not grpc.StatusCode.OK:
            LOG.info("call of %s ended: %s", self._context.peer(), self._end[1])
            self._context.set_code(self._end[0])
            self._context.set_details(self._end[1])


class Gate:
    """Whether input is taken. While it is shut nothing is read, and peers feel it as a full stream."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """Read nothing more for now."""
        self._open.clear()

    def release(self) -> None:
        """Read on."""
        self._open.set()

    async def passed(self) -> None:
        """Wait while the gate is shut."""
        if not self._open.is_set():
            await self._open.wait()


async def accept(context: Context) -> None:
    """Tell the caller that its call is open; it waits for this."""
    await context.send_initial_metadata(((ACCEPTED, "1"),))


def method(service: str, name: str, serve: Callable[[Context], Awaitable[None]], calls: Calls) -> Any:
    """The handler of a service's one method, both ways in streams of bytes."""

    async def call(_: object, context: Context) -> None:
        task = asyncio.current_task()
        assert task is not None, "gRPC runs every call in a task"
        calls.add(task)
        task.add_done_callback(calls.discard)
        await serve(context)

    handler = grpc.stream_stream_rpc_method_handler(call)
    return grpc.method_handlers_generic_handler(f"fairlead.v1.{service}", {name: handler})
