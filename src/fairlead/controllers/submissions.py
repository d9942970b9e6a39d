"""Taking work in: one submission becomes one change, or a problem and nothing at all.

The front has checked the files already; what is checked again here is what only control can know, and what a
careless client of the internal link could get wrong.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from fairlead.base.ids import job_id
from fairlead.controllers.ledger import Ledger, Submission
from fairlead.controllers.names import find_job, submission_name
from fairlead.controllers.work import Work
from fairlead.model import changes, wall
from fairlead.model.errors import Problem
from fairlead.model.jobs import LARGEST_COUNT, LARGEST_SPEC, JobSpec, decode_spec
from fairlead.model.limits import JOBS_PER_SUBMISSION
from fairlead.model.requests import Accepted, Submit
from fairlead.model.rules import Rule, parse_rule
from fairlead.model.submission import find_cycle


def submit(ledger: Ledger, work: Work, request: Submit, now: int) -> Accepted | Problem:
    """Record a submission and deal its jobs; a repeat of the same key answers as the first time."""
    if request.key:
        keyed = ledger.keys.get((request.tenant, request.key))
        if keyed is not None:
            return _repeat(ledger, request, keyed.digest, keyed.submission)
    specs = [_read(body) for body in request.specs]
    problem = _count_problem(specs) or next((one for one in specs if isinstance(one, Problem)), None)
    if problem is not None:
        return problem
    good = [spec for spec in specs if isinstance(spec, JobSpec)]
    needs = _needs(ledger, good, request.tenant)
    if isinstance(needs, Problem):
        return needs
    return _record(ledger, work, request, good, needs, now)


def _repeat(ledger: Ledger, request: Submit, digest: str, number: int) -> Accepted | Problem:
    submission = ledger.submissions.get(number)
    if digest != request.digest or submission is None:
        return Problem(
            "key_reused",
            f"the key '{request.key}' stands for another submission",
            "a key may be repeated only with the same content",
            "--key",
            "leave out --key, or choose another",
        )
    return _accepted(ledger, submission)


def _accepted(ledger: Ledger, submission: Submission) -> Accepted:
    names = [ledger.jobs[number].name for number in submission.jobs if number in ledger.jobs]
    return Accepted(submission_name(submission), [job_id(number) for number in submission.jobs], names)


def _read(body: bytes) -> JobSpec | Problem:
    if len(body) > LARGEST_SPEC:
        return Problem("too_large", f"a job of {len(body)} bytes", f"at most {LARGEST_SPEC} are taken")
    try:
        spec = decode_spec(body)
    except msgspec.DecodeError as error:
        return Problem("malformed", "a job that cannot be read", str(error))
    return _spec_problem(spec) or spec


def _spec_problem(spec: JobSpec) -> Problem | None:
    if not spec.command:
        return Problem("invalid", f"job '{spec.name}' has no command", where="command")
    if not 1 <= spec.count <= LARGEST_COUNT:
        return Problem("invalid", f"count {spec.count} is not 1 to {LARGEST_COUNT}", where="count")
    for name, amount in spec.ask.items():
        if not 0 <= amount < 1 << 53:
            return Problem("invalid", f"{amount} is no amount of {name}", where=f"resources.{name}")
    for text in spec.where:
        if not isinstance(parse_rule(text), Rule):
            return Problem("invalid", f"'{text}' is no rule", where="where")
    return None


def _count_problem(specs: list[JobSpec | Problem]) -> Problem | None:
    if not specs:
        return Problem("invalid", "a submission without a job", where="jobs")
    if len(specs) > JOBS_PER_SUBMISSION:
        return Problem("too_many", f"{len(specs)} jobs in one submission", f"at most {JOBS_PER_SUBMISSION}")
    return None


def _needs(ledger: Ledger, specs: list[JobSpec], tenant: str) -> list[list[tuple[int, str]]] | Problem:
    """Names become numbers: the same submission first, then the newest job of that name."""
    here = {spec.name: ledger.last_job + 1 + at for at, spec in enumerate(specs)}
    if len(here) < len(specs):
        twice = next(spec.name for at, spec in enumerate(specs) if spec.name in {s.name for s in specs[:at]})
        return Problem("invalid", f"two jobs are named '{twice}'", where="jobs.name")
    found: list[list[tuple[int, str]]] = []
    for spec in specs:
        row: list[tuple[int, str]] = []
        for need in spec.needs:
            number = here.get(need.job)
            if number is None:
                older = find_job(ledger, need.job, tenant)
                if older is None:
                    return _no_need(spec.name, need.job)
                number = older.number
            row.append((number, need.on))
        found.append(row)
    places = {spec.name: at for at, spec in enumerate(specs)}
    edges = [[places[need.job] for need in spec.needs if need.job in places] for spec in specs]
    circle = find_cycle(edges)
    if circle:
        names = " -> ".join(specs[at].name for at in circle)
        return Problem("cycle", f"jobs need each other: {names}", where="needs")
    return found


def _no_need(job: str, need: str) -> Problem:
    return Problem(
        "no_such",
        f"job '{job}' needs '{need}', which does not exist",
        "a need is a job of the same submission, or the newest of that name",
        "needs",
        "fairlead get jobs",
    )


def _record(
    ledger: Ledger,
    work: Work,
    request: Submit,
    specs: list[JobSpec],
    needs: list[list[tuple[int, str]]],
    now: int,
) -> Accepted | Problem:
    hashes = [sha256(body).hexdigest() for body in request.specs]
    fresh = {
        digest: body
        for digest, body in zip(hashes, request.specs, strict=True)
        if digest not in ledger.bodies
    }
    number = ledger.last_submission + 1
    jobs = [ledger.last_job + 1 + at for at in range(len(specs))]
    name = request.name or specs[0].name
    submitted = changes.Submitted(
        number,
        name,
        request.tenant,
        request.key,
        request.digest,
        request.caller,
        jobs,
        hashes,
        needs,
    )
    if changes.weigh(submitted) > changes.SUBMISSION_BYTES:
        edges = sum(len(row) for row in needs)
        why = f"{len(specs)} jobs with {edges} needs are more than is recorded at once"
        return Problem("too_many", "the submission is too large", why, "needs", "submit it in parts")
    if fresh:
        work.record(changes.SpecsAdded(list(fresh), list(fresh.values())))
    work.record(submitted)
    told = dict(zip(hashes, request.specs, strict=True))
    work.say(wall.Bodies(list(told), list(told.values())))
    for job in jobs:
        work.admit(ledger.jobs[job], now)
    return _accepted(ledger, ledger.submissions[number])
