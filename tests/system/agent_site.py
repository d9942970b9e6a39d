"""A site for one real agent: a control and a front that the test speaks for, over the real wire."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fairlead.model.blocks import Row, Sealed, parse, payload_of, rows_of
from fairlead.model.intake import Acked
from fairlead.model.jobs import JobSpec, encode_spec
from fairlead.model.keys import Keys
from fairlead.model.orders import Beat, Frame, Load, Order, Servers, Specs, Start, Welcome, Word
from fairlead.model.session import Line
from fairlead.model.storage import Fence
from fairlead.plane.words import Closed, Opened, Received
from fairlead.shell.access.ca import Authority
from fairlead.shell.access.identity import Identity, install, request
from fairlead.shell.access.tls import agent_of, server_credentials
from fairlead.shell.blobs.codec import expand
from fairlead.shell.machine.keeper_link import KeeperLink
from fairlead.shell.wire.agents import AgentDoor
from fairlead.shell.wire.listening import Door, Listening, listen
from fairlead.shell.wire.output import OutputDoor

T = TypeVar("T")
HOST = "127.0.0.1"
BOUND_S = 20.0
BEAT_MS = 200
PROGRAM = (
    "import sys, json; from fairlead.programs.agent import main; sys.exit(main(json.loads(sys.argv[1])))"
)


def now_ms() -> int:
    """As certificates and stamps count."""
    return time.time_ns() // 1_000_000


class Site:
    """Control that welcomes whoever comes, and a front that stores all it is sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fence = Fence("site-a", 1, 5)
        self.authority = Authority.create("site-a", now_ms())
        self.lines: dict[int, Line] = {}
        # Words as they came, with the session and when.
        self.heard: list[tuple[int, Word, float]] = []
        self.rows: list[Row] = []
        self.moved = asyncio.Event()
        self._listening: list[Listening] = []

    async def open(self) -> None:
        """Listen."""
        keys = self.folder / "server"
        issued = self.authority.issue(request(keys, [HOST]), "server", 1, now_ms())
        assert not hasattr(issued, "code")
        identity = install(keys, issued.pem, self.authority.pem)
        assert isinstance(identity, Identity)
        self.identity = identity
        self.control = AgentDoor(self._take, agent_of)
        for door in (self.control, OutputDoor(self._store, agent_of)):
            self._listening.append(await self._listen(door))
        self.addresses = [f"{HOST}:{listening.port}" for listening in self._listening]

    async def reopen_output(self) -> None:
        """Cut the lines of output; the agent is told of another front."""
        await self._listening.pop().close()
        self._listening.append(await self._listen(OutputDoor(self._store, agent_of)))
        self.addresses[1] = f"{HOST}:{self._listening[-1].port}"
        self.say(Servers(self.addresses[:1], self.addresses[1:]))

    async def _listen(self, door: Door) -> Listening:
        listening = await listen([door], HOST, 0, server_credentials(lambda: self.identity))
        assert isinstance(listening, Listening)
        return listening

    async def close(self) -> None:
        """Cut every line."""
        for listening in self._listening:
            await listening.close()

    def admit(self, folder: Path, number: int = 7) -> None:
        """Make a folder that has joined."""
        issued = self.authority.issue(request(folder / "identity"), "agent", number, now_ms())
        install(folder / "identity", issued.pem, self.authority.pem)
        about = {"format": 1, "oldest_reader": 1, "number": number, "name": "one", "site": "site-a"}
        (folder / "agent.json").write_text(json.dumps(about))
        (folder / "servers.json").write_text(json.dumps({"control": self.addresses[:1], "output": []}))

    @property
    def session(self) -> int:
        """The newest one."""
        return max(self.lines)

    def say(self, *orders: Order, session: int = 0) -> None:
        """A frame down a session, the newest if nobody says which."""
        session = session or self.session
        self.control.send(session, self.lines[session].say(orders, 0))

    def start(self, keys: Keys, lease_ms: int = 0, session: int = 0, **fields: Any) -> None:
        """Run these."""
        spec = JobSpec(**{"name": "job", **fields})
        rows = len(keys)
        name = f"spec {len(self.heard)}"
        self.say(
            Specs([name], [encode_spec(spec)]), Start(keys, [name] * rows, [lease_ms] * rows), session=session
        )

    def words(self, kind: type[T], session: int | None = None) -> list[T]:
        """What was heard of a kind, in one session or in all."""
        return [word for at, word, _ in self.heard if isinstance(word, kind) and session in (None, at)]

    def output(self, index: int, stream: int) -> bytes:
        """What is stored of one instance."""
        data = b""
        for row in sorted(self.rows, key=lambda row: row.offset):
            if (row.index, row.stream) == (index, stream) and row.stop > len(data):
                data += row.data[len(data) - row.offset :]
        return data

    async def until(self, what: str, check: Callable[[], T]) -> T:
        """Wait until something holds that changes with what is heard."""
        try:
            async with asyncio.timeout(BOUND_S):
                while not (found := check()):
                    self.moved.clear()
                    await self.moved.wait()
        except TimeoutError:
            raise AssertionError(f"never: {what}; heard {self.heard[-5:]}") from None
        return found

    def _take(self, event: Opened | Received | Closed) -> None:
        if isinstance(event, Opened):
            self.lines[event.session] = Line(0)
            servers = Servers(self.addresses[:1], self.addresses[1:])
            welcome = Welcome(self.fence, BEAT_MS, 3 * BEAT_MS, True)
            self.control.send(event.session, self.lines[event.session].say([welcome, servers], 0))
        elif isinstance(event, Received):
            self._hear(event.session, event.frame)
        self.moved.set()

    def _hear(self, session: int, frame: Frame) -> None:
        line = self.lines[session]
        line.hear(frame, 0)
        for word in frame.body:
            self.heard.append((session, word, time.perf_counter()))  # type: ignore[arg-type]
        if any(isinstance(word, Load) for word in frame.body):
            self.control.send(session, line.say([Beat()], 0))

    async def _store(self, agent: int, block: bytes) -> Acked:
        sealed = parse(block, expand)
        assert isinstance(sealed, Sealed)
        payload = payload_of(sealed, expand)
        assert isinstance(payload, bytes)
        rows = list(rows_of(sealed.columns, payload))
        self.rows += rows
        self.moved.set()
        columns = zip(*((*row.key, row.stop + row.end) for row in rows), strict=True)
        return Acked(*(list(column) for column in columns))


class Process:
    """One agent program on one folder."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        told = {"dir": str(folder), **options}
        with open(folder.parent / f"{folder.name}.log", "ab") as log:
            self._process = subprocess.Popen([sys.executable, "-c", PROGRAM, json.dumps(told)], stderr=log)

    def signal(self, number: signal.Signals) -> None:
        """TERM, or KILL."""
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Its exit code."""
        return await asyncio.wait_for(asyncio.to_thread(self._process.wait), BOUND_S)

    async def kill(self) -> None:
        """As a crash does it."""
        self._process.kill()
        await self.ended()


async def end_keeper(folder: Path) -> None:
    """The keeper of a folder ends everything and goes."""
    link = KeeperLink(folder)
    await link.connect()
    (listed, *_) = await link.events()
    link.send([{"type": "leave", "keep": False}])
    await link.drain()
    end = time.monotonic() + BOUND_S
    while os.path.exists(f"/proc/{listed['pid']}") and _state(listed["pid"]) != "Z":
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
    await link.close()


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return "Z"
