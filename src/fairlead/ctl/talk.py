"""Talk with the person: on standard error, live only on a terminal, silent when asked to be."""

from __future__ import annotations

import os
import sys
import time


class Talk:
    """Lines that stay, and one line that is replaced."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.terminal = sys.stderr.isatty()
        self._live = ""

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self.quiet:
            self.clear()
            print(text, file=sys.stderr, flush=True)

    def beat(self, text: str) -> None:
        """What it waits for: replaced in place on a terminal, a line with the time elsewhere."""
        if self.quiet:
            return
        if not self.terminal:
            print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
            return
        if text == self._live:
            return
        width = max(os.get_terminal_size(sys.stderr.fileno()).columns - 1, 20)
        print(f"\r\x1b[K{text[:width]}", end="", file=sys.stderr, flush=True)
        self._live = text

    def clear(self) -> None:
        """Take the live line away."""
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._live = ""

    def error(self, text: str) -> None:
        """Said even when quiet."""
        self.clear()
        print(text, file=sys.stderr, flush=True)


def span(ms: float) -> str:
    """A time to two units: `40ms`, `1.4s`, `12s`, `1m 34s`, `2h 5m`, `3d 4h`."""
    seconds = max(ms, 0) / 1000
    if seconds < 1:
        return f"{max(ms, 0):.0f}ms"
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    for unit, length, below, size in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if whole >= length:
            rest = whole % length // size
            return f"{whole // length}{unit} {rest}{below}" if rest else f"{whole // length}{unit}"
    return f"{whole}s"


def age(at: object) -> str:
    """How long ago an instant was, in one unit."""
    if not isinstance(at, int) or at <= 0:
        return "-"
    seconds = int(time.time() - at / 1000)
    return f"{max(seconds, 0)}s" if seconds < 10 else span(seconds * 1000).split()[0]


def clock(at: object) -> str:
    """An instant in the local day, with the date when it is another one."""
    if not isinstance(at, int) or at <= 0:
        return "-"
    local = time.localtime(at / 1000)
    same = local[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if same else "%Y-%m-%d %H:%M:%S", local)


def amount(name: str, value: int) -> str:
    """A resource as people write it: memory in KiB steps, processors and pieces from thousandths."""
    if name in {"memory", "disk"}:
        size = float(value)
        for unit in ("B", "KiB", "MiB", "GiB"):
            if size < 1024:
                return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
            size /= 1024
        return f"{size:.1f} TiB"
    return f"{value / 1000:g}"
