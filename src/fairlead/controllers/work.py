"""The job controller: which instances want a place, what an end means, what is over.

Each decision is a change, recorded before anything is said; `say` collects what the scheduler shall hear.
Soft state here is only what can be read off the ledger again: which waiting instances were dealt out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fairlead.base.alarms import Alarms
from fairlead.controllers.ledger import Charges, Job, Ledger
from fairlead.controllers.pages import ROWS
from fairlead.model import changes, orders, wall
from fairlead.model.keys import Rows
from fairlead.model.lifecycles import Outcome, Output, State
from fairlead.model.limits import CALLER_MS
from fairlead.model.reasons import Reason
from fairlead.model.retries import decide
from fairlead.placement.runs import runs

Record = Callable[[changes.Change], None]
Say = Callable[[wall.ToScheduler], None]
Span = tuple[int, int, int, int]
FACTS = 10


class Hand:
    """The waiting instances of a job that were not offered yet, and how many were."""

    __slots__ = ("back", "out")

    def __init__(self) -> None:
        # (first, count, attempt, agent to avoid), the next one last.
        self.back: list[Span] = []
        self.out = 0


class Work:
    """Decides over the ledger's jobs."""

    def __init__(self, ledger: Ledger, record: Record, say: Say, lease_ms: int) -> None:
        self.ledger = ledger
        self.record = record
        self.say = say
        self.lease_ms = lease_ms
        self.hands: dict[int, Hand] = {}
        # Needed job -> jobs that wait for it.
        self.dependents: dict[int, list[int]] = {}
        # Jobs with a pending limit, by when it passes.
        self.limits: Alarms[int] = Alarms()
        # Jobs that end when their caller is gone, by when it counts as gone.
        self.callers: Alarms[int] = Alarms()
        self._handlers: dict[type, Callable[..., None]] = {
            wall.Placed: self._placed,
            wall.AgentEnded: self._agent_ended,
            wall.AgentOutput: self._agent_output,
            wall.Refused: self._refused,
            wall.Full: self._full,
            wall.Lost: self._lost,
            wall.AgentSeen: self._agent_seen,
            wall.AgentGone: self._agent_gone,
        }

    def hear(self, message: wall.ToControllers) -> None:
        """Take one message of the scheduler."""
        self._handlers[type(message)](message)

    # Offering.

    def begin(self, now: int) -> None:
        """A new term: tell the scheduler all that is not over, then that this was all."""
        for number in sorted(self.ledger.open):
            job = self.ledger.jobs[number]
            self._tell_body(job)
            self._resume(job)
            self.admit(job, now)
            if job.cancelled:
                self.end_job(job, job.cancelled)
        self.say(wall.Sealed())

    def admit(self, job: Job, now: int) -> None:
        """A job that is new here: deal what waits, now or when its needs are met."""
        hand = self.hands[job.number] = Hand()
        hand.out = job.states.get(State.active, 0)
        spans: list[Span] = []
        for first, count in job.pages.in_state(State.waiting, 0, job.spec.count):
            for start, many, tries in job.pages.attempts(first, count):
                spans.append((start, many, tries + 1, 0))
        hand.back = spans[::-1]
        for number, _ in job.needs:
            self.dependents.setdefault(number, []).append(job.number)
        if job.spec.cancel_when_caller_gone and not job.detached:
            self.callers.set(job.number, now + CALLER_MS)
        if job.spec.pending_ms:
            self.limits.set(job.number, job.created + job.spec.pending_ms)
        self._deal_if_ready(job)

    def _tell_body(self, job: Job) -> None:
        self.say(wall.Bodies([job.digest], [self.ledger.bodies[job.digest]]))

    def _resume(self, job: Job) -> None:
        rows = Rows(facts=2)
        for first, count in job.pages.in_state(State.active, 0, job.spec.count):
            for page, cut, start in job.pages.slices(first, count):
                columns = (page.attempt[cut].tolist(), page.agent[cut].tolist(), page.term[cut].tolist())
                for offset, (attempt, agent, term) in enumerate(zip(*columns, strict=True)):
                    rows.add(job.number, start + offset, 1, attempt, agent, term)
        if rows:
            agents, terms = rows.facts
            shape = shape_of(job)
            self.say(wall.Resume(rows.keys(), agents, terms, shape, job.digest, self._lease(job)))

    def _lease(self, job: Job) -> int:
        return self.lease_ms if job.spec.exclusive else 0

    def _deal_if_ready(self, job: Job) -> None:
        met = self._needs_met(job)
        if met is None:
            return
        if not met:
            self.close_waiting(job, State.cancelled, Reason.need_failed)
        else:
            self.deal(job)

    def _needs_met(self, job: Job) -> bool | None:
        """True, False for never, None for not yet."""
        for number, when in job.needs:
            needed = self.ledger.jobs.get(number)
            if needed is None:
                continue  # Forgotten long after it ended; it was judged when it ended.
            if not needed.is_closed:
                return None
            succeeded = needed.state() == "succeeded"
            if (when == "success" and not succeeded) or (when == "failure" and succeeded):
                return False
        return True

    def deal(self, job: Job) -> None:
        """Offer as many of the waiting as `parallel` lets out."""
        if job.cancelled or self._needs_met(job) is None:
            return
        hand = self.hands[job.number]
        most = job.spec.parallel - hand.out if job.spec.parallel else job.spec.count
        while hand.back and most > 0:
            first, count, attempt, avoid = hand.back.pop()
            many = min(count, most)
            if many < count:
                hand.back.append((first + many, count - many, attempt, avoid))
            most -= many
            hand.out += many
            self._offer(job, (first, many, attempt, avoid))

    def _offer(self, job: Job, span: Span) -> None:
        first, count, attempt, avoid = span
        self.say(
            wall.Offer(
                job.number,
                shape_of(job),
                job.digest,
                attempt,
                [first],
                [count],
                job.spec.priority,
                job.created,
                self._lease(job),
                avoid,
                job.spec.refuse_when_full,
            )
        )

    # What the scheduler says.

    def _placed(self, placed: wall.Placed) -> None:
        self.record(changes.Placed(placed.keys, placed.agent))
        self.say(wall.Confirm(placed.keys))

    def _full(self, full: wall.Full) -> None:
        rows = Rows(facts=2)
        for first, count in zip(full.first, full.count, strict=True):
            rows.add(full.job, first, count, 0, int(State.refused), int(Reason.too_little))
        self.hands[full.job].out -= sum(full.count)
        self.record(changes.Closed(rows.keys(), *rows.facts))
        self._after(full.job)

    def _agent_ended(self, message: wall.AgentEnded) -> None:
        word = message.ended
        ends = Ends(self)
        for row, span in enumerate(word.keys.spans()):
            facts = End(
                message.agent,
                Outcome(word.outcome[row]),
                Reason(word.reason[row]),
                word.exit[row],
                word.started[row],
                word.ended[row],
                Output.pending if word.output[row] else Output.none,
            )
            ends.add(span, word.term[row], facts)
        ends.record()
        self.say(wall.Ack(message.agent, word.keys, orders.What.end))

    def _refused(self, message: wall.Refused) -> None:
        ends = Ends(self)
        for span, reason in zip(message.keys.spans(), message.reason, strict=True):
            ends.add(span, -1, End(message.agent, Outcome.refused, Reason(reason)))
        ends.record()

    def _lost(self, message: wall.Lost) -> None:
        outcome = Outcome.vanished if message.reason is Reason.vanished else Outcome.lost
        ends = Ends(self)
        for span in message.keys.spans():
            ends.add(span, -1, End(message.agent, outcome, message.reason, output=Output.incomplete))
        ends.record()

    def _agent_output(self, message: wall.AgentOutput) -> None:
        word = message.output
        rows = Rows(facts=3)
        for row, (number, first, count, attempt) in enumerate(word.keys.spans()):
            job = self.ledger.jobs.get(number)
            state = Output.complete if word.complete[row] else Output.incomplete
            for start, many in _awaiting(job, first, count, attempt, state) if job else ():
                rows.add(number, start, many, attempt, int(state), word.out_length[row], word.err_length[row])
        if rows:
            self.record(changes.OutputDone(rows.keys(), *rows.facts))
        self.say(wall.Ack(message.agent, word.keys, orders.What.output))

    def _agent_seen(self, message: wall.AgentSeen) -> None:
        agent = self.ledger.agents.get(message.agent)
        if agent is not None and (agent.boot, agent.mark) != (message.boot, message.mark):
            self.record(changes.AgentBooted(message.agent, message.boot, message.mark))

    def _agent_gone(self, message: wall.AgentGone) -> None:
        """Output it had still to send is not waited for any more; what does come counts all the same."""
        rows = Rows(facts=3)
        for number in sorted(self.ledger.unsettled):
            job = self.ledger.jobs[number]
            for at, page in job.pages.pages.items():
                here = (page.output == Output.pending) & (page.agent == message.agent)
                for first, count in runs(here, at * ROWS):
                    for start, many, attempt in job.pages.attempts(first, count):
                        rows.add(number, start, many, attempt, int(Output.incomplete), 0, 0)
        if rows:
            self.record(changes.OutputDone(rows.keys(), *rows.facts))

    # Ends.

    def decide(self, job: Job, index: int, end: End) -> tuple[State, int]:
        """What an instance becomes, and what is charged."""
        charges = job.charges.get(index, NOTHING_CHARGED)
        policy = (job.spec.retry_infrastructure, job.spec.retry_job)
        paid = (charges.infrastructure, charges.job)
        decision = decide(policy, paid, end.outcome, end.reason, charges.free)
        if decision.then is State.waiting and job.cancelled:
            return State.cancelled, 0
        return decision.then, decision.charge

    def ended(self, number: int, spans: Iterable[tuple[int, int, int, int, int]]) -> None:
        """After ends were recorded: (first, count, then, next attempt, agent to avoid)."""
        hand = self.hands[number]
        for first, count, then, attempt, avoid in spans:
            hand.out -= count
            if then == State.waiting:
                hand.back.append((first, count, attempt, avoid))
        self._after(number)

    def _after(self, number: int) -> None:
        """Some of a job's instances were closed or wait again."""
        job = self.ledger.jobs[number]
        if not job.is_closed:
            self.deal(job)
            return
        self.hands.pop(number, None)
        self.limits.drop(number)
        self.callers.drop(number)
        self.say(wall.Over([number]))
        for waiting in self.dependents.pop(number, []):
            dependent = self.ledger.jobs[waiting]
            if not dependent.is_closed:
                self._deal_if_ready(dependent)

    # Ending on purpose.

    def cancel(self, job: Job, reason: Reason) -> None:
        """Somebody wants it ended; what is over already stays as it ended."""
        if job.is_closed:
            return
        if not job.cancelled:
            self.record(changes.CancelWanted([job.number], [int(reason)]))
        self.end_job(job, reason)

    def end_job(self, job: Job, reason: Reason) -> None:
        """Close what waits and stop what runs."""
        rows = Rows()
        for first, count in job.pages.in_state(State.active, 0, job.spec.count):
            for start, many, attempt in job.pages.attempts(first, count):
                rows.add(job.number, start, many, attempt)
        if rows:
            self.say(wall.Stop(rows.keys(), orders.How.stop, reason))
        self.close_waiting(job, State.cancelled, reason)

    def close_waiting(self, job: Job, state: State, reason: Reason) -> None:
        """Everything of the job that waits is over."""
        runs = list(job.pages.in_state(State.waiting, 0, job.spec.count))
        if not runs:
            return
        hand = self.hands[job.number]
        hand.back.clear()
        hand.out = job.states.get(State.active, 0)
        rows = Rows(facts=2)
        for first, count in runs:
            rows.add(job.number, first, count, 0, int(state), int(reason))
        self.say(wall.Withdraw(job.number, [first for first, _ in runs], [count for _, count in runs]))
        self.record(changes.Closed(rows.keys(), *rows.facts))
        self._after(job.number)

    def attend(self, numbers: Iterable[int], now: int) -> None:
        """Somebody waits for these jobs."""
        for number in numbers:
            if number in self.callers:
                self.callers.set(number, now + CALLER_MS)

    def detach(self, job: Job) -> None:
        """Its caller leaves it on purpose: nobody needs to wait for it."""
        if job.spec.cancel_when_caller_gone and not job.detached and not job.is_closed:
            self.record(changes.Detached([job.number]))
        self.callers.drop(job.number)

    def miss_callers(self, now: int) -> int | None:
        """End the jobs whose callers are gone; returns when the next one is missed."""
        for number in self.callers.due(now):
            self.cancel(self.ledger.jobs[number], Reason.caller_gone)
        return self.callers.next_at()

    def pass_limits(self, now: int) -> int | None:
        """Close what waited too long; returns when the next limit passes."""
        for number in self.limits.due(now):
            self.close_waiting(self.ledger.jobs[number], State.timed_out, Reason.pending_limit)
        return self.limits.next_at()


