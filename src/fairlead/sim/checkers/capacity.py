"""No machine ever runs more than it has: counted over the processes themselves, those being ended included."""

from __future__ import annotations

from fairlead.sim.checkers.sights import Began, Broken, Finished, Joined


class Capacity:
    """Sums what runs, by machine."""

    def __init__(self) -> None:
        self.totals: dict[str, dict[str, int]] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.asks: dict[tuple[str, int, int, int, int], dict[str, int]] = {}
        self.sees = {Joined: self.joined, Began: self.began, Finished: self.finished}

    def joined(self, sight: Joined) -> None:
        """What a machine has."""
        self.totals[sight.place] = sight.totals
        self.used[sight.place] = {}

    def began(self, sight: Began) -> None:
        """More is used."""
        self.asks[sight.place, sight.job, sight.index, sight.attempt, sight.term] = sight.ask
        used, totals = self.used[sight.place], self.totals[sight.place]
        for name, amount in sight.ask.items():
            used[name] = used.get(name, 0) + amount
            if used[name] > totals.get(name, 0):
                raise Broken(
                    "I3 capacity", f"{sight.place} runs {used[name]} {name} of {totals.get(name, 0)}"
                )

    def finished(self, sight: Finished) -> None:
        """Less is used."""
        ask = self.asks.pop((sight.place, sight.job, sight.index, sight.attempt, sight.term), {})
        for name, amount in ask.items():
            self.used[sight.place][name] -= amount
