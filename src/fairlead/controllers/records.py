"""The ledger as stored values, and back: the site, submissions, jobs, pages.

A value names the last segment it includes. A job's record names the version of each of its pages, so a job is
whole as soon as its record is there; versions that no record names are left over from a round that was cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from fairlead.controllers.ledger import (
    Agent,
    Charges,
    Job,
    Keyed,
    Ledger,
    Past,
    Submission,
    Token,
)
from fairlead.controllers.pages import COLUMNS, ROWS, Page
from fairlead.model.lifecycles import Output, State
from fairlead.model.reasons import Reason

# A page with many former attempts, or a roster of thousands, is larger than one write.
LARGEST_PIECE = 400 << 10


class SiteValue(Struct, frozen=True, gc=False):
    """Counters, and which version of the roster counts."""

    includes: int
    last_job: int
    last_submission: int
    last_agent: int
    last_at: int
    roster: int
    pieces: int


class Roster(Struct, frozen=True, gc=False):
    """Agents and tokens."""

    agents: list[Agent]
    tokens: list[Token]


class JobValue(Struct, frozen=True, gc=False):
    """A job without its pages, which it names by version."""

    includes: int
    number: int
    digest: str
    created: int
    closed_at: int
    cancelled: int
    detached: bool
    needs: list[tuple[int, str]]
    versions: dict[int, int]
    pieces: dict[int, int]
    submission: int
    at: int


class Aside(Struct, frozen=True, gc=False):
    """What of a page is sparse: former attempts, and what the budgets paid."""

    past: dict[int, list[Past]]
    charges: dict[int, Charges]


class SubmissionValue(Struct, frozen=True, gc=False):
    """A submission and the digest that its key stands for."""

    record: Submission
    digest: str


class Covered:
    """Up to which segment the loaded values go."""

    def __init__(self) -> None:
        self.site = 0
        self.jobs: dict[int, int] = {}

    def job(self, number: int) -> int:
        """The last segment included in what was loaded of a job."""
        return self.jobs.get(number, 0)


def take_site(ledger: Ledger, includes: int) -> Iterator[tuple[str, bytes | None]]:
    """The roster under a new version, then the value that names it, which is the switch."""
    before = named_pieces(roster_key(ledger.roster_version), ledger.roster_pieces)
    roster = Roster(list(ledger.agents.values()), list(ledger.tokens.values()))
    pieces = list(_split(roster_key(includes), msgspec.msgpack.encode(roster)))
    yield from pieces
    ledger.roster_version, ledger.roster_pieces = includes, len(pieces) - 1
    yield (
        "site",
        msgspec.msgpack.encode(
            SiteValue(
                includes,
                ledger.last_job,
                ledger.last_submission,
                ledger.last_agent,
                ledger.last_at,
                ledger.roster_version,
                ledger.roster_pieces,
            )
        ),
    )
    yield from _gone(before, pieces)


def take_job(ledger: Ledger, job: Job, includes: int) -> Iterator[tuple[str, bytes | None]]:
    """The job's changed pages under new versions, then its record, which is the switch; it is clean after."""
    before: list[str] = []
    fresh: list[tuple[str, bytes]] = []
    dirty = sorted(ledger.dirty.pop(job.number, ()))
    asides = _asides(job, set(dirty))
    for number in dirty:
        if number in job.versions:
            key = page_key(job.number, number, job.versions[number])
            before += named_pieces(key, job.pieces.get(number, 0))
        page = job.pages.pages[number]
        columns = b"".join(getattr(page, name).tobytes() for name in COLUMNS)
        body = columns + msgspec.msgpack.encode(asides.get(number, Aside({}, {})))
        pieces = list(_split(page_key(job.number, number, includes), body))
        job.versions[number], job.pieces[number] = includes, len(pieces) - 1
        fresh += pieces
    yield from fresh
    record = ledger.submissions[job.submission]
    keyed = ledger.keys.get((record.tenant, record.key))
    value = SubmissionValue(record, keyed.digest if keyed else "")
    yield f"submission/{record.number}", msgspec.msgpack.encode(value)
    yield f"job/{job.number}", msgspec.msgpack.encode(_job_value(ledger, job, includes))
    yield from _gone(before, fresh)


