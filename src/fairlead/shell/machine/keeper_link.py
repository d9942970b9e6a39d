"""The agent's end of the line to its keeper: starts one where none is, and carries batches both ways.

The first batch of events after `connect` begins with `listed`: all that the keeper holds. What was sent and
not answered before a connection broke is void; the list says what became of it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

Command = dict[str, Any]
Event = dict[str, Any]

# A dead keeper's watcher may have to wait this long for killed processes to go, and only then lets go.
START_S = 45.0
RETRY_S = 0.01
# A keeper that cannot come up says why in its log; trying on would only repeat it.
MOST_STARTS = 3
# A list of 20,000 attempts is some 10 MiB.
LONGEST_LINE = 256 << 20

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Event]).decode


class KeeperGone(ConnectionError):
    """The line broke, or no keeper comes up. `connect` again."""


class KeeperLink:
    """One connection at a time; the newest one to a keeper displaces any other."""

    def __init__(self, folder: Path | str, groups: bool = True) -> None:
        self.folder = Path(folder).absolute()
        self.options = [] if groups else ["--without-groups"]
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._first: list[Event] = []
        # The process that we started, to be waited for if it ends before we do; 0: none.
        self._keeper = 0

    async def connect(self) -> None:
        """Reach the keeper of this folder, started now if none listens; it runs on when we end."""
        await self.close()
        loop = asyncio.get_running_loop()
        end, starts = loop.time() + START_S, 0
        while not await self._reach() or not await self._listed():
            if not self._keeper or self._gone(self._keeper):
                starts += 1
                self._keeper = self._start()
            if starts > MOST_STARTS or loop.time() > end:
                raise KeeperGone(f"no keeper comes up in {self.folder}; see keeper.log there")
            await asyncio.sleep(RETRY_S)

    async def _reach(self) -> bool:
        # By way of the folder's descriptor: the name of a socket may not be longer than 107 bytes.
        folder = os.open(self.folder, os.O_PATH | os.O_CLOEXEC)
        try:
            path = f"/proc/self/fd/{folder}/keeper.sock"
            self._reader, self._writer = await asyncio.open_unix_connection(path, limit=LONGEST_LINE)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        finally:
            os.close(folder)
        return True

    async def _listed(self) -> bool:
        """Wait for the first word: a dying keeper still has its door open, and says nothing."""
        try:
            self._first = await self.events()
        except KeeperGone:
            await self.close()
            return False
        return True

    def _gone(self, keeper: int) -> bool:
        try:
            return os.waitpid(keeper, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def _start(self) -> int:
        """A process of its own session that nobody here waits for as long as it lives."""
        argv = [sys.executable, "-S", "-I", str(Path(__file__).with_name("keeper.py")), str(self.folder)]
        # An agent that was itself started by a keeper must not hand its marks on.
        env = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_KE")}
        log = str(self.folder / "keeper.log")
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        return os.posix_spawn(argv[0], argv + self.options, env, file_actions=actions, setsid=True)

    def send(self, commands: Sequence[Command]) -> None:
        """Hand over a batch; on a broken line it is void, and `events` says so."""
        if self._writer is None:
            raise KeeperGone("not connected")
        if commands:
            self._writer.write(_encode(commands) + b"\n")

    async def drain(self) -> None:
        """Wait while the keeper is far behind."""
        if self._writer is None:
            raise KeeperGone("not connected")
        await self._writer.drain()

    async def events(self) -> list[Event]:
        """The next batch; `KeeperGone` when the line has broken."""
        if self._reader is None:
            raise KeeperGone("not connected")
        if self._first:
            first, self._first = self._first, []
            return first
        try:
            line = await self._reader.readline()
        except (ConnectionError, ValueError) as fault:
            raise KeeperGone(str(fault)) from fault
        if not line.endswith(b"\n"):
            raise KeeperGone("the keeper closed the line")
        return _decode(line)

    async def close(self) -> None:
        """Let go of the line; the keeper and its processes go on."""
        if self._writer is not None:
            self._writer.close()
            try:
                await self._writer.wait_closed()
            except ConnectionError:
                pass  # It was broken already.
        self._reader = self._writer = None
        self._first = []
