"""No accepted job is lost: from its answer on it is in the store, and in the end it is over.

Also that an answer is not given early: at the moment `Accepted` leaves a server, the store's log has the jobs.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead.model import changes
from fairlead.model.requests import Accepted, Submit
from fairlead.sim.checkers.sights import Broken, Durable, Replied, Settled


class NoLostJob:
    """`waiting` tells which accepted jobs are not over, for those that may stay so; asked at the end."""

    def __init__(self, unfinished: Callable[[], dict[str, str]]) -> None:
        self.unfinished = unfinished
        self.stored: dict[tuple[str, str], int] = {}
        self.accepted: dict[str, str] = {}
        self.sees = {Durable: self.durable, Replied: self.replied, Settled: self.settled}

    def durable(self, sight: Durable) -> None:
        """Which submissions the log holds, by key."""
        for change in sight.part.changes:
            if isinstance(change, changes.Submitted):
                self.stored[change.tenant, change.key] = change.submission

    def replied(self, sight: Replied) -> None:
        """An answer may only speak of what is durable."""
        if isinstance(sight.request, Submit) and isinstance(sight.reply, Accepted):
            if (sight.request.tenant, sight.request.key) not in self.stored:
                raise Broken("answers after durable", f"{sight.reply.submission} is accepted, not stored")
            self.accepted |= dict.fromkeys(sight.reply.jobs, sight.reply.submission)

    def settled(self, sight: Settled) -> None:
        """Everything accepted is known and over."""
        unfinished = self.unfinished()
        for job in self.accepted:
            if job in unfinished:
                raise Broken("I1 no lost job", f"{job} was accepted and is {unfinished[job]}")
