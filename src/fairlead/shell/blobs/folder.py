"""Blobs as files in a folder: created once, whole, and on the disk when `put` returns.

A file is written aside, synced, linked to its name and the folder synced: a reader sees all of it or nothing,
and so does whoever comes after a crash. Several servers may use one folder if all of them see the same one,
which `prove` shows. Every call blocks; the caller gives it a thread.
"""

from __future__ import annotations

import itertools
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from fairlead.model import blob_keys

_ASIDE = ".aside"
# Longer than any write takes: what is older was left by a writer that died.
_STALE_S = 3600.0


class FolderBlobs:
    """The port `Blobs` on a folder. Safe to call from several threads, processes and machines at once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._aside = root / _ASIDE
        # Unlike a process id, this does not come again on another machine that sees the same folder.
        self._mine = secrets.token_hex(8)
        self._count = itertools.count()
        self._settled: set[Path] = set()
        # What people's work wrote is for nobody else on this machine.
        root.mkdir(0o700, parents=True, exist_ok=True)
        self._aside.mkdir(exist_ok=True)
        for folder in (root, root.parent):
            _sync_folder(folder)
        self._sweep()

    def put(self, key: str, data: bytes) -> bool:
        """Create, durably. False, and nothing changes, when the key is there already."""
        path = self._path(key)
        aside = self._aside / f"{self._mine}.{next(self._count)}"
        try:
            _write(aside, data)
            created = self._link(aside, path)
        finally:
            with suppress(FileNotFoundError):
                aside.unlink()
        # Also when it was there: whoever linked it may not have synced the folder yet.
        with suppress(FileNotFoundError):
            _sync_folder(path.parent)
        return created

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        """Bytes from `start`, at most `length`; fewer, or none, where the blob ends. None: no such blob."""
        if start < 0:
            raise ValueError(f"no blob begins at {start}")
        try:
            fd = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                return None
            rest = max(info.st_size - start, 0)
            return _pread(fd, start, rest if length is None else max(min(length, rest), 0))
        finally:
            os.close(fd)

    def list(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """The first keys with this prefix that sort behind `after`, in the order of their bytes."""
        return list(itertools.islice(self._walk(self._root, "", prefix, after), limit))

    def delete(self, keys: Iterable[str]) -> None:
        """Forget these; what is not there is forgotten already."""
        for key in keys:
            path = self._path(key)
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
            self._prune(path.parent)

    def mark(self, nonce: str) -> None:
        """Leave a marker that another server on the same folder can prove to see."""
        self.put(blob_keys.marker(nonce), b"")

    def prove(self, nonce: str) -> bool:
        """Whether this folder is the one that was marked with this fresh nonce."""
        return self.get(blob_keys.marker(nonce)) is not None

    def _path(self, key: str) -> Path:
        blob_keys.check_key(key)
        return self._root / key

    def _link(self, aside: Path, path: Path) -> bool:
        if path.parent not in self._settled:
            self._settle(path.parent)
        while True:
            try:
                os.link(aside, path)
            except FileExistsError:
                if path.is_dir():
                    raise IsADirectoryError(f"{path} is the beginning of other keys") from None
                return False
            except FileNotFoundError:
                self._settle(path.parent)  # a delete emptied and pruned it just now
            else:
                return True

    def _settle(self, folder: Path) -> None:
        """Make the folder; sync also what is there already, for another writer may not have come so far."""
        below = folder.relative_to(self._root).parts
        with suppress(FileNotFoundError):
            for depth in range(len(below)):
                parent = self._root.joinpath(*below[:depth])
                parent.joinpath(below[depth]).mkdir(exist_ok=True)
                _sync_folder(parent)
            self._settled.add(folder)

    def _prune(self, folder: Path) -> None:
        while folder != self._root:
            try:
                folder.rmdir()
            except OSError:
                return  # not empty, or gone
            self._settled.discard(folder)
            folder = folder.parent

    def _walk(self, folder: Path, base: str, prefix: str, after: str) -> Iterator[str]:
        """Keys below `folder` in order; a folder sorts by its name and the slash, as its keys do."""
        try:
            entries = [(base + e.name + "/" * e.is_dir(), e.name) for e in os.scandir(folder)]
        except (FileNotFoundError, NotADirectoryError):
            return
        for key, name in sorted(entries):
            if name == _ASIDE:
                continue
            if not key.endswith("/"):
                if key.startswith(prefix) and key > after:
                    yield key
            elif (key.startswith(prefix) or prefix.startswith(key)) and (
                key > after or after.startswith(key)
            ):
                yield from self._walk(folder / name, key, prefix, after)

    def _sweep(self) -> None:
        """Remove what writers that died have left aside."""
        oldest = time.time() - _STALE_S
        for entry in os.scandir(self._aside):
            with suppress(FileNotFoundError):
                if entry.stat().st_mtime < oldest:
                    os.unlink(entry.path)


def _write(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _pread(fd: int, start: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0 and (part := os.pread(fd, length, start)):
        parts.append(part)
        start += len(part)
        length -= len(part)
    return b"".join(parts)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
