"""Leaders are obeyed in order: an agent never does what an older one says, the store never takes it.

A leader whose lease ran out says nothing more to any agent: not even a beat, for a beat renews leases.
"""

from __future__ import annotations

from fairlead.model.storage import Fence
from fairlead.sim.checkers.sights import Began, Broken, Durable, Elected, Obeys, Ordered


class Fencing:
    """Highest fences, by machine and in the log."""

    def __init__(self) -> None:
        self.highest: dict[str, Fence] = {}
        self.logged = 0
        self.elected = 0
        # The newest term whose predecessor's lease had run out.
        self.lawful = 0
        self.sees = {
            Obeys: self.obeys,
            Began: self.began,
            Durable: self.durable,
            Elected: self.elect,
            Ordered: self.ordered,
        }

    def obeys(self, sight: Obeys) -> None:
        """A machine's fence only rises."""
        if sight.kept is None or sight.kept < sight.fence:
            raise Broken("I4 fences", f"{sight.place} obeys term {sight.fence.term} before its disk knows")
        highest = self.highest.get(sight.place)
        if highest is not None and sight.fence < highest:
            raise Broken("I4 fences", f"{sight.place} obeys term {sight.fence.term} after {highest.term}")
        self.highest[sight.place] = sight.fence

    def began(self, sight: Began) -> None:
        """What is started is of the leader that is obeyed."""
        highest = self.highest.get(sight.place)
        if highest is not None and sight.term < highest.term:
            raise Broken("I4 fences", f"{sight.place} starts work of term {sight.term} after {highest.term}")

    def durable(self, sight: Durable) -> None:
        """Terms in the log only rise."""
        if sight.part.term < self.logged:
            raise Broken("I4 store", f"segment {sight.part.n} of term {sight.part.term} after {self.logged}")
        self.logged = sight.part.term

    def elect(self, sight: Elected) -> None:
        """A new lead."""
        self.elected = sight.term
        if sight.lawful:
            self.lawful = sight.term

    def ordered(self, sight: Ordered) -> None:
        """Whoever speaks to agents has the lead, or lost it before its time."""
        if sight.term < self.lawful:
            kinds = ", ".join(sorted({type(order).__name__ for order in sight.orders}))
            raise Broken("I4 deposed", f"term {sight.term} says {kinds} after {self.lawful} was elected")
