"""Our own small seeded generator: the same numbers on every Python, for ever.

The steps are SplitMix64 (Steele, Lea, Flood 2014): a counter and a mixing function, so a child generator is
one more number and a run is repeated by its seed alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


class Dice:
    """A stream of repeatable choices."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & MASK

    def bits(self) -> int:
        """The next 64 bits."""
        self._state = (self._state + GOLDEN) & MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        """A number from 0 to bound - 1."""
        return self.bits() % bound

    def between(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return low + self.below(high - low + 1)

    def chance(self, per_mille: int) -> bool:
        """True in so many of a thousand cases."""
        return self.below(1000) < per_mille

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[self.below(len(choices))]

    def child(self) -> Dice:
        """A generator of its own, so that one part's draws do not move another's."""
        return Dice(self.bits())