NOTHING_CHARGED = Charges()


class End:
    """How an attempt ended, as far as the decision and the record need it."""

    __slots__ = ("agent", "ended", "exit", "outcome", "output", "reason", "started")

    def __init__(
        self,
        agent: int,
        outcome: Outcome,
        reason: Reason,
        exit: int = 0,
        started: int = 0,
        ended: int = 0,
        output: Output = Output.none,
    ) -> None:
        self.agent = agent
        self.outcome = outcome
        self.reason = reason
        self.exit = exit
        self.started = started
        self.ended = ended
        self.output = output


class Ends:
    """Gathers the ends of one message, so that they are one change and one look at each job."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.rows = Rows(facts=FACTS - 1)
        self.after: dict[int, list[tuple[int, int, int, int, int]]] = {}

    def add(self, span: Span, term: int, end: End) -> None:
        """One span's end; counts only where this attempt is the open one."""
        number, first, count, attempt = span
        job = self.work.ledger.jobs.get(number)
        if job is None:
            return
        for start, many in job.pages.in_attempt(end.agent, first, count, attempt, term):
            if not job.charges:
                self._row(job, (start, many, attempt), end)
                continue
            for index in range(start, start + many):
                self._row(job, (index, 1, attempt), end)

    def _row(self, job: Job, span: tuple[int, int, int], end: End) -> None:
        first, count, attempt = span
        then, charge = self.work.decide(job, first, end)
        output = Output.none if then is State.waiting else end.output
        self.rows.add(
            job.number,
            first,
            count,
            attempt,
            end.agent,
            int(end.outcome),
            int(end.reason),
            end.exit,
            end.started,
            end.ended,
            int(output),
            int(then),
            charge,
        )
        again = (first, count, int(then), attempt + 1, end.agent)
        self.after.setdefault(job.number, []).append(again)

    def record(self) -> None:
        """One change for all of them, then what follows for each job."""
        if not self.rows:
            return
        self.work.record(changes.Ended(self.rows.keys(), *self.rows.facts))
        for number, spans in self.after.items():
            self.work.ended(number, spans)


def shape_of(job: Job) -> wall.Shape:
    """What makes the job's instances equal for placement."""
    return wall.Shape(tuple(sorted(job.spec.ask.items())), tuple(job.spec.where))


def _awaiting(job: Job, first: int, count: int, attempt: int, state: Output) -> Iterable[tuple[int, int]]:
    """Rows whose stored output this fact still changes: pending, or incomplete that became complete."""
    for page, rows, start in job.pages.slices(first, count):
        waits = (page.output[rows] == Output.pending) & (page.attempt[rows] == attempt)
        if state is Output.complete:
            waits |= (page.output[rows] == Output.incomplete) & (page.attempt[rows] == attempt)
        yield from runs(waits, start)
