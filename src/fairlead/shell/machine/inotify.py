"""Tells which files of one folder were written to, as the kernel says it; Python has no call for that."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

_MODIFY = 0x2
_OVERFLOW = 0x4000
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
_EVENT = struct.Struct("iIII")


class Watch:
    """One folder; `fileno` is readable when something was written."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.inotify_init1(_FLAGS)
        if self._fd < 0 or libc.inotify_add_watch(self._fd, os.fsencode(folder), _MODIFY) < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot watch: {os.strerror(number)}", str(folder))

    def fileno(self) -> int:
        """For a selector."""
        return self._fd

    def read(self) -> set[str] | None:
        """The names written to since the last call; None when the kernel lost count."""
        try:
            data = os.read(self._fd, 64 << 10)
        except BlockingIOError:
            return set()
        names: set[str] = set()
        at = 0
        while at < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size
            if mask & _OVERFLOW:
                return None
            names.add(os.fsdecode(data[at : at + length].rstrip(b"\0")))
            at += length
        return names

    def close(self) -> None:
        """Watch no more."""
        os.close(self._fd)
