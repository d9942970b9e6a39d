"""What should exist: submissions, jobs, agents, tokens; changed by durable changes only.

`apply` is the one writer. The same changes in the same order make the same ledger, in the leader that decided
them and in the successor that reads them; decisions live in `work` and `access`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from fairlead.controllers.pages import ROWS, Pages
from fairlead.model import changes
from fairlead.model.changes import Change
from fairlead.model.jobs import JobSpec, decode_spec
from fairlead.model.lifecycles import Output, State, Wanted
from fairlead.model.limits import KEY_MS, PAST_ATTEMPTS
from fairlead.model.reasons import Reason


class Past(Struct, frozen=True, gc=False, array_like=True):
    """A former attempt, as far as `history` and budgets need it."""

    attempt: int
    agent: int
    outcome: int
    reason: int
    exit: int
    placed: int
    started: int
    ended: int


class Charges(Struct, gc=False, array_like=True):
    """What the budgets of one instance have paid, and the reruns that nobody paid."""

    infrastructure: int = 0
    job: int = 0
    free: int = 0


class Job:
    """One job, its instances, and what became of them in counts."""

    __slots__ = (
        "active",
        "cancelled",
        "charges",
        "closed_at",
        "created",
        "detached",
        "digest",
        "name",
        "needs",
        "number",
        "pages",
        "past",
        "pending_output",
        "pieces",
        "spec",
        "states",
        "submission",
        "tenant",
        "versions",
    )

    def __init__(self, number: int, submission: int, tenant: str, digest: str, spec: JobSpec) -> None:
        self.number = number
        self.submission = submission
        self.tenant = tenant
        self.digest = digest
        self.spec = spec
        self.name = spec.name
        self.created = 0
        self.closed_at = 0
        self.needs: list[tuple[int, str]] = []
        self.pages = Pages(spec.count)
        self.states: dict[State, int] = {State.waiting: spec.count}
        # The reason for which somebody wants it ended.
        self.cancelled = Reason.none
        # Its caller left it on purpose.
        self.detached = False
        self.past: dict[int, list[Past]] = {}
        self.charges: dict[int, Charges] = {}
        self.pending_output = 0
        # Of each page: the segment that its last checkpoint includes, and in how many more pieces it lies.
        self.versions: dict[int, int] = {}
        self.pieces: dict[int, int] = {}

    @property
    def is_closed(self) -> bool:
        """No instance waits or runs."""
        return not self.states.get(State.waiting) and not self.states.get(State.active)

    def shift(self, before: State, after: State, count: int) -> None:
        """So many instances went from one state to another."""
        self.states[before] = self.states.get(before, 0) - count
        self.states[after] = self.states.get(after, 0) + count

    def state(self) -> str:
        """The one word people see."""
        if not self.is_closed:
            touched = self.states.get(State.waiting, 0) < self.spec.count or self.past
            return "running" if touched else "pending"
        if self.states.get(State.succeeded, 0) == self.spec.count:
            return "succeeded"
        good, ended = self.states.get(State.succeeded, 0), self.states.get(State.cancelled, 0)
        return "cancelled" if self.cancelled or good + ended == self.spec.count else "failed"

    def relative(self, at: int) -> int:
        """An instant as pages keep it."""
        return min(max(at - self.created, 0) + 1, 0xFFFF_FFFF) if at else 0


class Submission(Struct, gc=False):
    """Jobs that came together."""

    number: int
    name: str
    tenant: str
    key: str
    caller: str
    created: int
    jobs: list[int]


class Agent(Struct, gc=False):
    """A machine that joined."""

    number: int
    name: str
    wanted: Wanted = Wanted.open
    boot: str = ""
    mark: str = ""
    reason: str = ""
    # The token it joined with.
    token: str = ""


class Token(Struct, gc=False):
    """A token's digest and what it opens; `uses` counts down, -1: without bound."""

    id: str
    digest: str
    role: str
    tenant: str
    uses: int
    expires: int
    created: int = 0
    revoked: bool = False


class Keyed(Struct, frozen=True, gc=False):
    """What an idempotency key stands for."""

    digest: str
    submission: int
    at: int


