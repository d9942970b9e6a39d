"""What people mean by a name: an id, the newest job of that name, a submission, or one of its jobs.

An id wins over a name, a job over a submission.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from fairlead.base.ids import find_job_number, unspell, whole_number
from fairlead.controllers.ledger import Job, Ledger, Submission
from fairlead.model.errors import Problem, nearest


def submission_name(submission: Submission) -> str:
    """How a submission is printed: its name and number."""
    return f"{submission.name}-{submission.number}"


def find_submission(ledger: Ledger, name: str, tenant: str) -> Submission | None:
    """By printed name, by id, by bare name (the newest), or `last`."""
    if name.startswith("s-") and (number := unspell(name[2:])) is not None:
        found = ledger.submissions.get(number)
        return found if found is not None and found.tenant == tenant else None
    if name == "last":
        mine = (one.number for one in ledger.submissions.values() if one.tenant == tenant)
        return ledger.submissions.get(max(mine, default=0))
    head, _, tail = name.rpartition("-")
    number = whole_number(tail)
    if head and number is not None:
        found = ledger.submissions.get(number)
        if found is not None and found.name == head and found.tenant == tenant:
            return found
    return ledger.submissions.get(ledger.submission_names.get((tenant, name), 0))


def find_job(ledger: Ledger, name: str, tenant: str) -> Job | None:
    """By id, by `SUBMISSION/JOB`, or by bare name: the newest."""
    number = find_job_number(name)
    if number is not None:
        job = ledger.jobs.get(number)
        if job is not None:
            return job if job.tenant == tenant else None
    head, slash, tail = name.rpartition("/")
    if slash:
        submission = find_submission(ledger, head, tenant)
        jobs = [ledger.jobs[number] for number in submission.jobs] if submission else []
        return next((job for job in jobs if job.name == tail), None)
    return ledger.jobs.get(ledger.job_names.get((tenant, name), 0))


def find_work(ledger: Ledger, name: str, tenant: str) -> list[Job]:
    """The jobs a name stands for: one, or all of a submission."""
    job = find_job(ledger, name, tenant)
    if job is not None:
        return [job]
    submission = find_submission(ledger, name, tenant)
    return [ledger.jobs[number] for number in submission.jobs] if submission else []


# Names that a wrong one is compared with: more would hold up decisions.
MOST_COMPARED = 2_000
HOW_FOUND = {
    "agent": "an agent is known by its name or number once it joined",
    "token": "a token is known by its id, the part before the first dot",
}


def submission_names(ledger: Ledger, tenant: str) -> list[str]:
    """What people call the submissions of a tenant."""
    return [name for owner, name in ledger.submission_names if owner == tenant]


def no_such(kind: str, name: str, known: Iterable[str] = ()) -> Problem:
    """Nobody here has that name; of those that are known, the nearest may have been meant."""
    meant = nearest(name, islice(known, MOST_COMPARED))
    why = HOW_FOUND.get(kind, "names are looked up among open work and what ended lately")
    return Problem(
        "no_such",
        f"there is no {kind} '{name}'",
        f"did you mean {meant}?" if meant else why,
        fix=f"fairlead get {kind} {meant}" if meant else f"fairlead get {kind}s",
    )
