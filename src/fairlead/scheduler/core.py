"""The scheduler: where work runs. Soft state only; controllers make durable what it proposes.

`tell` takes controllers' words (`agents` hears agents), `place` fills free room; each leaves wall messages
in `said` and orders in `orders`, which the plane collects. What it forgets it learns again: controllers offer
all that is not over, agents report all that they hold.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead.base.alarms import Alarms
from fairlead.model import wall
from fairlead.model.keys import Keys, Rows, Span
from fairlead.model.lifecycles import Presence, Stage, Wanted
from fairlead.model.limits import (
    ORDER_ROWS,
    REST_FIRST_MS,
    REST_LAST_MS,
    Settings,
)
from fairlead.model.orders import Ack, How, Order, Specs, Start, Stop
from fairlead.model.reasons import Reason
from fairlead.model.verdict import Verdict
from fairlead.model.wall import Shape
from fairlead.placement.place import explain, place
from fairlead.placement.table import AgentTable, Interned
from fairlead.scheduler.presence import Contact, Roster
from fairlead.scheduler.queue import Line as QueueLine
from fairlead.scheduler.queue import Lot, Queue
from fairlead.scheduler.reservations import RESUMED, STOPPING, JobBook, Reservations, spans_of


class Rest:
    """A shape that an agent refused is not offered to it for a while."""

    __slots__ = ("pause", "until")

    def __init__(self) -> None:
        self.pause = 0
        self.until = 0


class Scheduler:
    """Queue, reservations and roster of one term."""

    def __init__(self, term: int, settings: Settings, now: int) -> None:
        self.term = term
        self.settings = settings
        self.table = AgentTable()
        self.queue = Queue()
        self.kept = Reservations(self.table)
        self.roster = Roster(settings, now)
        self.bodies: dict[str, bytes] = {}
        self.sealed = False
        # By shape and agent; and when each ends, and is forgotten.
        self.rests: dict[Interned, dict[int, Rest]] = {}
        self.rest_ends: Alarms[tuple[Interned, int]] = Alarms()
        self.rest_forgets: Alarms[tuple[Interned, int]] = Alarms()
        self.said: list[wall.ToControllers] = []
        self.orders: dict[int, list[Order]] = {}
        self._handlers: dict[type, Callable[..., None]] = {
            wall.Bodies: self._bodies,
            wall.Offer: self._offer,
            wall.Resume: self._resume,
            wall.Sealed: self._sealed,
            wall.Over: self._over,
            wall.Withdraw: self._withdraw,
            wall.Confirm: self._confirm,
            wall.Stop: self._stop,
            wall.Agents: self._agents,
            wall.Ack: self._ack,
        }

    def tell(self, message: wall.ToScheduler) -> None:
        """Take one message of the controllers."""
        self._handlers[type(message)](message)

    # What controllers say.

    def _bodies(self, said: wall.Bodies) -> None:
        self.bodies.update(zip(said.hashes, said.bodies, strict=True))

    def _offer(self, offer: wall.Offer) -> None:
        shape = self.table.intern(offer.shape)
        self.queue.add(Lot(offer, shape))

    def _resume(self, resume: wall.Resume) -> None:
        shape = self.table.intern(resume.shape)
        for (job, first, count, attempt), agent, term in zip(
            resume.keys.spans(), resume.agent, resume.term, strict=True
        ):
            book = self.kept.book(job, shape, resume.spec, resume.lease_ms)
            self.table.take(shape, agent, count)
            self.kept.reserve(book, job, (first, count, attempt), agent, term, RESUMED)

    def _sealed(self, _: wall.Sealed) -> None:
        self.sealed = True

    def _over(self, over: wall.Over) -> None:
        for job in over.jobs:
            self.kept.forget(job)

    def _withdraw(self, gone: wall.Withdraw) -> None:
        for first, count in zip(gone.first, gone.count, strict=True):
            self.queue.withdraw(gone.job, first, count)

    def _confirm(self, confirmed: wall.Confirm) -> None:
        """The placement will be durable before these orders leave: the plane sees to it."""
        by_agent: dict[int, Rows] = {}
        for job, first, count, attempt in confirmed.keys.spans():
            book = self.kept.books[job]
            agent = int(book.agent[first])
            by_agent.setdefault(agent, Rows()).add(job, first, count, attempt)
        for agent, rows in by_agent.items():
            self.order_start(self.roster.know(agent), rows)

    def _stop(self, stop: wall.Stop) -> None:
        by_agent: dict[int, Rows] = {}
        for job, first, count, attempt in stop.keys.spans():
            book = self.kept.books.get(job)
            if book is None:
                continue
            rows = slice(first, first + count)
            open_here = (book.stage[rows] != 0) & (book.attempt[rows] == attempt)
            indices = open_here.nonzero()[0] + first
            book.flags[indices] |= STOPPING
            for index in indices.tolist():
                by_agent.setdefault(int(book.agent[index]), Rows()).add(job, index, 1, attempt)
        for agent, found in by_agent.items():
            contact = self.roster.know(agent)
            if contact.presence is Presence.ready:
                self.order(contact, Stop(found.keys(), stop.how, stop.reason))

    def _agents(self, agents: wall.Agents) -> None:
        for number, name, wanted, boot, mark in zip(
            agents.number, agents.name, agents.wanted, agents.boot, agents.mark, strict=True
        ):
            contact = self.roster.know(number)
            contact.name, contact.wanted, contact.boot, contact.mark = name, wanted, boot, mark
            self.table.set_open(number, contact.takes_work)

    def _ack(self, ack: wall.Ack) -> None:
        contact = self.roster.contacts.get(ack.agent)
        if contact is not None and contact.session:
            self.order(contact, Ack(ack.keys, ack.what))

    # Orders.

    def order(self, contact: Contact, order: Order) -> None:
        """Leave an order for the agent's present session."""
        if contact.session:
            self.orders.setdefault(contact.session, []).append(order)

    def order_start(self, contact: Contact, rows: Rows) -> None:
        """Start orders, the bodies they name first, in messages of bounded size."""
        if contact.presence is not Presence.ready:
            return  # It will report; what it lacks is ordered then.
        spans = list(rows.keys().spans())
        for at in range(0, len(spans), ORDER_ROWS):
            self._order_part(contact, spans[at : at + ORDER_ROWS])

    def _order_part(self, contact: Contact, spans: list[Span]) -> None:
        books = [self.kept.books[job] for job, _, _, _ in spans]
        missing = sorted({book.spec for book in books} - contact.told)
        if missing:
            contact.told.update(missing)
            self.order(contact, Specs(missing, [self.bodies[digest] for digest in missing]))
        job, first, count, attempt = (list(column) for column in zip(*spans, strict=True))
        specs = [book.spec for book in books]
        leases = [book.lease_ms for book in books]
        self.order(contact, Start(Keys(job, first, count, attempt), specs, leases))

    def order_stops(self, contact: Contact) -> None:
        """Tell again what shall end, after a report."""
        rows = Rows()
        for job, book, indices in self.kept.held_by(contact.number):
            wanted = indices[(book.flags[indices] & STOPPING) != 0]
            for first, count, attempt in spans_of(wanted, book.attempt[wanted]):
                rows.add(job, first, count, attempt)
        if rows:
            self.order(contact, Stop(rows.keys(), How.stop, Reason.cancelled_by_user))

    # Placement.

    def place(self, decisions: int, now: int) -> int:
        """Fill free room from the queue, best heads first; returns how many decisions are left.

        A look that finds no place is a decision too: what is left over is looked at in the next step, which
        goes on where this one stopped.
        """
        for line in self.queue.heads(self.table.room_version):
            if not decisions:
                self.queue.go_on_at(line)
                return 0
            decisions = self._place_line(line, decisions, now)
        self.queue.all_tried(self.table.room_version, decisions)
        return decisions

    def _place_line(self, line: QueueLine, decisions: int, now: int) -> int:
        shunned = self.resting(line.shape, now)
        while decisions and line.heap:
            lot = line.heap[0][2]
            total = lot.total()
            if not total:
                break
            chosen = place(self.table, line.shape, total, decisions, shunned, lot.offer.avoid)
            decisions -= max(self._propose(lot, chosen), 1)
            if lot.firsts:
                line.blocked_at = self.table.room_version if decisions > 0 else -1
                break
            line.drop_head()
        return max(decisions, 0)

    def _propose(self, lot: Lot, chosen: list[tuple[int, int]]) -> int:
        rows = Rows(facts=1)
        offer = lot.offer
        for agent, many in chosen:
            book = self.kept.book(offer.job, lot.shape, offer.spec, offer.lease_ms)
            for first, count in lot.take(many):
                self.kept.reserve(book, offer.job, (first, count, offer.attempt), agent, self.term)
                rows.add(offer.job, first, count, offer.attempt, agent)
            self.queue.took(lot, many)
        if rows:
            self.said.append(wall.Placed(rows.keys(), rows.facts[0]))
        if lot.firsts and offer.refuse_when_full:
            self._give_back(lot)
        return len(rows)

    def _give_back(self, lot: Lot) -> None:
        spans = list(lot.take(lot.total()))
        self.queue.took(lot, sum(count for _, count in spans))
        self.said.append(
            wall.Full(lot.offer.job, [first for first, _ in spans], [count for _, count in spans])
        )

    def resting(self, shape: Interned, now: int) -> list[int]:
        """Agents that refused this shape a moment ago."""
        rests = self.rests.get(shape, {})
        return [agent for agent, rest in rests.items() if rest.until > now]

    def rest(self, shape: Interned, agent: int, now: int) -> None:
        """An agent refused a shape: leave it alone for twice as long as the last time."""
        rest = self.rests.setdefault(shape, {}).setdefault(agent, Rest())
        rest.pause = min(max(rest.pause * 2, REST_FIRST_MS), REST_LAST_MS)
        rest.until = now + rest.pause
        self.rest_ends.set((shape, agent), rest.until)
        self.rest_forgets.set((shape, agent), rest.until + REST_LAST_MS)

    def end_rests(self, now: int) -> int | None:
        """Pairs that have rested are tried again; returns when the next rest ends."""
        for _ in self.rest_ends.due(now):
            self.table.room_version += 1
        for key, agent in self.rest_forgets.due(now):
            del self.rests[key][agent]
            if not self.rests[key]:
                del self.rests[key]
        return self.rest_ends.next_at()

    # What people ask.

    def verdict(self, shape: Shape, now: int) -> Verdict:
        """Why a shape does not start now."""
        interned = self.table.intern(shape)
        states = {
            number: contact.presence.name
            if contact.wanted is Wanted.open or contact.presence is not Presence.ready
            else contact.wanted.name
            for number, contact in self.roster.contacts.items()
        }
        return explain(self.table, interned, states, self.resting(interned, now))

    def stage(self, job: int, index: int) -> Stage | None:
        """How far the open attempt of an instance is."""
        book: JobBook | None = self.kept.books.get(job)
        if book is None or index >= len(book.stage) or not book.stage[index]:
            return None
        return Stage(int(book.stage[index]))
