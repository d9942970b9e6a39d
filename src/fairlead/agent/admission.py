"""What one machine takes on: room by exact counts, and how a span of starts is cut by what is held already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Attempts held at once, ended ones included; a process table and the reports have a bound too.
MOST_ATTEMPTS = 20_000

Ask = Sequence[tuple[str, int]]


class Room:
    """What the machine has, and what is given out."""

    def __init__(self, names: Sequence[str], totals: Sequence[int]) -> None:
        self.free: dict[str, int] = dict(zip(names, totals, strict=False))

    def fits(self, ask: Ask, most: int) -> int:
        """How many of these fit at once, and not more than `most`."""
        for name, amount in ask:
            if amount > 0:
                most = min(most, self.free.get(name, 0) // amount)
        return max(0, most)

    def take(self, ask: Ask) -> None:
        """Give out room; what is found running after a restart may pass what there is."""
        for name, amount in ask:
            self.free[name] = self.free.get(name, 0) - amount

    def give(self, ask: Ask) -> None:
        """Take room back."""
        for name, amount in ask:
            self.free[name] = self.free.get(name, 0) + amount


def gaps(first: int, count: int, held: Iterable[int]) -> list[tuple[int, int]]:
    """What is left of a span without the held indices, as (first, count)."""
    left: list[tuple[int, int]] = []
    at = first
    for index in held:
        if index > at:
            left.append((at, index - at))
        at = index + 1
    if first + count > at:
        left.append((at, first + count - at))
    return left
