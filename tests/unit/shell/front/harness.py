"""A front as it runs, on free doors, with a control in memory; and a small HTTP client that sees every byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.base.ids import job_id
from fairlead.model import changes, requests
from fairlead.model.blocks import Row, fill, pack
from fairlead.model.changes import FORMAT, Change, Part
from fairlead.model.errors import Problem
from fairlead.model.keys import one
from fairlead.model.requests import Following, Reply, Request, Seen
from fairlead.shell.blobs.codec import expand, squeeze
from fairlead.shell.blobs.folder import FolderBlobs
from fairlead.shell.front.link import Blobs
from fairlead.shell.front.server import serve, short_path
from fairlead.shell.front.site import Options, Site

Item = dict[str, Any]
NO_SUCH = Problem("no_such", "there is none of that name")
AUTHORITY = """-----BEGIN CERTIFICATE-----
TUlJQg==
-----END CERTIFICATE-----
"""


@dataclass
class MemoryControl:
    """A control that remembers what it was asked, answers from tables, and tells segments."""

    asked: list[Request] = field(default_factory=list)
    items: dict[tuple[str, str], Item] = field(default_factory=dict)
    principals: dict[tuple[str, str], requests.Principal] = field(default_factory=dict)
    answers: dict[type, Callable[[Any], Reply]] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    told: asyncio.Event = field(default_factory=asyncio.Event)
    floor: int = 1
    followed: list[int] = field(default_factory=list)
    down: bool = False
    keys: dict[str, tuple[str, requests.Accepted]] = field(default_factory=dict)

    async def ask(self, request: Request, timeout_ms: int) -> Reply:
        self.asked.append(request)
        if self.down:
            raise TimeoutError(f"nothing in {timeout_ms} ms")
        special = self.answers.get(type(request))
        if special is not None:
            return special(request)
        if isinstance(request, requests.Look):
            return self._look(request)
        if isinstance(request, requests.Submit):
            return self._submit(request)
        if isinstance(request, requests.Check):
            return self.principals.get((request.token, request.digest), Problem("denied", "not known"))
        if isinstance(request, requests.AddToken):
            self.principals[request.id, request.digest] = requests.Principal(request.role, request.tenant)
            return requests.Changed([request.id], ["ok"])
        if isinstance(request, requests.RevokeToken):
            self.principals = {key: who for key, who in self.principals.items() if key[0] != request.id}
            return requests.Changed([request.id], ["ok"])
        if isinstance(request, requests.Cancel):
            said = [
                "ok" if ("jobs", name) in self.items else "there is no such job" for name in request.names
            ]
            return requests.Changed(request.names, said)
        return NO_SUCH

    def _look(self, asked: requests.Look) -> Reply:
        if asked.kind == "status":
            return Seen([{"term": 1}])
        if asked.kind == "instances" and ("jobs", asked.name) in self.items:
            found = [item for (kind, _), item in self.items.items() if kind == "instances"]
            return self._page(found, asked)
        if asked.name:
            item = self.items.get((asked.kind, asked.name))
            return Seen([dict(item)]) if item else NO_SUCH
        return self._page([item for (kind, _), item in self.items.items() if kind == asked.kind], asked)

    def _page(self, found: list[Item], asked: requests.Look) -> Seen:
        more = asked.after + asked.limit
        return Seen(found[asked.after : more], more if more < len(found) else 0)

    def _submit(self, asked: requests.Submit) -> Reply:
        known = self.keys.get(asked.key)
        if known is not None:
            return known[1] if known[0] == asked.digest else Problem("key_reused", "another body")
        name = f"{asked.name or 'sub'}-{len(self.keys) + 1}"
        accepted = requests.Accepted(name, [f"j-{n + 1}" for n in range(len(asked.specs))], ["a"])
        self.keys[asked.key] = (asked.digest, accepted)
        return accepted

    async def follow(self, since: int) -> AsyncIterator[Part | Following]:
        self.followed.append(since)
        if since < self.floor:
            yield Following(self.floor, True)
        at = max(since, self.floor)
        while True:
            ready = [part for part in self.parts if part.n >= at]
            for part in ready:
                yield part
                at = part.n + 1
            if not ready:
                self.told.clear()
                await self.told.wait()

    def tell(self, *said: Change, more: bool = False, batch: int = 0) -> Part:
        n = self.floor + len(self.parts)
        part = Part(FORMAT, n, batch or n, more, 1, 1_000 * n, list(said))
        self.parts.append(part)
        self.told.set()
        return part

    def instance(self, job: int, index: int, **facts: Any) -> Item:
        """Put an instance on view, and tell that it changed."""
        name = f"{job_id(job)}/{index}"
        item = self.items.setdefault(
            ("instances", name),
            {
                "id": name, "job": job_id(job), "index": index, "state": "waiting", "reason": "",
                "sentence": "", "attempt": 0, "term": 0, "agent": None, "exit_code": None, "signal": None,
                "started": None, "ended": None, "output": "none",
            },
        )  # fmt: skip
        item.update(facts)
        self.tell(changes.OutputDone(one(job, index, item["attempt"]), [0], [0], [0]))
        return item


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Stream:
    """An answer that is still coming."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}
        self._left = b""

    async def begin(self) -> None:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        self.status = int(head[0].split()[1])
        pairs = (line.split(":", 1) for line in head[1:] if line)
        self.headers = {name.strip().lower(): value.strip() for name, value in pairs}

    async def piece(self) -> bytes:
        """The next bytes, empty at the end; IncompleteReadError where the answer was cut."""
        if self.headers.get("transfer-encoding") != "chunked":
            return await self.reader.readexactly(int(self.headers.get("content-length", "0")))
        size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
        data = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return data

    async def read(self, size: int) -> bytes:
        while len(self._left) < size:
            more = await self.piece()
            if not more:
                raise asyncio.IncompleteReadError(self._left, size)
            self._left += more
        data, self._left = self._left[:size], self._left[size:]
        return data

    async def frame(self) -> tuple[int, bytes]:
        head = await self.read(5)
        return head[0], await self.read(int.from_bytes(head[1:], "big"))

    async def event(self) -> Item:
        kind, payload = await self.frame()
        assert kind == 0, (kind, payload[:60])
        said: Item = json.loads(payload)
        return said

    async def all(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return await self.piece()
        pieces: list[bytes] = []
        while piece := await self.piece():
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        self.writer.close()


@dataclass
class Running:
    """A front that takes requests."""

    site: Site
    control: MemoryControl
    socket: str
    stop: asyncio.Event

    async def open(
        self,
        method: str,
        path: str,
        body: Any = b"",
        headers: dict[str, str] | None = None,
        tcp: bool = False,
    ) -> Stream:
        if tcp:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.site.port)
        else:
            with short_path(self.socket) as short:
                reader, writer = await asyncio.open_unix_connection(short)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Host": "front", "Connection": "close", "Content-Length": str(len(data)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + data)
        stream = Stream(reader, writer)
        await stream.begin()
        return stream

    async def call(self, method: str, path: str, body: Any = b"", **more: Any) -> Answer:
        stream = await self.open(method, path, body, **more)
        answer = Answer(stream.status, stream.headers, await stream.all())
        stream.close()
        return answer


