"""The output of attempts on this machine: noticed as it grows, read and packed for a front, deleted.

Files are `KEY.out` and `KEY.err` in one folder; children write them, nobody else. What cannot be read back is
said, once for each stream, and is no fault of the agent.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from threading import Lock

from fairlead.agent.words import Event, Forget, Grew, OutputUnreadable, ReadOutput
from fairlead.model.blocks import ERR, OUT, Row, Squeeze, fill, pack
from fairlead.shell.machine.agent_loop import Handlers
from fairlead.shell.machine.inotify import Watch

LOG = logging.getLogger(__name__)
NAMES = {OUT: "out", ERR: "err"}
STREAMS = {name: stream for stream, name in NAMES.items()}
# The first byte waits so long for company: a short command's output then travels with its end.
FIRST_S = 0.001
# After one look at what grew the next waits so long: a talker costs little.
PAUSE_S = 0.005
READ = 256 << 10


class Digest:
    """The sha256 of a stream as far as it was read, in whatever pieces and however often."""

    __slots__ = ("_sha", "at")

    def __init__(self) -> None:
        self._sha = hashlib.sha256()
        self.at = 0

    def take(self, offset: int, data: bytes) -> None:
        """Bytes of the stream; those behind a gap are read again at the end."""
        if offset <= self.at < offset + len(data):
            self._sha.update(memoryview(data)[self.at - offset :])
            self.at = offset + len(data)

    def value(self) -> bytes:
        """Of all bytes before `at`."""
        return self._sha.digest()


class Spool:
    """One folder of output files."""

    def __init__(self, folder: Path, squeeze: Squeeze) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._squeeze = squeeze
        self._lengths: dict[str, int] = {}
        self._digests: dict[tuple[str, int], Digest] = {}
        # Blocks are made in a thread or in the loop, and one line may end while its last is being made.
        self._reading = Lock()

    def handlers(self) -> Handlers:
        """What this port does."""
        return {Forget: lambda effect: self.drop(effect.key)}

    async def follow(self, post: Callable[[Event], None]) -> None:
        """Say what grows; first of all what is there already."""
        watch = Watch(self._folder)
        loop = asyncio.get_running_loop()
        written = asyncio.Event()
        names: set[str] | None = None
        try:
            while True:
                self._look(self._names() if names is None else names, post)
                looked = loop.time()
                loop.add_reader(watch.fileno(), written.set)
                await written.wait()
                loop.remove_reader(watch.fileno())
                await asyncio.sleep(max(FIRST_S, PAUSE_S - (loop.time() - looked)))
                written.clear()
                names = watch.read()
        finally:
            loop.remove_reader(watch.fileno())
            watch.close()

    def keep_only(self, keys: Collection[str]) -> None:
        """Delete what belongs to attempts that nobody holds any more."""
        for name in self._names():
            if name.rpartition(".")[0] not in keys:
                self._delete(name)

    def drop(self, keys: Collection[str]) -> None:
        """Delete the output of these."""
        for key in keys:
            for stream, name in NAMES.items():
                self._digests.pop((key, stream), None)
                self._delete(f"{key}.{name}")

    def blocks(self, read: ReadOutput, post: Callable[[Event], None]) -> Iterator[bytes]:
        """What was asked for, packed; streams that cannot be read are posted."""
        for columns, payload in fill(self._rows(read, post)):
            yield pack(columns, payload, self._squeeze)

    def _names(self) -> set[str]:
        return set(os.listdir(self._folder))

    def _delete(self, name: str) -> None:
        self._lengths.pop(name, None)
        (self._folder / name).unlink(missing_ok=True)

    def _look(self, names: Collection[str], post: Callable[[Event], None]) -> None:
        grew = Grew([], [], [])
        for name in names:
            key, _, ending = name.rpartition(".")
            try:
                length = os.stat(self._folder / name).st_size
            except FileNotFoundError:
                continue
            if ending in STREAMS and length > self._lengths.get(name, 0):
                self._lengths[name] = length
                grew.key.append(key)
                grew.stream.append(STREAMS[ending])
                grew.length.append(length)
        if grew.key:
            post(grew)

    def _rows(self, read: ReadOutput, post: Callable[[Event], None]) -> Iterator[Row]:
        rows = zip(read.key, read.stream, read.offset, read.length, read.end, strict=True)
        for key, stream, offset, length, end in rows:
            job, index, number, term = (int(part) for part in key.split("."))
            try:
                with self._reading:
                    data = self._read(key, stream, offset, length)
                    digest = self._digest(key, stream, offset, data, bool(end))
            except OSError as fault:
                LOG.error("output %s.%s cannot be read: %s", key, NAMES[stream], fault)
                post(OutputUnreadable([key], [stream]))
                continue
            yield Row(job, index, number, term, stream, offset, data, bool(end), digest)

    def _read(self, key: str, stream: int, offset: int, length: int) -> bytes:
        if not length:
            return b""
        with open(self._folder / f"{key}.{NAMES[stream]}", "rb", buffering=0) as file:
            data = os.pread(file.fileno(), length, offset)
        if len(data) != length:
            raise OSError(f"{length} bytes were written at {offset}, {len(data)} are there")
        return data

    def _digest(self, key: str, stream: int, offset: int, data: bytes, end: bool) -> bytes:
        """Of the whole stream where it ends, but not where one piece is all of it."""
        if end and not offset:
            self._digests.pop((key, stream), None)
            return b""
        digest = self._digests.setdefault((key, stream), Digest())
        digest.take(offset, data)
        if not end:
            return b""
        while digest.at < offset + len(data):
            missing = min(READ, offset + len(data) - digest.at)
            digest.take(digest.at, self._read(key, stream, digest.at, missing))
        del self._digests[(key, stream)]
        return digest.value()
