"""Small files that must be whole after a crash: keys, certificates."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def replace(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write the file, whole and durable, over whatever was there."""
    aside = _aside(path, data, mode)
    os.replace(aside, path)
    _sync_folder(path.parent)


def create(path: Path, data: bytes, mode: int = 0o600) -> bytes:
    """Write the file unless there is one; what it holds now. Of several who try at once one wins."""
    aside = _aside(path, data, mode)
    try:
        with suppress(FileExistsError):
            os.link(aside, path)
    finally:
        aside.unlink()
    _sync_folder(path.parent)
    return path.read_bytes()


def _aside(path: Path, data: bytes, mode: int) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    return aside


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
