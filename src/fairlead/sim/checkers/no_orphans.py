"""In the end nothing is left: no process, nothing in a keeper, nothing held by an agent or kept in a scheduler."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.sim.checkers.sights import Began, Broken, Finished, Settled


class NoOrphans:
    """`left` tells what machines and the leader still hold, as text; asked at the end."""

    def __init__(self, left: Callable[[], list[str]]) -> None:
        self.left = left
        self.live: dict[tuple[int, int, int, int], str] = {}
        self.sees = {Began: self.began, Finished: self.finished, Settled: self.settled}

    def began(self, sight: Began) -> None:
        """It runs."""
        self.live[sight.job, sight.index, sight.attempt, sight.term] = sight.place

    def finished(self, sight: Finished) -> None:
        """It does not."""
        self.live.pop((sight.job, sight.index, sight.attempt, sight.term), None)

    def settled(self, sight: Settled) -> None:
        """Nothing may run, or be held."""
        for key, place in self.live.items():
            raise Broken("I5 no orphans", f"{'.'.join(map(str, key))} still runs on {place}")
        for text in self.left():
            raise Broken("I5 no orphans", text)