def _asides(job: Job, pages: set[int]) -> dict[int, Aside]:
    found: dict[int, Aside] = {}
    for index, past in job.past.items():
        if index // ROWS in pages:
            found.setdefault(index // ROWS, Aside({}, {})).past[index] = past
    for index, charges in job.charges.items():
        if index // ROWS in pages:
            found.setdefault(index // ROWS, Aside({}, {})).charges[index] = charges
    return found


def _split(key: str, body: bytes) -> Iterator[tuple[str, bytes]]:
    """A value in pieces that each fit a write: `key`, `key~1`, `key~2`."""
    for at, start in enumerate(range(0, max(len(body), 1), LARGEST_PIECE)):
        yield (f"{key}~{at}" if at else key), body[start : start + LARGEST_PIECE]


def named_pieces(key: str, more: int) -> list[str]:
    """The keys under which a value in so many more pieces lies."""
    return [key, *(f"{key}~{at}" for at in range(1, more + 1))]


def _joined(values: dict[str, bytes], key: str, more: int) -> bytes:
    return b"".join(values[name] for name in named_pieces(key, more))


def _gone(before: list[str], fresh: list[tuple[str, bytes]]) -> Iterator[tuple[str, None]]:
    """What a new version replaces; a version that is taken twice at one segment replaces itself."""
    kept = {key for key, _ in fresh}
    yield from ((key, None) for key in before if key not in kept)


def roster_key(version: int) -> str:
    """Where a version of the roster lies."""
    return f"roster/{version}"


def _job_value(ledger: Ledger, job: Job, includes: int) -> JobValue:
    return JobValue(
        includes,
        job.number,
        job.digest,
        job.created,
        job.closed_at,
        int(job.cancelled),
        job.detached,
        job.needs,
        job.versions,
        {page: more for page, more in job.pieces.items() if more},
        job.submission,
        ledger.last_at,
    )


def leftovers(values: Iterable[str], ledger: Ledger) -> list[str]:
    """Versions of pages and rosters that nothing names: a round was cut before its switch, or after it."""
    named = set(named_pieces(roster_key(ledger.roster_version), ledger.roster_pieces))
    for job in ledger.jobs.values():
        for page, version in job.versions.items():
            named.update(named_pieces(page_key(job.number, page, version), job.pieces.get(page, 0)))
    return [key for key in values if key.startswith(("page/", "roster/")) and key not in named]


def page_key(job: int, page: int, version: int) -> str:
    """Where a version of a page lies."""
    return f"page/{job}/{page}/{version}"


def load_values(ledger: Ledger, values: dict[str, bytes]) -> Covered:
    """Fill an empty ledger from checkpoints."""
    covered = Covered()
    if "site" in values:
        covered.site = _load_site(ledger, values)
    for key, body in values.items():
        kind, _, rest = key.partition("/")
        if kind == "spec":
            ledger.bodies[rest] = body
        elif kind == "submission":
            _load_submission(ledger, msgspec.msgpack.decode(body, type=SubmissionValue))
    jobs = [
        msgspec.msgpack.decode(body, type=JobValue) for key, body in values.items() if key.startswith("job/")
    ]
    for value in sorted(jobs, key=lambda one: one.number):
        _load_job(ledger, value, values)
        covered.jobs[value.number] = value.includes
    return covered


def _load_site(ledger: Ledger, values: dict[str, bytes]) -> int:
    value = msgspec.msgpack.decode(values["site"], type=SiteValue)
    ledger.last_job, ledger.last_submission = value.last_job, value.last_submission
    ledger.last_agent, ledger.last_at = value.last_agent, value.last_at
    ledger.roster_version, ledger.roster_pieces = value.roster, value.pieces
    roster = msgspec.msgpack.decode(_joined(values, roster_key(value.roster), value.pieces), type=Roster)
    for agent in roster.agents:
        ledger.agents[agent.number] = agent
        ledger.agent_names[agent.name] = agent.number
    ledger.tokens = {token.id: token for token in roster.tokens}
    return value.includes


def _load_submission(ledger: Ledger, value: SubmissionValue) -> None:
    record = value.record
    ledger.submissions[record.number] = record
    name = (record.tenant, record.name)
    ledger.submission_names[name] = max(ledger.submission_names.get(name, 0), record.number)
    ledger.last_submission = max(ledger.last_submission, record.number)
    if record.key and value.digest:
        ledger.keys[record.tenant, record.key] = Keyed(value.digest, record.number, record.created)


def _load_job(ledger: Ledger, value: JobValue, values: dict[str, bytes]) -> None:
    record = ledger.submissions[value.submission]
    job = Job(value.number, record.number, record.tenant, value.digest, ledger.spec(value.digest))
    job.created, job.closed_at = value.created, value.closed_at
    job.cancelled, job.detached = Reason(value.cancelled), value.detached
    job.needs = list(value.needs)
    job.versions, job.pieces = dict(value.versions), dict(value.pieces)
    for number, version in value.versions.items():
        body = _joined(values, page_key(value.number, number, version), value.pieces.get(number, 0))
        page, at = _page(job.pages.rows_in(number), body)
        job.pages.pages[number] = page
        aside = msgspec.msgpack.decode(body[at:], type=Aside)
        job.past |= aside.past
        job.charges |= aside.charges
    _count(job)
    if job.pending_output:
        ledger.unsettled.add(job.number)
    ledger.jobs[job.number] = job
    ledger.job_names[job.tenant, job.name] = job.number
    ledger.last_job = max(ledger.last_job, job.number)
    ledger.last_at = max(ledger.last_at, value.at)
    if not job.is_closed:
        ledger.open.add(job.number)


def _page(rows: int, body: bytes) -> tuple[Page, int]:
    """The columns of a page, and where they end."""
    page = Page(rows)
    at = 0
    for name, kind in COLUMNS.items():
        size = rows * np.dtype(kind).itemsize
        setattr(page, name, np.frombuffer(body[at : at + size], kind).copy())
        at += size
    return page, at


def _count(job: Job) -> None:
    """Counts are not stored: they are what the pages say."""
    touched = 0
    counts: dict[State, int] = {}
    for page in job.pages.pages.values():
        touched += len(page.state)
        for state, count in zip(*np.unique(page.state, return_counts=True), strict=True):
            counts[State(int(state))] = counts.get(State(int(state)), 0) + int(count)
        job.pending_output += int((page.output == Output.pending).sum())
    counts[State.waiting] = counts.get(State.waiting, 0) + job.spec.count - touched
    job.states = counts


def describe(ledger: Ledger) -> dict[str, Any]:
    """The durable state as plain data, for comparison: equal ledgers are equal here."""
    jobs = {}
    for number, job in sorted(ledger.jobs.items()):
        pages = {
            at: {name: getattr(page, name).tolist() for name in COLUMNS}
            for at, page in sorted(job.pages.pages.items())
        }
        states = {state.name: count for state, count in sorted(job.states.items()) if count}
        jobs[number] = {
            "digest": job.digest,
            "created": job.created,
            "closed_at": job.closed_at,
            "cancelled": int(job.cancelled),
            "detached": job.detached,
            "pages": pages,
            "states": states,
            "pending_output": job.pending_output,
            "past": {index: msgspec.to_builtins(past) for index, past in sorted(job.past.items())},
        }
    return {
        "jobs": jobs,
        "agents": [msgspec.to_builtins(agent) for _, agent in sorted(ledger.agents.items())],
        "tokens": [msgspec.to_builtins(token) for _, token in sorted(ledger.tokens.items())],
        "keys": sorted((*key, keyed.submission) for key, keyed in ledger.keys.items()),
        "open": sorted(ledger.open),
        "rows": ROWS,
    }
