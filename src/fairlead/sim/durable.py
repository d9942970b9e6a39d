"""What the store holds, read as a stranger would: segment by segment, as they become durable.

Decides which batches count by reading of its own, not by the loader's, so that the two can disagree. Its ledger
is what any leader must find; its parts are what any follower must be told.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from fairlead.controllers.ledger import Ledger
from fairlead.model.changes import Part, decode
from fairlead.model.storage import Put
from fairlead.sim.checkers.sights import Checkpointed, Durable, Elected
from fairlead.sim.storage import Truth
from fairlead.sim.world import World


class Includes(Struct):
    """What every checkpoint says of itself."""

    includes: int


class Record:
    """Follows one truth."""

    def __init__(self, world: World, truth: Truth) -> None:
        self.world = world
        self.truth = truth
        self.ledger = Ledger()
        self._seen = 0
        self._term = 0
        # Until then a new lead may come before the one that was ended early knows.
        self._early_until = 0
        self._batch: list[Part] = []
        # Who wants to know once of a batch of which so many parts are stored, and not the last.
        self.halves: list[tuple[int, Callable[[], None]]] = []

    def observe(self) -> None:
        """Take in what the store has taken in since the last call."""
        truth = self.truth
        if truth.term != self._term:
            self._term = truth.term
            self.world.tell(Elected(self.world.now, truth.term, self.world.now >= self._early_until))
        while self._seen < truth.head:
            self._seen += 1
            self._take(decode(truth.segments[self._seen]))

    def put(self, op: Put) -> None:
        """The store was given values."""
        for key, body in op.values.items():
            if body is not None and key.startswith(("job/", "site")):
                value = msgspec.msgpack.decode(body, type=Includes)
                self.world.tell(Checkpointed(key, value.includes, self.truth.head))

    def end_lease(self) -> None:
        """The store ends the lease before its time."""
        if self.truth.lead is not None:
            self._early_until = max(self._early_until, self.truth.lead.until)
        self.truth.end_lease()

    def _take(self, part: Part) -> None:
        if part.n == part.batch:
            self._batch = []
        elif not self._batch or (self._batch[0].batch, self._batch[0].term) != (part.batch, part.term):
            return
        self._batch.append(part)
        if part.more:
            if self.halves and len(self._batch) >= self.halves[0][0]:
                self.halves.pop(0)[1]()
            return
        whole, self._batch = self._batch, []
        for one in whole:
            self.world.tell(Durable(self.world.now, one))
            for change in one.changes:
                self.ledger.apply(change, one.term, one.at)
