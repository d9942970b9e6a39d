"""What followers are told is the log: every segment of a whole batch once, in order, or `resync`."""

from __future__ import annotations

from bisect import bisect_left

from fairlead.model.changes import Part, encode
from fairlead.sim.checkers.sights import Broken, Durable, Follows, Settled, Told


class Follow:
    """All followers against the log as it became durable."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.parts: dict[int, Part] = {}
        # By follower: the number of the next segment that it may not miss.
        self.next: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.sees = {Durable: self.durable, Follows: self.follows, Told: self.told, Settled: self.settled}

    def durable(self, sight: Durable) -> None:
        """The log."""
        self.numbers.append(sight.part.n)
        self.parts[sight.part.n] = sight.part

    def follows(self, sight: Follows) -> None:
        """Only who is told to look anew may be told of other segments than it asked for."""
        if sight.asked >= 0 and not sight.resync and sight.since != sight.asked:
            raise Broken(
                "I8 follow", f"{sight.follower} asked from {sight.asked}, is told from {sight.since}"
            )
        self.next[sight.follower] = sight.since

    def told(self, sight: Told) -> None:
        """One segment."""
        n, wanted = sight.part.n, self.next.get(sight.follower, 0)
        if n not in self.parts:
            raise Broken("I8 follow", f"{sight.follower} is told segment {n}, which is not durable")
        if encode(self.parts[n]) != encode(sight.part):
            raise Broken("I8 follow", f"{sight.follower} is told another segment {n} than is stored")
        due = self.numbers[bisect_left(self.numbers, wanted)]
        if n != due:
            raise Broken("I8 follow", f"{sight.follower} is told segment {n} instead of {due}")
        self.next[sight.follower] = n + 1

    def settled(self, sight: Settled) -> None:
        """In the end those who still follow know all of it; others are not judged."""
        self.last = {
            name: self.numbers[-1] + 1 - wanted for name, wanted in self.next.items() if self.numbers
        }
