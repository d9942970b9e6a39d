"""The dialling end of one stream to a server, and what a failed call means."""

from __future__ import annotations

import asyncio

import grpc
from grpc import aio

from fairlead.model.errors import Problem
from fairlead.shell.wire.outbox import ACCEPTED, LARGEST_PIECE, Outbox

Call = aio.StreamStreamCall[bytes, bytes]

CODES = {
    grpc.StatusCode.UNAVAILABLE: ("unreachable", "the server does not answer", True),
    grpc.StatusCode.DEADLINE_EXCEEDED: ("unreachable", "the server does not answer", True),
    grpc.StatusCode.PERMISSION_DENIED: ("not_admitted", "the server does not admit this certificate", False),
    grpc.StatusCode.UNAUTHENTICATED: ("not_admitted", "the server does not admit this certificate", False),
    grpc.StatusCode.INVALID_ARGUMENT: ("malformed_frame", "the server could not read what was sent", False),
    grpc.StatusCode.RESOURCE_EXHAUSTED: ("too_slow", "the server cut a stream over its limit", True),
    grpc.StatusCode.UNIMPLEMENTED: ("wrong_port", "the server has no such service on this port", False),
}


def refusal(code: grpc.StatusCode, details: str, address: str) -> Problem:
    """What became of a call that ended with this status."""
    word, message, retryable = CODES.get(code, ("line_cut", "the connection ended", True))
    return Problem(word, f"{address}: {message}", why=details, retryable=retryable)


class Dialled:
    """One open stream to a server. Make it with `dial`."""

    def __init__(self, address: str, channel: aio.Channel, method: str) -> None:
        self.address = address
        # Let go at the end: gRPC keeps a closed channel's connection for as long as anybody holds the channel.
        self._channel: aio.Channel | None = channel
        self._call: Call | None = channel.stream_stream(method, None, None)(None)
        self.outbox = Outbox(self._call.write)

    async def opened(self) -> Problem | None:
        """Wait until the server has accepted the call, or said why not."""
        call = self._call
        if call is None:
            return self._hung_up()
        try:
            if ACCEPTED in await call.initial_metadata():
                return None
        except aio.AioRpcError as error:
            return refusal(error.code(), error.details() or "", self.address)
        return refusal(await call.code(), await call.details(), self.address)

    async def read(self) -> bytes | Problem:
        """The next message, or why there will be none."""
        call = self._call
        if call is None:
            return self._hung_up()
        try:
            message = await call.read()
            if isinstance(message, bytes):
                return message
            return refusal(await call.code(), await call.details(), self.address)
        except aio.AioRpcError as error:
            return refusal(error.code(), error.details() or "", self.address)
        except asyncio.CancelledError:
            # gRPC raises this also for a call that was cancelled here; only then is it no wish to stop us.
            task = asyncio.current_task()
            if not call.cancelled() or (task is not None and task.cancelling()):
                raise
            return self._hung_up()

    def _hung_up(self) -> Problem:
        return refusal(grpc.StatusCode.CANCELLED, "hung up here", self.address)

    def cancel(self) -> None:
        """End the stream; whoever reads it learns so."""
        if self._call is not None:
            self._call.cancel()

    async def close(self) -> None:
        """End the stream and its connection."""
        self.cancel()
        await self.outbox.stop()
        channel, self._channel, self._call = self._channel, None, None
        if channel is not None:
            await channel.close(None)


async def dial(
    address: str,
    method: str,
    credentials: grpc.ChannelCredentials,
    *,
    name: str = "",
    ping_ms: int = 0,
    timeout_s: float = 10.0,
) -> Dialled | Problem:
    """Open a stream to `address`. `name` is what the server's certificate must say, the host when empty."""
    options: list[tuple[str, str | int]] = [
        ("grpc.max_receive_message_length", LARGEST_PIECE),
        ("grpc.max_send_message_length", LARGEST_PIECE),
        # A connection of its own: it is closed with the stream, and no other stream delays it.
        ("grpc.use_local_subchannel_pool", 1),
        # Servers of a cluster are dialled directly, whatever the environment says of web proxies.
        ("grpc.enable_http_proxy", 0),
    ]
    if name:
        options.append(("grpc.ssl_target_name_override", name))
    if ping_ms:
        options += [
            ("grpc.keepalive_time_ms", ping_ms),
            ("grpc.keepalive_timeout_ms", ping_ms),
            # Counts instead where a ping of gRPC's own is on its way; a minute unless it is said.
            ("grpc.http2.ping_timeout_ms", ping_ms),
            # Else gRPC stops after two pings of an idle stream.
            ("grpc.http2.max_pings_without_data", 0),
        ]
    dialled = Dialled(address, aio.secure_channel(address, credentials, options), method)
    try:
        async with asyncio.timeout(timeout_s):
            problem = await dialled.opened()
    except TimeoutError:
        problem = refusal(grpc.StatusCode.DEADLINE_EXCEEDED, f"no answer in {timeout_s:g} s", address)
    except asyncio.CancelledError:
        await dialled.close()
        raise
    if problem is None:
        return dialled
    await dialled.close()
    return problem
