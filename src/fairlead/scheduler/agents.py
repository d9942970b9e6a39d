"""What agents say to the scheduler, word by word.

Nothing an agent sends is believed beyond what it holds: a span counts only where the reservation names this
agent and this attempt. What does not match is passed on unchanged, so that controllers can acknowledge what
they closed long ago, or is ordered ended, so that an old copy dies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from fairlead.model import orders, wall
from fairlead.model.checks import flaw, hello_flaw
from fairlead.model.keys import Keys, Rows
from fairlead.model.lifecycles import Presence, Stage, Wanted
from fairlead.model.orders import How
from fairlead.model.reasons import Reason
from fairlead.model.session import Heard, Line
from fairlead.model.storage import Fence
from fairlead.placement.runs import runs
from fairlead.scheduler.core import Scheduler
from fairlead.scheduler.presence import Contact
from fairlead.scheduler.reservations import RESUMED, SEEN, STOPPING, spans_of


class Agents:
    """The scheduler's ear: sessions, hellos, reports, losses."""

    def __init__(self, scheduler: Scheduler, fence: Fence) -> None:
        self.scheduler = scheduler
        self.roster = scheduler.roster
        self.kept = scheduler.kept
        self.fence = fence
        # Sessions that have not said hello, by their agent; those refused stay here too.
        self.strangers: dict[int, tuple[int, Line]] = {}
        self.hang_ups: list[int] = []
        # Sessions whose words want an answer, even if there is nothing to say.
        self.owed: set[int] = set()
        self.servers = orders.Servers([], [])
        self._swept_at = 0
        self._handlers: dict[type, Callable[[Contact, object, int], None]] = {
            orders.Report: self._report,
            orders.Reported: self._reported,
            orders.Refused: self._refused,
            orders.Stages: self._stages,
            orders.Ended: self._ended,
            orders.OutputDone: self._output,
            orders.Retracted: self._retracted,
            orders.Load: self._load,
            orders.Leaving: self._leaving,
        }

    # Sessions.

    def open(self, session: int, agent: int, now: int) -> None:
        """A stream of this agent stands; it has to say hello first."""
        self.strangers[session] = (agent, Line(now))

    def close(self, session: int) -> None:
        """A stream is over."""
        self.strangers.pop(session, None)
        self.owed.discard(session)
        self.scheduler.orders.pop(session, None)
        contact = self.roster.detach(session)
        if contact is not None:
            self.scheduler.table.set_open(contact.number, False)

    def hang_up(self, session: int) -> None:
        """End a session from our side."""
        self.close(session)
        self.hang_ups.append(session)

    def line(self, session: int) -> Line | None:
        """The line of a living session."""
        contact = self.roster.by_session.get(session)
        if contact is not None:
            return contact.line
        stranger = self.strangers.get(session)
        return stranger[1] if stranger else None

    def hear(self, session: int, frame: orders.Frame, now: int) -> None:
        """One frame of an agent."""
        line = self.line(session)
        if line is None:
            return
        heard = line.hear(frame, now)
        if heard is Heard.gap:
            self.hang_up(session)
        if heard is not Heard.take:
            return
        for word in frame.body:
            self._word(session, word, now)

    def _word(self, session: int, word: object, now: int) -> None:
        contact = self.roster.by_session.get(session)
        if contact is None:
            if session in self.strangers:
                self._stranger(session, word, now)
            return
        contact.heard_at = max(contact.heard_at, now)
        handler = self._handlers.get(type(word))
        if handler is None or (isinstance(word, Struct) and flaw(word)):
            self.hang_up(session)  # No agent of ours says that.
        else:
            handler(contact, word, now)

    # Hello.

    def _stranger(self, session: int, word: object, now: int) -> None:
        agent, line = self.strangers[session]
        if not isinstance(word, orders.Hello):
            return  # A refused agent ends what it holds; nothing it says is believed.
        if hello_flaw(word):
            self.hang_up(session)
            return
        refusal = self._refusal(agent, word, now)
        if refusal:
            self.scheduler.orders.setdefault(session, []).append(self._welcome(refusal))
        elif word.fence is not None and word.fence > self.fence:
            self.hang_up(session)  # It obeyed a later leader than us.
        else:
            self._accept(session, agent, word, line, now)

    def _refusal(self, agent: int, hello: orders.Hello, now: int) -> str:
        contact = self.roster.contacts.get(agent)
        if contact is None:
            return "this agent is not known here"
        if contact.wanted is Wanted.banned:
            return "this agent is banned"
        if contact.mark and contact.mark != hello.mark:
            lives = contact.session or agent in self.kept.holds
            if lives or self.roster.silent_since(contact, now) < self.scheduler.settings.lost_after_ms:
                return "another machine has this identity"
        return ""

    def _welcome(self, refusal: str = "") -> orders.Welcome:
        settings = self.scheduler.settings
        return orders.Welcome(self.fence, settings.beat_ms, settings.lost_after_ms, True, refusal)

    def _accept(self, session: int, agent: int, hello: orders.Hello, line: Line, now: int) -> None:
        del self.strangers[session]
        contact = self.roster.know(agent)
        before = self.roster.attach(contact, session, line, now)
        if before:
            self.scheduler.orders.pop(before, None)
            self.hang_ups.append(before)
        if contact.boot and contact.boot != hello.boot:
            self._lose(contact, Reason.agent_dead)
            self.scheduler.said.append(wall.AgentGone(agent, Reason.agent_dead))
        contact.boot, contact.mark = hello.boot, hello.mark
        contact.totals = dict(zip(hello.names, hello.totals, strict=False))
        contact.labels = dict(label.partition("=")[::2] for label in hello.labels)
        self.scheduler.table.set_agent(agent, contact.totals, contact.labels)
        self.scheduler.said.append(wall.AgentSeen(agent, hello.boot, hello.mark))
        self.scheduler.order(contact, self._welcome())
        self.scheduler.order(contact, self.servers)
        self.owed.add(session)

    def tell_servers(self, servers: orders.Servers) -> None:
        """Every agent learns where the servers are, when that changed."""
        if servers == self.servers:
            return
        self.servers = servers
        for contact in self.roster.by_session.values():
            self.scheduler.order(contact, servers)

    # Reports.

    def _report(self, contact: Contact, word: object, now: int) -> None:
        assert isinstance(word, orders.Report)
        unknown = Rows()
        contact.reported += word.keys.total()
        for (job, first, count, attempt), term, stage in zip(
            word.keys.spans(), word.term, word.stage, strict=False
        ):
            known = 0
            book = self.kept.books.get(job)
            for start, many in book.matching(contact.number, first, count, attempt) if book else ():
                assert book is not None
                rows = slice(start, start + many)
                if (book.term[rows] != term).any():
                    continue
                book.flags[rows] |= SEEN
                if Stage.assigned <= stage <= Stage.ending:
                    book.stage[rows] = stage
                known += many
            if known < count and stage != Stage.ended:
                unknown.add(job, first, count, attempt)
        if unknown:
            self._end_unknown(contact, unknown)

    def _end_unknown(self, contact: Contact, rows: Rows) -> None:
        """Old copies die: what nobody counts on any more is killed where it runs."""
        doomed = Rows()
        for job, first, count, attempt in rows.keys().spans():
            book = self.kept.books.get(job)
            held = book.matching(contact.number, first, count, attempt) if book else []
            at = first
            for start, many in held:
                if start > at:
                    doomed.add(job, at, start - at, attempt)
                at = start + many
            if at < first + count:
                doomed.add(job, at, first + count - at, attempt)
        if doomed:
            self.scheduler.order(contact, orders.Stop(doomed.keys(), How.kill, Reason.superseded))

    def _reported(self, contact: Contact, word: object, now: int) -> None:
        assert isinstance(word, orders.Reported)
        if word.count != contact.reported:
            self.hang_up(contact.session)
            return
        contact.reported = 0
        contact.become(Presence.ready)
        again, vanished = Rows(), Rows()
        for job, book, indices in self.kept.held_by(contact.number):
            flags = book.flags[indices]
            missing = (flags & SEEN) == 0
            book.flags[indices] &= 0xFF ^ SEEN
            gone = missing & ((flags & (RESUMED | STOPPING)) != 0)
            for rows, which in ((again, missing & ~gone), (vanished, gone)):
                for first, count, attempt in spans_of(indices[which], book.attempt[indices[which]]):
                    rows.add(job, first, count, attempt)
        if vanished:
            self._give_up(contact.number, vanished.keys(), Reason.vanished)
        if again:
            self.scheduler.order_start(contact, again)
        self.scheduler.order_stops(contact)
        self.scheduler.table.set_open(contact.number, contact.takes_work)

    # What becomes of attempts.

    def _ended(self, contact: Contact, word: object, now: int) -> None:
        assert isinstance(word, orders.Ended)
        self._release(contact.number, word.keys, word.term)
        self.scheduler.said.append(wall.AgentEnded(contact.number, word))

    def _output(self, contact: Contact, word: object, now: int) -> None:
        assert isinstance(word, orders.OutputDone)
        self.scheduler.said.append(wall.AgentOutput(contact.number, word))

    def _refused(self, contact: Contact, word: object, now: int) -> None:
        assert isinstance(word, orders.Refused)
        for job, _, _, _ in word.keys.spans():
            book = self.kept.books.get(job)
            if book is not None:
                self.scheduler.rest(book.shape, contact.number, now)
                contact.told.discard(book.spec)
        self._release(contact.number, word.keys)
        self.scheduler.said.append(wall.Refused(contact.number, word.keys, word.reason))

    def _stages(self, contact: Contact, word: object, now: int) -> None:
        assert isinstance(word, orders.Stages)
        for (job, first, count, attempt), stage in zip(word.keys.spans(), word.stage, strict=False):
            book = self.kept.books.get(job)
            if book is None or not Stage.assigned <= stage <= Stage.ending:
                continue
            for start, many in book.matching(contact.number, first, count, attempt):
                book.stage[start : start + many] = stage

    def _retracted(self, contact: Contact, word: object, now: int) -> None:
        assert isinstance(word, orders.Retracted)
        given = Rows()
        for (job, first, count, attempt), yes in zip(word.keys.spans(), word.yes, strict=False):
            if yes:
                given.add(job, first, count, attempt)
        self._give_up(contact.number, given.keys(), Reason.vanished)

    def _load(self, contact: Contact, word: object, now: int) -> None:
        self.owed.add(contact.session)

    def _leaving(self, contact: Contact, word: object, now: int) -> None:
        assert isinstance(word, orders.Leaving)
        contact.leaving = True
        self.scheduler.table.set_open(contact.number, False)
        if word.keep:
            most = 10 * 60_000
            contact.heard_at = now + min(max(word.back_within_ms, 0), most)

    def _release(self, agent: int, keys: Keys, terms: Sequence[int] = ()) -> None:
        """What is held there by these keys, and where terms are told by these, is free."""
        for row, (job, first, count, attempt) in enumerate(keys.spans()):
            book = self.kept.books.get(job)
            if book is None:
                continue
            for start, many in book.matching(agent, first, count, attempt):
                if not terms:
                    self.kept.release(job, agent, (start, many))
                    continue
                for run in runs(book.term[start : start + many] == terms[row], start):
                    self.kept.release(job, agent, run)

    def _give_up(self, agent: int, keys: Keys, reason: Reason) -> None:
        self._release(agent, keys)
        if len(keys):
            self.scheduler.said.append(wall.Lost(agent, keys, reason))

    def _lose(self, contact: Contact, reason: Reason, only: Callable[[int], bool] | None = None) -> None:
        """Everything open there is over; `only` asks by the lease of the job's attempts."""
        rows = Rows()
        for job, book, indices in self.kept.held_by(contact.number):
            if only is None or only(book.lease_ms):
                for first, count, attempt in spans_of(indices, book.attempt[indices]):
                    rows.add(job, first, count, attempt)
        self._give_up(contact.number, rows.keys(), reason)

    # Silence.

    def sweep(self, now: int) -> int:
        """Judge silence; returns when to look again."""
        every = self.scheduler.settings.beat_ms // 2
        if now < self._swept_at + every:
            return self._swept_at + every
        self._swept_at = now
        limit = self.scheduler.settings.lost_after_ms
        contacts = self.roster.contacts.values()
        for contact in [one for one in contacts if one.session]:
            if self.roster.silent_since(contact, now) >= limit or self._unheard(contact, now, limit):
                self.hang_up(contact.session)
        counted = [one for one in contacts if one.session or one.number in self.kept.holds]
        if not self.roster.brakes(counted, now):
            for contact in [one for one in contacts if not one.session]:
                self._judge(contact, self.roster.silent_since(contact, now), limit)
        return now + every

    @staticmethod
    def _unheard(contact: Contact, now: int, limit: int) -> bool:
        since = contact.line.waits_since() if contact.line else None
        return since is not None and now - since >= limit

    def _judge(self, contact: Contact, silent: int, limit: int) -> None:
        if silent < limit:
            return
        if contact.presence is Presence.suspect:
            contact.become(Presence.lost)
        if not contact.gone and silent >= max(limit, self.scheduler.settings.lease_ms):
            contact.gone = True
            self.scheduler.said.append(wall.AgentGone(contact.number, Reason.agent_silent))
        if contact.number in self.kept.holds:
            # A lease runs on the agent's clock, which may be slower; the margin is for that and the grace.
            self._lose(
                contact,
                Reason.agent_silent,
                lambda lease: silent >= (lease * 11 // 10 + 60_000 if lease else 0),
            )
