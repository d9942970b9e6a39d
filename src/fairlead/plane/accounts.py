"""What is told of single instances: where they stand, why they wait, how they ended, what happened to them.

Decides only words: everything is read off the ledger and the scheduler when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.base.ids import job_id, whole_number
from fairlead.controllers.ledger import Job, Ledger
from fairlead.controllers.names import find_job, find_work, no_such, submission_name
from fairlead.controllers.work import shape_of
from fairlead.model.errors import Problem
from fairlead.model.lifecycles import Outcome, Output, Stage, State
from fairlead.model.reasons import Reason
from fairlead.model.requests import LOOK_ROWS, Explain, History, Look, Reply, Seen
from fairlead.model.verdict import Verdict, sentence
from fairlead.scheduler.core import Scheduler

Item = dict[str, Any]


class Accounts:
    """Tells of instances."""

    def __init__(self, ledger: Ledger, scheduler: Scheduler) -> None:
        self.ledger = ledger
        self.scheduler = scheduler

    def find(self, name: str, tenant: str) -> tuple[Job, int | None] | Problem:
        job = find_job(self.ledger, name, tenant)
        if job is not None:
            return job, None
        head, _, tail = name.rpartition("/")
        index = whole_number(tail) if head else None
        work = find_work(self.ledger, name if index is None else head, tenant)
        if not work:
            return self.no_such(name, tenant)
        if len(work) > 1:
            return _several(name, work)
        job = work[0]
        if index is None:
            return job, None
        if index >= job.spec.count:
            why = f"it has {job.spec.count}, from 0 to {job.spec.count - 1}"
            return Problem("no_such", f"job '{head}' has no instance {index}", why)
        return job, index

    def no_such(self, name: str, tenant: str) -> Problem:
        """No work is called so; the nearest name is told."""
        jobs = (known for owner, known in reversed(self.ledger.job_names) if owner == tenant)
        return no_such("job", name, jobs)

    def _failed_need(self, job: Job) -> str:
        """Which job that it needs ended otherwise than it needs it, as a sentence."""
        for number, when in job.needs:
            needed = self.ledger.jobs.get(number)
            if needed is None or not needed.is_closed or when not in ("success", "failure"):
                continue
            state = needed.state()
            if (state == "succeeded") is (when == "failure"):
                wants = "the failure of " if when == "failure" else ""
                return f"it needs {wants}{needed.name}, which {HAS_ENDED[state]}"
        return sentence(Reason.need_failed, {})

    def _ended(self, job: Job, reason: Reason, exit: int) -> Item:
        told = _how_it_ended(reason, exit)
        return told | {"sentence": self._failed_need(job)} if reason is Reason.need_failed else told

    def instance_state(self, job: Job, index: int) -> str:
        """The one word people see for an instance."""
        page = job.pages.pages.get(index // 4096)
        state = State(int(page.state[index % 4096])) if page is not None else State.waiting
        if state is State.active:
            stage = self.scheduler.stage(job.number, index)
            return (stage or Stage.assigned).name
        if state is State.waiting:
            needs_met = all(
                self.ledger.jobs[number].is_closed for number, _ in job.needs if number in self.ledger.jobs
            )
            return "waiting" if needs_met else "blocked"
        return state.name

    def instance(self, job: Job, index: int) -> Item:
        """An instance as JSON shows it, with its newest attempt."""
        item: Item = {
            "id": f"{job_id(job.number)}/{index}",
            "job": job_id(job.number),
            "number": job.number,
            "name": job.name,
            "index": index,
            "state": self.instance_state(job, index),
            "reason": "",
            "sentence": "",
            "attempt": 0,
            "term": 0,
            "agent": None,
            "exit_code": None,
            "signal": None,
            "placed": None,
            "started": None,
            "ended": None,
            "output": "none",
            "out_length": None,
            "err_length": None,
        }
        page = job.pages.pages.get(index // 4096)
        if page is not None:
            row = index % 4096
            item["attempt"] = int(page.attempt[row])
            item["term"] = int(page.term[row])
            item["agent"] = self._agent_name(int(page.agent[row]))
            item["output"] = Output(int(page.output[row])).name
            item["placed"] = _absolute(job, int(page.placed[row]))
            item["started"] = _absolute(job, int(page.started[row]))
            item["ended"] = _absolute(job, int(page.ended[row]))
            item |= self._ended(job, Reason(int(page.reason[row])), int(page.exit[row]))
            if page.state[row] == State.succeeded:
                item |= {"exit_code": 0, "reason": "", "sentence": ""}
            if item["output"] in ("complete", "incomplete"):
                item["out_length"], item["err_length"] = int(page.out_length[row]), int(page.err_length[row])
        return item

    def _agent_name(self, number: int) -> str | None:
        agent = self.ledger.agents.get(number)
        return agent.name if agent else None

    def list_attempts(self, asked: Look) -> Reply:
        found = self.find(asked.name, asked.tenant)
        if isinstance(found, Problem):
            return found
        job, index = found
        return Seen(self.attempts(job, index or 0))

    def attempts(self, job: Job, index: int) -> list[Item]:
        """Every attempt of an instance that is remembered, in order."""
        items: list[Item] = []
        for past in job.past.get(index, []):
            ended = _how_it_ended(Reason(past.reason), past.exit)
            items.append(
                {
                    "attempt": past.attempt,
                    "agent": self._agent_name(past.agent),
                    "outcome": Outcome(past.outcome).name,
                    "placed": past.placed or None,
                    "started": past.started or None,
                    "ended": past.ended or None,
                    **ended,
                }
            )
        newest = self.instance(job, index)
        if newest["attempt"] and (not items or items[-1]["attempt"] < newest["attempt"]):
            shown = (
                "attempt",
                "agent",
                "placed",
                "started",
                "ended",
                "reason",
                "sentence",
                "exit_code",
                "signal",
            )
            items.append({"outcome": newest["state"], **{name: newest[name] for name in shown}})
        return items

    # Why.

    def explain(self, asked: Explain, now: int) -> Reply:
        """Why work waits, or how it ended."""
        found = self.find(asked.name, asked.tenant)
        if isinstance(found, Problem):
            return found
        job, index = found
        item: Item = {"id": job_id(job.number), "name": job.name, "state": job.state(), "causes": []}
        if index is not None:
            instance = self.instance(job, index)
            item |= {"id": instance["id"], "state": instance["state"], "sentence": instance["sentence"]}
        if job.is_closed:
            item["causes"] = self._ends(job)
        elif job.states.get(State.waiting, 0):
            item["causes"] = self._waits(job, now)
            item["waiting"] = job.states[State.waiting]
        return Seen([item])

    def _waits(self, job: Job, now: int) -> list[Item]:
        unmet = [
            self.ledger.jobs[number].name
            for number, _ in job.needs
            if number in self.ledger.jobs and not self.ledger.jobs[number].is_closed
        ]
        if unmet:
            facts = {"needs": ", ".join(unmet)}
            return [_cause(Reason.needs_wait, facts, f"the end of {facts['needs']}", 0)]
        if job.spec.parallel and job.states.get(State.active, 0) >= job.spec.parallel:
            return [_cause(Reason.parallel, {}, "the end of one that runs, or a larger `parallel`", 0)]
        return _causes(self.scheduler.verdict(shape_of(job), now))

    def _ends(self, job: Job) -> list[Item]:
        """Why instances did not succeed, the most frequent first."""
        found = sorted(job.pages.causes().items(), key=lambda item: -item[1])[:LOOK_ROWS]
        return [
            {**self._ended(job, Reason(reason), exit), "count": count}
            for (reason, exit), count in found
            if reason
        ]

    # History.

    def history(self, asked: History) -> Reply:
        """What happened, in order, as far as it is kept."""
        found = self.find(asked.name, asked.tenant)
        if isinstance(found, Problem):
            return found
        job, index = found
        submission = self.ledger.submissions.get(job.submission)
        name = submission_name(submission) if submission else ""
        items: list[Item] = [{"at": job.created, "event": "submitted", "sentence": f"as {name}/{job.name}"}]
        if index is None and job.spec.count == 1:
            index = 0
        if index is not None:
            for one in self.attempts(job, index):
                items += _attempt_events(one)
        if job.closed_at:
            told = f"the job {HAS_ENDED[job.state()]}"
            if any(reason == Reason.need_failed for reason, _ in job.pages.causes()):
                told += f": {self._failed_need(job)}"
            items.append({"at": job.closed_at, "event": "ended", "sentence": told})
        return Seen(sorted(items, key=lambda item: item["at"] or 0)[:LOOK_ROWS])


# What a closed job is said to have done.
HAS_ENDED = {"succeeded": "succeeded", "failed": "failed", "cancelled": "was cancelled"}


def _several(name: str, work: list[Job]) -> Problem:
    names = ", ".join(job.name for job in work[:8])
    why = f"it has {len(work)} jobs: {names}" + (", …" if len(work) > 8 else "")
    return Problem("several", f"'{name}' is not one job", why, fix=f"fairlead get jobs --submission {name}")


def _attempt_events(one: Item) -> Iterator[Item]:
    label = f"attempt {one['attempt']} on {one['agent']}"
    if one["placed"]:
        yield {"at": one["placed"], "event": "assigned", "sentence": label}
    if one["started"]:
        yield {"at": one["started"], "event": "started", "sentence": label}
    if one["ended"]:
        how = f"{label}: {one['sentence']}" if one["sentence"] else label
        yield {"at": one["ended"], "event": one["outcome"], "sentence": how}


def _absolute(job: Job, relative: int) -> int | None:
    return job.created + relative - 1 if relative else None


def _how_it_ended(reason: Reason, exit: int) -> Item:
    """`exit` is the code, or minus the signal."""
    if reason is Reason.none:
        return {"reason": "", "sentence": "", "exit_code": None, "signal": None}
    signal = -exit if exit < 0 else None
    code = exit if exit >= 0 and reason in (Reason.exited, Reason.none) else None
    text = sentence(reason, {"exit": str(exit), "signal": str(signal)})
    return {"reason": reason.name, "sentence": text, "exit_code": code, "signal": signal}


def _cause(reason: Reason, facts: dict[str, str], lifts: str, agents: int) -> Item:
    return {
        "reason": reason.name,
        "sentence": sentence(reason, facts),
        "facts": facts,
        "lifted_by": lifts,
        "agents": agents,
    }


def _causes(verdict: Verdict) -> list[Item]:
    causes = [_cause(one.reason, one.facts, one.lifts, one.agents) for one in verdict.blockers]
    if verdict.never:
        for cause in causes:
            cause["never"] = True
    return causes
