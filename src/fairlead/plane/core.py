"""Controllers and scheduler of one term, run to a fixed point in every step.

Owns the wall between them: what one says the other hears before anything leaves. Every change is applied to
the ledger at once and recorded in the journal; every effect goes through the journal too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from fairlead.controllers.access import Access
from fairlead.controllers.ledger import Ledger
from fairlead.controllers.names import find_work
from fairlead.controllers.submissions import submit
from fairlead.controllers.work import Work
from fairlead.model import requests, wall
from fairlead.model.changes import Change
from fairlead.model.errors import Problem
from fairlead.model.limits import STEP_DECISIONS, Settings
from fairlead.model.orders import Beat, Frame
from fairlead.model.reasons import Reason
from fairlead.model.requests import Reply
from fairlead.model.storage import Fence
from fairlead.plane.journal import Journal, ToSession
from fairlead.plane.views import Views
from fairlead.plane.words import HangUp
from fairlead.scheduler.agents import Agents
from fairlead.scheduler.core import Scheduler


class Core:
    """All decisions of one leadership."""

    def __init__(
        self,
        ledger: Ledger,
        journal: Journal,
        fence: Fence,
        settings: Settings,
        now: int,
        servers: Callable[[requests.Look], Reply],
    ) -> None:
        self.ledger = ledger
        self.journal = journal
        self.fence = fence
        self.now = now
        self.to_scheduler: deque[wall.ToScheduler] = deque()
        self.scheduler = Scheduler(fence.term, settings, now)
        self.agents = Agents(self.scheduler, fence)
        say = self.to_scheduler.append
        self.work = Work(ledger, self.record, say, settings.lease_ms)
        self.access = Access(ledger, self.record, say, fence.site)
        self.views = Views(ledger, self.scheduler, servers, self.stamp)
        self._answers: dict[type, Callable[..., Reply]] = {
            requests.Submit: lambda asked: submit(ledger, self.work, asked, self.now),
            requests.Cancel: self._cancel,
            requests.Attend: self._attend,
            requests.Detach: self._detach,
            requests.Look: self.views.look,
            requests.Explain: lambda asked: self.views.accounts.explain(asked, self.now),
            requests.History: self.views.accounts.history,
            requests.AddToken: lambda asked: self.access.add_token(asked, self.stamp()),
            requests.RevokeToken: self.access.revoke_token,
            requests.Admit: lambda asked: self.access.admit(asked, self.stamp()),
            requests.Check: lambda asked: self.access.check(asked, self.stamp()),
            requests.WantAgent: self.access.want_agent,
        }
        self.access.begin()
        self.work.begin(now)

    def stamp(self) -> int:
        """The time of record: never before anything recorded, whoever's clock that was."""
        return self.journal.stamp(max(self.now, self.ledger.last_at))

    def record(self, change: Change) -> None:
        """Apply a change here and send it on its way to the store."""
        at = self.stamp()
        self.journal.record(change)
        self.ledger.apply(change, self.fence.term, at)

    def hear(self, session: int, frame: Frame) -> None:
        """A frame of an agent."""
        self.agents.hear(session, frame, self.now)

    def answer(self, request: requests.Request) -> Reply:
        """What a front asks; the reply may leave when its state is durable."""
        return self._answers[type(request)](request)

    def settle(self, now: int) -> int | None:
        """Run both halves until neither has anything to say; returns when to look again."""
        self.now = now
        looks: list[int | None] = [self.agents.sweep(now)]
        self.ledger.forget_keys(max(now, self.ledger.last_at))
        decisions = STEP_DECISIONS
        while True:
            self._exchange()
            if not decisions:
                looks.append(now)
                break
            left = self.scheduler.place(decisions, now)
            if left == decisions and not self.scheduler.said:
                break
            decisions = left
        looks += [
            self.work.miss_callers(now),
            self.scheduler.end_rests(now),
            self.work.pass_limits(max(now, self.ledger.last_at)),
        ]
        self._exchange()
        self._send()
        return min(look for look in looks if look is not None)

    def _exchange(self) -> None:
        while self.to_scheduler or self.scheduler.said:
            while self.to_scheduler:
                self.scheduler.tell(self.to_scheduler.popleft())
            said, self.scheduler.said = self.scheduler.said, []
            for message in said:
                self.work.hear(message)

    def _send(self) -> None:
        orders, self.scheduler.orders = self.scheduler.orders, {}
        for session in self.agents.owed:
            orders.setdefault(session, [Beat()])
        self.agents.owed.clear()
        for session, said in orders.items():
            self.journal.hold(ToSession(session, list(said)))
        for session in self.agents.hang_ups:
            self.journal.hold(HangUp(session))
        self.agents.hang_ups.clear()

    def _cancel(self, asked: requests.Cancel) -> Reply:
        if not asked.reason or asked.reason not in frozenset(Reason):
            return Problem("invalid", f"{asked.reason} is no reason to end work")
        said: list[str] = []
        found_any = False
        for name in asked.names:
            jobs = find_work(self.ledger, name, asked.tenant)
            found_any = found_any or bool(jobs)
            over = bool(jobs) and all(job.is_closed for job in jobs)
            said.append("ended" if over else "ok" if jobs else "no such work")
            for job in jobs:
                self.work.cancel(job, Reason(asked.reason))
        if not found_any and len(asked.names) == 1:
            return self.views.accounts.no_such(asked.names[0], asked.tenant)
        return requests.Changed(asked.names, said)

    def _detach(self, asked: requests.Detach) -> Reply:
        jobs = find_work(self.ledger, asked.name, asked.tenant)
        if not jobs:
            return self.views.accounts.no_such(asked.name, asked.tenant)
        for job in jobs:
            self.work.detach(job)
        return requests.Changed([asked.name], ["ok"])

    def _attend(self, asked: requests.Attend) -> Reply:
        self.work.attend(asked.jobs, self.now)
        return requests.Changed([], [])
