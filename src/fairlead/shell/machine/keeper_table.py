"""What the keeper holds, in memory and on disk: each attempt from before its start until it is forgotten.

The disk has lines with a checksum, appended and never synced: a crashed machine has killed the work anyway, so
only the death of the keeper itself has to be survived. Standard library only: the keeper loads this by its path.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
import zlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .cgroups import Slot

Fields = dict[str, Any]

ROTATE_AT: Final = 16 << 20
GRACE_MS: Final = 10_000
LOCK_S: Final = 40.0
ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


def boot_ms() -> int:
    """Milliseconds since the machine's boot, sleep included: what deadlines are measured in."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Folder:
    """The keeper's own folder: one keeper at a time, under one identity, and only while it is there."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.inode = self._inode()
        self.lock = self._take_lock()
        self.identity = self._own_identity()

    def gone(self) -> bool:
        return self._inode() != self.inode

    def _inode(self) -> tuple[int, int]:
        try:
            about = os.stat(self.path)
        except OSError:
            return 0, 0
        return about.st_dev, about.st_ino

    def _take_lock(self) -> int:
        """The watcher of a dead keeper holds the lock until all is swept."""
        fd = os.open(f"{self.path}/keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        end = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
            except BlockingIOError:
                if time.monotonic() > end:
                    sys.exit(f"{self.path} has a keeper")
                time.sleep(0.01)

    def _own_identity(self) -> str:
        """A copied folder gets another one, so that no keeper ends what is not its own."""
        path, prefix = f"{self.path}/keeper.id", f"{self.inode[1]:x}-"
        known = ""
        if os.path.exists(path):
            with open(path) as file:
                known = file.read()
        if not known.startswith(prefix):
            known = prefix + os.urandom(6).hex()
            with open(path, "w") as file:
                file.write(known)
        return known


def size(path: str | None) -> int:
    try:
        return os.stat(path).st_size if path else 0
    except OSError:
        return 0


class Attempt:
    """One key: a process and all that descends from it."""

    __slots__ = (
        *(
            "key",
            "meta",
            "out",
            "err",
            "workspace",
            "hold",
            "grace_ms",
            "started_ms",
            "began_ms",
            "pid",
            "slot",
        ),
        *("status", "why", "limit_at", "lease_at", "kill_at", "ended"),
    )

    def __init__(self, command: Fields) -> None:
        self.key: str = command["key"]
        self.meta: Any = command.get("meta")
        self.out: str | None = command.get("out")
        self.err: str | None = command.get("err")
        self.workspace: str | None = command["cwd"] if command.get("workspace") else None
        self.hold = bool(command.get("hold"))
        self.grace_ms: int = command.get("grace_ms", GRACE_MS)
        self.started_ms: int = command.get("started_ms") or wall_ms()
        self.began_ms = boot_ms()
        self.pid = 0
        self.slot: Slot | None = None
        self.status: int | None = None
        self.why = ""
        # On the clock of `boot_ms`; 0: never.
        self.limit_at = self.lease_at = self.kill_at = 0
        # The last word on it, `ended` or `failed`, once there is one.
        self.ended: Fields | None = None

    def record(self) -> Fields:
        names = ("key", "meta", "out", "err", "hold", "grace_ms", "started_ms")
        fields = {name: getattr(self, name) for name in names}
        return fields | {"cwd": self.workspace, "workspace": self.workspace is not None}

    def entry(self) -> Fields:
        fields = {"key": self.key, "meta": self.meta, "pid": self.pid, "started_ms": self.started_ms}
        state = self.ended["type"] if self.ended else "running"
        return (self.ended or {}) | fields | {"type": "entry", "state": state}

    def how_it_ended(self) -> Fields:
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        oom = self.slot is not None and code != 0 and self.slot.oom()
        return {
            "type": "ended",
            "key": self.key,
            "exit": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "why": self.why or ("oom" if oom else "exited"),
            "started_ms": self.started_ms,
            "ended_ms": wall_ms(),
            "out_length": size(self.out),
            "err_length": size(self.err),
        }

    def next_at(self) -> int:
        return min((at for at in (self.limit_at, self.lease_at, self.kill_at) if at), default=0)


def line(what: str, key: str, value: Any) -> bytes:
    body = ENCODER.encode([what, key, value]).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


class Table:
    """All attempts by key, those open apart, and the journal that brings them back."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.all: dict[str, Attempt] = {}
        self.open: dict[str, Attempt] = {}
        # The groups in use, so that a successor finds them wherever it is itself.
        self.groups: list[str] = []
        self.damaged = 0
        self.fd = -1
        self.waiting: list[bytes] = []
        self.length, self.limit = 0, ROTATE_AT

    def put(self, attempt: Attempt) -> bool:
        """Before its start; false when the disk takes no more: then it must not start."""
        self.waiting.append(line("start", attempt.key, attempt.record()))
        if not self.flush():
            self.waiting.pop()
            return False
        self.all[attempt.key] = self.open[attempt.key] = attempt
        return True

    def end(self, attempt: Attempt, fields: Fields) -> None:
        attempt.ended = fields
        self.open.pop(attempt.key, None)
        self.waiting.append(line("end", attempt.key, fields))

    def forget(self, attempt: Attempt) -> None:
        del self.all[attempt.key]
        self.waiting.append(line("forget", attempt.key, None))

    def restore(self) -> None:
        """Read what is whole; damaged lines are counted and passed over."""
        try:
            with open(self.path, "rb") as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return
        for text in filter(None, lines):
            try:
                if int(text[:8], 16) != zlib.crc32(text[9:]):
                    raise ValueError("torn")
                what, key, value = json.loads(text[9:])
            except ValueError:
                self.damaged += 1
                continue
            self._apply(what, key, value)

    def _apply(self, what: str, key: str, value: Any) -> None:
        if what == "groups":
            self.groups = value
        elif what == "start":
            self.all[key] = self.open[key] = Attempt(value)
        elif what == "end" and key in self.open:
            self.open.pop(key).ended = value
        elif what == "forget":
            self.all.pop(key, None)
            self.open.pop(key, None)

    def flush(self) -> bool:
        """Write what waits; what the disk refuses is kept and tried again."""
        if not self.waiting:
            return True
        data = b"".join(self.waiting)
        try:
            written = os.write(self.fd, data)
        except OSError:
            return False
        self.length += written
        if written < len(data):
            # The torn line fails its checksum; all is written once more behind it.
            self.waiting.insert(0, b"\n")
            return False
        self.waiting.clear()
        if self.length > self.limit:
            self.rotate()
        return True

    def rotate(self) -> None:
        """A new journal with what is still held; the old one stays when there is no room for it."""
        lines = [line("groups", "", self.groups)]
        for key, attempt in self.all.items():
            lines.append(line("start", key, attempt.record()))
            if attempt.ended:
                lines.append(line("end", key, attempt.ended))
        fresh = self.path + ".new"
        try:
            with open(fresh, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(b"".join(lines))
            os.rename(fresh, self.path)
        except OSError:
            self.limit += ROTATE_AT
            if self.fd < 0:
                raise
            return
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self.length = sum(map(len, lines))
        self.limit = max(ROTATE_AT, 2 * self.length)
