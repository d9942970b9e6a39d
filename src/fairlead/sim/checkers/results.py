"""What the log says of an end is what happened: a success is an exit 0 of that very attempt."""

from __future__ import annotations

from fairlead.model import changes
from fairlead.model.lifecycles import Outcome
from fairlead.sim.checkers.sights import Broken, Durable, Finished


class Results:
    """Ends in process tables beside ends in the log; `blind` are agents without a table."""

    def __init__(self, blind: frozenset[int]) -> None:
        self.blind = blind
        self.exits: dict[tuple[int, int, int, int], int] = {}
        self.sees = {Durable: self.durable, Finished: self.finished}

    def finished(self, sight: Finished) -> None:
        """How it went."""
        self.exits[sight.job, sight.index, sight.attempt, sight.term] = sight.exit

    def durable(self, sight: Durable) -> None:
        """What is told of it."""
        for change in sight.part.changes:
            if not isinstance(change, changes.Ended):
                continue
            for row, (job, first, count, attempt) in enumerate(change.keys.spans()):
                if change.agent[row] in self.blind or change.outcome[row] != Outcome.succeeded:
                    continue
                for index in range(first, first + count):
                    exits = [code for key, code in self.exits.items() if key[:3] == (job, index, attempt)]
                    if 0 not in exits:
                        name = f"{job}/{index} attempt {attempt}"
                        raise Broken("results", f"{name} is told to have succeeded; it ended with {exits}")
