"""Makes a failing scenario shorter: fewer items, a calmer world, earlier times, as long as the same thing breaks.

Delta debugging over the items first, in halves, quarters and so on; then one setting of the world after the
other back to calm; then the gaps between items.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead.sim.run import Result, simulate
from fairlead.sim.scenario import CALM, Item, Scenario

Simulate = Callable[[Scenario], Result]


class Shrinker:
    """Spends at most `tries` runs."""

    def __init__(self, scenario: Scenario, broken: str, tries: int, run: Simulate = simulate) -> None:
        self.best = scenario
        self.wanted = kind_of(broken)
        self.tries = tries
        self.run = run

    def shrink(self) -> Scenario:
        """The shortest scenario found."""
        before = None
        while before != self.best and self.tries > 0:
            before = self.best
            self._fewer_items()
            self._calmer_world()
            self._sooner()
        return self.best

    def _breaks(self, scenario: Scenario) -> bool:
        if self.tries <= 0:
            return False
        self.tries -= 1
        if kind_of(self.run(scenario).broken) != self.wanted:
            return False
        self.best = scenario
        return True

    def _with(self, items: list[Item], world: dict[str, int] | None = None) -> Scenario:
        return Scenario(self.best.seed, world or self.best.world, items)

    def _fewer_items(self) -> None:
        piece = max(len(self.best.items) // 2, 1)
        while self.best.items:
            at = 0
            while at < len(self.best.items):
                items = self.best.items
                if not self._breaks(self._with(items[:at] + items[at + piece :])):
                    at += piece
            if piece == 1:
                return
            piece //= 2

    def _calmer_world(self) -> None:
        for name, calm in CALM.items():
            world = self.best.world
            if world[name] == calm:
                continue
            if not self._breaks(self._with(self.best.items, world | {name: calm})) and world[name] > 1:
                self._breaks(self._with(self.best.items, world | {name: world[name] // 2}))

    def _sooner(self) -> None:
        end = max((item.at for item in self.best.items), default=0) + 1_000
        if end < self.best.world["faults_ms"]:
            self._breaks(self._with(self.best.items, self.best.world | {"faults_ms": end}))
        for at in range(len(self.best.items)):
            items = self.best.items
            before = items[at - 1].at if at else 0
            gap = items[at].at - before
            if gap > 200:
                moved = [Item(one.at - gap * 3 // 4, one.kind, one.args) for one in items[at:]]
                self._breaks(self._with([*items[:at], *moved]))


def kind_of(broken: str) -> str:
    """Which invariant, without the particulars."""
    return broken.partition(":")[0]