class Ledger:
    """The durable state, in memory."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.submissions: dict[int, Submission] = {}
        self.agents: dict[int, Agent] = {}
        self.agent_names: dict[str, int] = {}
        self.tokens: dict[str, Token] = {}
        self.keys: dict[tuple[str, str], Keyed] = {}
        self.bodies: dict[str, bytes] = {}
        self.specs: dict[str, JobSpec] = {}
        # Newest job and submission by (tenant, name).
        self.job_names: dict[tuple[str, str], int] = {}
        self.submission_names: dict[tuple[str, str], int] = {}
        self.open: set[int] = set()
        # Jobs of which output is still to come.
        self.unsettled: set[int] = set()
        self.last_job = 0
        self.last_submission = 0
        self.last_agent = 0
        self.last_at = 0
        # Jobs changed since their last checkpoint, and which of their pages.
        self.dirty: dict[int, set[int]] = {}
        self.roster_dirty = False
        # The version under which agents and tokens were last taken, and in how many more pieces.
        self.roster_version = 0
        self.roster_pieces = 0
        self._appliers: dict[type, Callable[..., None]] = {
            changes.SpecsAdded: self._specs,
            changes.Submitted: self._submitted,
            changes.Placed: self._placed,
            changes.Ended: self._ended,
            changes.Closed: self._closed,
            changes.OutputDone: self._output,
            changes.CancelWanted: self._cancel,
            changes.Detached: self._detached,
            changes.AgentAdded: self._agent_added,
            changes.AgentBooted: self._agent_booted,
            changes.AgentWanted: self._agent_wanted,
            changes.TokenAdded: self._token_added,
            changes.TokenRevoked: self._token_revoked,
        }

    def apply(self, change: Change, term: int, at: int) -> None:
        """Let one change take effect, as of its segment's term and stamp."""
        self.last_at = max(self.last_at, at)
        self._appliers[type(change)](change, term, at)

    # Work.

    def _specs(self, change: changes.SpecsAdded, term: int, at: int) -> None:
        for digest, body in zip(change.hashes, change.bodies, strict=True):
            self.bodies[digest] = body

    def spec(self, digest: str) -> JobSpec:
        """The spec of a body that is known."""
        found = self.specs.get(digest)
        if found is None:
            found = self.specs[digest] = decode_spec(self.bodies[digest])
        return found

    def _submitted(self, change: changes.Submitted, term: int, at: int) -> None:
        self.last_submission = max(self.last_submission, change.submission)
        record = Submission(
            change.submission, change.name, change.tenant, change.key, change.caller, at, change.job
        )
        # Some of its jobs may be covered by checkpoints; then it is known, with all of them.
        self.submissions.setdefault(record.number, record)
        self.submission_names[change.tenant, change.name] = record.number
        if change.key:
            self.keys[change.tenant, change.key] = Keyed(change.digest, record.number, at)
        for number, digest, needs in zip(change.job, change.spec, change.needs, strict=True):
            job = Job(number, record.number, change.tenant, digest, self.spec(digest))
            job.created = at
            job.needs = list(needs)
            self.jobs[number] = job
            self.job_names[change.tenant, job.name] = number
            self.last_job = max(self.last_job, number)
            self.open.add(number)
            self.dirty[number] = set()

    def _placed(self, change: changes.Placed, term: int, at: int) -> None:
        for (number, first, count, attempt), agent in zip(change.keys.spans(), change.agent, strict=True):
            job = self.jobs[number]
            placed = job.relative(at)
            for page, rows, _ in job.pages.slices(first, count):
                page.state[rows] = State.active
                page.attempt[rows] = attempt
                page.agent[rows] = agent
                page.term[rows] = term
                page.placed[rows] = placed
                page.reason[rows] = 0
                page.output[rows] = 0
                page.exit[rows] = 0
                page.started[rows] = 0
                page.ended[rows] = 0
                page.out_length[rows] = 0
                page.err_length[rows] = 0
            job.shift(State.waiting, State.active, count)
            self._touch(number, first, count)

    def _ended(self, change: changes.Ended, term: int, at: int) -> None:
        for row, (number, first, count, attempt) in enumerate(change.keys.spans()):
            job = self.jobs[number]
            then = State(change.then[row])
            started, ended = job.relative(change.started[row]), job.relative(change.ended[row] or at)
            for page, rows, _ in job.pages.slices(first, count):
                page.state[rows] = then
                page.reason[rows] = change.reason[row]
                page.output[rows] = change.output[row]
                page.exit[rows] = change.exit[row]
                page.started[rows] = started
                page.ended[rows] = ended
            job.shift(State.active, then, count)
            if change.output[row] == Output.pending:
                job.pending_output += count
                self.unsettled.add(number)
            if then is State.waiting or change.charge[row]:
                self._remember(job, change, row, (first, count, attempt), at)
            self._settle(job, at, first, count)

    def _remember(
        self, job: Job, change: changes.Ended, row: int, span: tuple[int, int, int], at: int
    ) -> None:
        first, count, attempt = span
        placed = int(job.pages.page(first // ROWS).placed[first % ROWS])
        past = Past(
            attempt,
            change.agent[row],
            change.outcome[row],
            change.reason[row],
            change.exit[row],
            job.created + placed - 1 if placed else 0,
            change.started[row],
            change.ended[row] or at,
        )
        for index in range(first, first + count):
            tries = job.past.setdefault(index, [])
            tries.append(past)
            del tries[:-PAST_ATTEMPTS]
            charges = job.charges.setdefault(index, Charges())
            if change.charge[row] == 1:
                charges.infrastructure += 1
            elif change.charge[row] == 2:
                charges.job += 1
            else:
                charges.free += 1

    def _closed(self, change: changes.Closed, term: int, at: int) -> None:
        for (number, first, count, _), state, reason in zip(
            change.keys.spans(), change.state, change.reason, strict=True
        ):
            job = self.jobs[number]
            for page, rows, _ in job.pages.slices(first, count):
                page.state[rows] = state
                page.reason[rows] = reason
                page.ended[rows] = job.relative(at)
            job.shift(State.waiting, State(state), count)
            self._settle(job, at, first, count)

    def _output(self, change: changes.OutputDone, term: int, at: int) -> None:
        for row, (number, first, count, _) in enumerate(change.keys.spans()):
            job = self.jobs[number]
            for page, rows, _start in job.pages.slices(first, count):
                job.pending_output -= int((page.output[rows] == Output.pending).sum())
                page.output[rows] = change.output[row]
                page.out_length[rows] = change.out_length[row]
                page.err_length[rows] = change.err_length[row]
            self._note_pending(job)
            self._touch(number, first, count)

    def _note_pending(self, job: Job) -> None:
        if job.pending_output:
            self.unsettled.add(job.number)
        else:
            self.unsettled.discard(job.number)

    def _cancel(self, change: changes.CancelWanted, term: int, at: int) -> None:
        for number, reason in zip(change.job, change.reason, strict=True):
            self.jobs[number].cancelled = Reason(reason)
            self._touch(number)

    def _detached(self, change: changes.Detached, term: int, at: int) -> None:
        for number in change.job:
            self.jobs[number].detached = True
            self._touch(number)

    def _settle(self, job: Job, at: int, first: int, count: int) -> None:
        self._touch(job.number, first, count)
        if job.is_closed and not job.closed_at:
            job.closed_at = at
            self.open.discard(job.number)

    def _touch(self, number: int, first: int = 0, count: int = 0) -> None:
        pages = self.dirty.setdefault(number, set())
        if count:
            pages.update(range(first // ROWS, (first + count - 1) // ROWS + 1))

    # Machines and tokens.

    def _agent_added(self, change: changes.AgentAdded, term: int, at: int) -> None:
        self.agents[change.number] = Agent(change.number, change.name, token=change.token)
        self.agent_names[change.name] = change.number
        self.last_agent = max(self.last_agent, change.number)
        self.roster_dirty = True
        if change.charged and (token := self.tokens.get(change.token)) is not None and token.uses > 0:
            token.uses -= 1

    def _agent_booted(self, change: changes.AgentBooted, term: int, at: int) -> None:
        agent = self.agents[change.number]
        agent.boot, agent.mark = change.boot, change.mark
        self.roster_dirty = True

    def _agent_wanted(self, change: changes.AgentWanted, term: int, at: int) -> None:
        agent = self.agents[change.number]
        agent.wanted, agent.reason = Wanted(change.wanted), change.reason
        self.roster_dirty = True

    def _token_added(self, change: changes.TokenAdded, term: int, at: int) -> None:
        self.tokens[change.id] = Token(
            change.id, change.digest, change.role, change.tenant, change.uses, change.expires, at
        )
        self.roster_dirty = True

    def _token_revoked(self, change: changes.TokenRevoked, term: int, at: int) -> None:
        self.tokens[change.id].revoked = True
        self.roster_dirty = True

    def forget_keys(self, now: int) -> None:
        """Idempotency keys end after a day; they stand in the order in which they came."""
        while self.keys:
            key, keyed = next(iter(self.keys.items()))
            if now - keyed.at <= KEY_MS:
                return
            del self.keys[key]
