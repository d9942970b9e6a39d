"""Tells one machine from another, and one boot from the next.

An image that is cloned takes its agent's folder along, and both would be the same agent. The mark is a hash of
what a clone does not share: the board, the first network card, and the place and birth of the folder; the
machine's id too, where images are made with care.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from contextlib import suppress
from pathlib import Path

_PERMANENT = "0"


def boot_id() -> str:
    """A text that is new with each boot of the kernel."""
    return _read(Path("/proc/sys/kernel/random/boot_id"))


def machine_mark(folder: Path) -> str:
    """The mark of this machine with this folder; 32 hex digits."""
    inode, birth = _place(folder)
    parts = (
        _read(Path("/etc/machine-id")),
        _read(Path("/sys/class/dmi/id/product_uuid")),
        _first_mac(Path("/sys/class/net")),
        str(inode),
        str(birth),
    )
    return hashlib.sha256("\0".join(("mark 1", *parts)).encode()).hexdigest()[:32]


def _read(path: Path) -> str:
    """A line of a system file; empty where there is none, or none for us."""
    with suppress(OSError):
        return path.read_text(encoding="ascii", errors="replace").strip()
    return ""


def _first_mac(cards: Path) -> str:
    """The address of the first card, one of hardware if there is any: others come and go with containers."""
    found: list[tuple[bool, int, str]] = []
    for card in cards.glob("*"):
        mac, index = _read(card / "address"), _read(card / "ifindex")
        if index.isdecimal() and mac.strip("0:"):
            virtual = not (card / "device").exists() or _read(card / "addr_assign_type") != _PERMANENT
            found.append((virtual, int(index), mac))
    return min(found)[2] if found else ""


class _Statx(ctypes.Structure):
    """The kernel's `struct statx`, as far as the birth of a file; the rest of its 256 bytes is spare."""

    _fields_ = [
        ("mask", ctypes.c_uint32),
        ("before_inode", ctypes.c_ubyte * 28),
        ("inode", ctypes.c_uint64),
        ("before_birth", ctypes.c_ubyte * 40),
        ("birth_s", ctypes.c_int64),
        ("birth_ns", ctypes.c_uint32),
        ("spare", ctypes.c_ubyte * 164),
    ]


_AT_FDCWD = -100
_STATX_BTIME = 0x800


def _place(folder: Path) -> tuple[int, int]:
    """Inode and birth in nanoseconds; birth 0 where the filesystem does not keep it."""
    inode = folder.stat().st_ino
    # Python has no call for it before 3.15.
    statx = getattr(ctypes.CDLL(None), "statx", None)
    found = _Statx()
    if statx is None or statx(_AT_FDCWD, os.fsencode(folder), 0, _STATX_BTIME, ctypes.byref(found)) != 0:
        return inode, 0
    birth = found.birth_s * 1_000_000_000 + found.birth_ns if found.mask & _STATX_BTIME else 0
    return inode, birth
