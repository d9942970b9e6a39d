"""A TCP proxy in front of an etcd that loses answers after the write, or brings a request late.

It knows just enough of HTTP/2 to do so without guessing at time: where a frame ends, which frame ends an
answer, and which ends a request.
"""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum
from typing import NamedTuple

DATA, HEADERS = 0x0, 0x1
END_STREAM = 0x1


class Mode(Enum):
    """What happens to requests and answers, once as many as were asked for have passed."""

    PASS = "pass"
    CUT = "cut"  # a request goes through; when its answer is complete, the client's connection breaks instead
    HOLD = "hold"  # a request is kept back until `release`; when it is complete, its connection breaks


class Frame(NamedTuple):
    """One HTTP/2 frame."""

    kind: int
    flags: int
    data: bytes


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now."""
        self._rest += data
        frames = []
        while len(self._rest) >= 9:
            end = 9 + int.from_bytes(self._rest[:3], "big")
            if len(self._rest) < end:
                break
            frames.append(Frame(self._rest[3], self._rest[4], self._rest[:end]))
            self._rest = self._rest[end:]
        return frames


PREFACE = 24
"""Bytes with which a client opens HTTP/2, before its first frame."""


class Link:
    """One client's connection and the one to the server behind it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.up = Frames()
        self.down = Frames()
        self.preface = PREFACE
        self.held: list[Frame] = []
        self.answered = asyncio.Event()


class CutProxy:
    """Stands before one endpoint; `cuts` and `held` say what it did."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = host, int(port)
        self._server: asyncio.Server | None = None
        self._links: list[Link] = []
        self._mode = Mode.PASS
        self._after = 0
        self._passed = 0
        self.endpoint = ""
        self.cuts = 0

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.endpoint = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Break every connection and stop listening."""
        assert self._server is not None
        self._server.close()
        for link in self._links:
            link.client.close()
            link.server.close()
        await self._server.wait_closed()

    def cut_answer(self, after: int = 0) -> None:
        """After some more answers one is lost, and with it the connection; then all pass again."""
        self._mode, self._after, self._passed = Mode.CUT, after, 0

    def hold_request(self, after: int = 0) -> None:
        """After some more requests one is kept back, and its connection breaks; then all pass again."""
        self._mode, self._after, self._passed = Mode.HOLD, after, 0

    async def release(self) -> int:
        """Deliver late what was held, and wait for its answers; how many connections had any."""
        late = [link for link in self._links if link.held]
        for link in late:
            link.answered.clear()
            link.server.write(b"".join(frame.data for frame in link.held))
            link.held.clear()
            await link.server.drain()
        for link in late:
            await asyncio.wait_for(link.answered.wait(), 10)
        return len(late)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        back, server = await asyncio.open_connection(*self._target)
        link = Link(client, server)
        self._links.append(link)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await asyncio.gather(self._upwards(link, reader), self._downwards(link, back))

    async def _upwards(self, link: Link, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(1 << 16):
            if link.preface:
                first, data = data[: link.preface], data[link.preface :]
                link.preface -= len(first)
                link.server.write(first)
            for frame in link.up.feed(data):
                if self._mode is Mode.HOLD and self._due(frame.kind == HEADERS):
                    link.held.append(frame)
                    if frame.kind == DATA and frame.flags & END_STREAM:
                        self._mode = Mode.PASS
                        link.client.transport.abort()
                else:
                    link.server.write(frame.data)
            await link.server.drain()
        if not link.held:
            link.server.close()

    def _due(self, begins_or_ends: bool) -> bool:
        """Whether a frame belongs to what comes after as many requests or answers as should pass."""
        self._passed += begins_or_ends
        return self._passed > self._after

    async def _downwards(self, link: Link, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(1 << 16):
            for frame in link.down.feed(data):
                ends = frame.kind == HEADERS and frame.flags & END_STREAM
                if ends and self._mode is Mode.CUT and self._due(True):
                    self._mode = Mode.PASS
                    self.cuts += 1
                    link.client.transport.abort()
                if ends:
                    link.answered.set()
                if not link.client.is_closing():
                    link.client.write(frame.data)
