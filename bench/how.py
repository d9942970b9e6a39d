"""How a run of the table goes: how thorough, beside whom."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class How(Struct, frozen=True):
    """What every measurement is told."""

    full: bool = False
    # Where other schedulers are installed; None: they are not asked for.
    peers: Path | None = None

    @property
    def runs(self) -> int:
        """Repetitions of each figure."""
        return 5 if self.full else 3

    def command(self, id: str) -> str:
        """What prints the row again."""
        return " ".join(
            ["fairlead bench", id, *["--full"] * self.full, *["--peers"] * (self.peers is not None)]
        )