def sign(csr: str, role: str, number: int) -> str:
    if not csr.startswith("CSR"):
        raise ValueError("it does not begin like one")
    return f"CERTIFICATE {role} {number}"


@asynccontextmanager
async def running(
    folder: Path,
    control: MemoryControl | None = None,
    blobs: Blobs | None = None,
    options: Options | None = None,
) -> AsyncIterator[Running]:
    """A front on a free port and a UNIX socket, stopped at the end."""
    control = control or MemoryControl()
    socket = str(folder / "api.sock")
    options = options or Options(
        port=0, socket=socket, authority=AUTHORITY, control=("c:1",), output=("o:1",), version="1"
    )
    stop = asyncio.Event()
    ready: asyncio.Future[Site] = asyncio.get_running_loop().create_future()
    store = blobs or FolderBlobs(folder / "blobs")
    task = asyncio.create_task(serve(options, control, store, expand, sign, stop, ready.set_result))
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
    assert ready.done(), task.result()
    try:
        yield Running(ready.result(), control, socket, stop)
    finally:
        stop.set()
        async with asyncio.timeout(20):
            assert await task is None


def run(work: Callable[[], Awaitable[None]], seconds: float = 30) -> None:
    """Run a test's coroutine, bounded."""

    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await work()

    asyncio.run(bounded())


async def until(true: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for a condition that other tasks bring about."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


def blocks(*rows: Row) -> list[bytes]:
    """Rows as an agent sends them."""
    return [pack(*filled, squeeze) for filled in fill(rows)]
