"""What people see of the ledger and the scheduler: small plain items, bounded lists.

Decides only words: the states people know are computed here from the tables, never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from fairlead.base.ids import job_id, spell
from fairlead.controllers.ledger import Job, Ledger, Submission, Token
from fairlead.controllers.names import find_job, find_submission, no_such, submission_name, submission_names
from fairlead.model.errors import Problem
from fairlead.model.lifecycles import Presence, State, display_agent
from fairlead.model.requests import LOOK_ROWS, Look, Reply, Seen
from fairlead.plane.accounts import Accounts, Item
from fairlead.plane.filters import DISPLAYED, Filter, read_filter
from fairlead.scheduler.core import Scheduler

T = TypeVar("T")
# What one look examines at most: the rest is for the next page, so that no look holds up a decision.
MOST_LOOKED = 5_000


class Views:
    """Answers looks."""

    def __init__(
        self, ledger: Ledger, scheduler: Scheduler, servers: Callable[[Look], Reply], stamp: Callable[[], int]
    ) -> None:
        self.ledger = ledger
        self.accounts = Accounts(ledger, scheduler)
        self.scheduler = scheduler
        self._stamp = stamp
        self._kinds: dict[str, Callable[[Look], Reply]] = {
            "jobs": self._jobs,
            "submissions": self._submissions,
            "instances": self._instances,
            "attempts": self.accounts.list_attempts,
            "agents": self._agents,
            "servers": servers,
            "tokens": self._tokens,
            "status": self._status,
        }

    def look(self, asked: Look) -> Reply:
        """A list of a kind, or one of it by name."""
        kind = self._kinds.get(asked.kind)
        if kind is None:
            known = ", ".join(self._kinds)
            return Problem("no_such", f"there is no kind '{asked.kind}'", f"kinds are {known}")
        return kind(asked)

    # Jobs and submissions.

    def _jobs(self, asked: Look) -> Reply:
        if asked.name:
            job = find_job(self.ledger, asked.name, asked.tenant)
            return Seen([self.job(job)]) if job else self.accounts.no_such(asked.name, asked.tenant)
        wanted = read_filter("jobs", asked.filters)
        if isinstance(wanted, Problem):
            return wanted
        jobs = self.ledger.jobs
        if of := asked.filters.get("submission"):
            submission = find_submission(self.ledger, of, asked.tenant)
            if submission is None:
                return no_such("submission", of, submission_names(self.ledger, asked.tenant))
            jobs = {number: jobs[number] for number in submission.jobs if number in jobs}
        return _page(
            _newest(jobs, asked.after), asked, lambda job: self._shown_job(job, asked.tenant, wanted)
        )

    def _shown_job(self, job: Job, tenant: str, wanted: Filter) -> Item | None:
        meant = job.tenant == tenant and wanted.meets(job.state(), job.name, job.spec.labels)
        return self.job(job) if meant else None

    def job(self, job: Job) -> Item:
        """A job as JSON shows it."""
        submission = self.ledger.submissions.get(job.submission)
        return {
            "id": job_id(job.number),
            "name": job.name,
            "submission": submission_name(submission) if submission else "",
            "tenant": job.tenant,
            "kind": "action",
            "state": job.state(),
            "count": job.spec.count,
            "counts": {state.name: count for state, count in sorted(job.states.items()) if count},
            "never_started": _never_started(job),
            "pending_output": job.pending_output,
            "priority": job.spec.priority,
            "created": job.created,
            "ended": job.closed_at or None,
            "command": job.spec.command,
            "needs": [job_id(number) for number, _ in job.needs],
            "labels": job.spec.labels,
            "resources": job.spec.ask,
        }

    def _submissions(self, asked: Look) -> Reply:
        if asked.name:
            found = find_submission(self.ledger, asked.name, asked.tenant)
            known = submission_names(self.ledger, asked.tenant)
            return Seen([self.submission(found)]) if found else no_such("submission", asked.name, known)
        wanted = read_filter("submissions", asked.filters)
        if isinstance(wanted, Problem):
            return wanted
        found_here = _newest(self.ledger.submissions, asked.after)
        return _page(found_here, asked, lambda one: self._shown_submission(one, asked.tenant, wanted))

    def _shown_submission(self, one: Submission, tenant: str, wanted: Filter) -> Item | None:
        item = self.submission(one) if one.tenant == tenant else None
        return item if item and wanted.meets(item["state"]) else None

    def submission(self, one: Submission) -> Item:
        """A submission as JSON shows it."""
        jobs = [self.ledger.jobs[number] for number in one.jobs if number in self.ledger.jobs]
        counts: dict[str, int] = {}
        for job in jobs:
            counts[job.state()] = counts.get(job.state(), 0) + 1
        return {
            "id": "s-" + spell(one.number),
            "name": submission_name(one),
            "tenant": one.tenant,
            "state": _submission_state(counts, len(jobs)),
            "counts": counts,
            "jobs": [job_id(number) for number in one.jobs[:LOOK_ROWS]],
            "pending_output": sum(job.pending_output for job in jobs),
            "created": one.created,
            "ended": max((job.closed_at for job in jobs), default=0)
            if all(job.is_closed for job in jobs)
            else None,
        }

    # Instances.

    def _instances(self, asked: Look) -> Reply:
        """`name` is a job, or JOB/INDEX for one."""
        found = self.accounts.find(asked.name, asked.tenant)
        if isinstance(found, Problem):
            return found
        job, index = found
        if index is not None:
            return Seen([self.accounts.instance(job, index)])
        wanted = read_filter("instances", asked.filters)
        if isinstance(wanted, Problem):
            return wanted
        indices = ((at + 1, at) for at in _candidates(job, wanted.state, asked.after))
        return _page(indices, asked, lambda at: self._shown_instance(job, at, wanted.state))

    def _shown_instance(self, job: Job, index: int, wanted: str) -> Item | None:
        if wanted and self.accounts.instance_state(job, index) != wanted:
            return None
        return self.accounts.instance(job, index)

    # Machines and tokens.

    def _agents(self, asked: Look) -> Reply:
        if asked.name:
            number = self.ledger.agent_names.get(asked.name, 0)
            known = self.ledger.agent_names
            return Seen([self.agent(number)]) if number else no_such("agent", asked.name, known)
        wanted = read_filter("agents", asked.filters)
        if isinstance(wanted, Problem):
            return wanted
        agents = ((number, number) for number in sorted(self.ledger.agents) if number > asked.after)
        return _page(agents, asked, lambda number: self._shown_agent(number, wanted))

    def _shown_agent(self, number: int, wanted: Filter) -> Item | None:
        item = self.agent(number)
        return item if wanted.meets(item["state"], labels=item["labels"]) else None

    def _agent_state(self, number: int) -> str:
        contact = self.scheduler.roster.contacts.get(number)
        presence = contact.presence if contact else Presence.suspect
        return display_agent(self.ledger.agents[number].wanted, presence)

    def agent(self, number: int) -> Item:
        """An agent as JSON shows it."""
        record = self.ledger.agents[number]
        contact = self.scheduler.roster.contacts.get(number)
        presence = contact.presence if contact else Presence.suspect
        table = self.scheduler.table
        row = table.rows.get(number)
        resources: dict[str, dict[str, int]] = {}
        for name, column in table.resources.items():
            if row is not None and table.total[column][row]:
                total = int(table.total[column][row])
                free = int(table.free[column][row]) if presence is not Presence.lost else 0
                resources[name] = {"total": total, "free": free}
        return {
            "id": number,
            "name": record.name,
            "state": display_agent(record.wanted, presence),
            "wanted": record.wanted.name,
            "presence": presence.name,
            "labels": dict(contact.labels) if contact else {},
            "resources": resources,
            "running": sum(self.scheduler.kept.holds.get(number, {}).values()),
        }

    def _tokens(self, asked: Look) -> Reply:
        wanted = read_filter("tokens", asked.filters)
        if isinstance(wanted, Problem):
            return wanted
        tokens = [
            item
            for token in self.ledger.tokens.values()
            if not asked.name or token.id == asked.name
            if wanted.meets((item := self._token(token))["state"])
        ]
        return Seen(tokens[asked.after : asked.after + min(asked.limit, LOOK_ROWS)])

    def _token(self, token: Token) -> Item:
        return {
            "id": token.id,
            "role": token.role,
            "state": _token_state(token, self._stamp()),
            "tenant": token.tenant,
            "uses": token.uses if token.uses >= 0 else None,
            "expires": token.expires or None,
            "created": token.created,
            "revoked": token.revoked,
        }

    def _status(self, asked: Look) -> Reply:
        agents: dict[str, int] = {}
        for number in self.ledger.agents:
            state = self._agent_state(number)
            agents[state] = agents.get(state, 0) + 1
        jobs: dict[str, int] = {}
        for number in self.ledger.open:
            state = self.ledger.jobs[number].state()
            jobs[state] = jobs.get(state, 0) + 1
        item = {
            "agents": agents,
            "open_jobs": jobs,
            "queued": self.scheduler.queue.waiting,
            "term": self.scheduler.term,
            "unfinished": sum(
                self.ledger.jobs[number].states.get(State.active, 0) for number in self.ledger.open
            ),
        }
        return Seen([item])


def _newest(kept: dict[int, T], after: int) -> Iterator[tuple[int, T]]:
    """Newest first, each with its number, which is the cursor of the next page."""
    for number in sorted(kept, reverse=True):
        if not after or number < after:
            yield number, kept[number]


def _never_started(job: Job) -> int:
    """How many instances were closed before they had a place."""
    if not (job.states.get(State.cancelled) or job.states.get(State.timed_out)):
        return 0
    return sum(
        int(((page.attempt == 0) & (page.state != State.waiting)).sum()) for page in job.pages.pages.values()
    )


def _candidates(job: Job, wanted: str, after: int) -> Iterator[int]:
    """Indices that may be in a displayed state, found by whole pages."""
    if not wanted:
        yield from range(after, job.spec.count)
        return
    state = DISPLAYED.get(wanted)
    if state is not None:
        for first, count in job.pages.in_state(state, after, job.spec.count):
            yield from range(first, first + count)


def _page(found: Iterator[tuple[int, T]], asked: Look, show: Callable[[T], Item | None]) -> Seen:
    """What is shown of what was found, so many at most; a look looks at so much and goes on by its cursor."""
    limit = max(1, min(asked.limit, LOOK_ROWS))
    items: list[Item] = []
    for looked, (cursor, one) in enumerate(found, 1):
        item = show(one)
        if item is not None:
            items.append(item)
        if len(items) == limit or looked == MOST_LOOKED:
            return Seen(items, cursor if next(found, None) is not None else 0)
    return Seen(items)


def _submission_state(counts: dict[str, int], jobs: int) -> str:
    if counts.get("pending", 0) == jobs:
        return "pending"
    if counts.get("running", 0) or counts.get("pending", 0):
        return "running"
    if counts.get("succeeded", 0) == jobs:
        return "succeeded"
    return "failed" if counts.get("failed") else "cancelled"


def _token_state(token: Token, now: int) -> str:
    """What stands in its way, as `Access` would say it."""
    if token.revoked:
        return "revoked"
    if token.expires and token.expires <= now:
        return "expired"
    return "used" if token.uses == 0 else "good"
