"""The same request has one effect and one answer, however often it is sent and whoever leads."""

from __future__ import annotations

from fairlead.model import changes
from fairlead.model.requests import Accepted, Submit
from fairlead.sim.checkers.sights import Broken, Durable, Heard


class Idempotence:
    """Submissions by key."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str], int] = {}
        self.answers: dict[tuple[str, str], Accepted] = {}
        self.sees = {Durable: self.durable, Heard: self.heard}

    def durable(self, sight: Durable) -> None:
        """One submission for a key."""
        for change in sight.part.changes:
            if isinstance(change, changes.Submitted) and change.key:
                key = (change.tenant, change.key)
                if key in self.stored:
                    raise Broken(
                        "I9 once",
                        f"'{change.key}' made submission {self.stored[key]} and {change.submission}",
                    )
                self.stored[key] = change.submission

    def heard(self, sight: Heard) -> None:
        """One answer for a key."""
        request, reply = sight.request, sight.reply
        if not isinstance(request, Submit) or not request.key:
            return
        key = (request.tenant, request.key)
        first = self.answers.get(key)
        if first is not None and reply != first:
            raise Broken("I9 same answer", f"'{request.key}' was answered {first} and {reply}")
        if isinstance(reply, Accepted):
            self.answers[key] = reply
