"""Turns a job file that was parsed, or a JSON body, into exact job specs, or says everything wrong with it.

It works on plain values (mappings, lists, text, numbers), never raises for any of them, and knows nothing of
files: where a value stood is asked of `Places`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from .errors import Problem, nearest, quote
from .fields import ELSEWHERE, FIELDS, LATER, later, read_name
from .jobs import LARGEST_SPEC, JobSpec, Need, encode_spec
from .limits import JOBS_PER_SUBMISSION
from .reading import Field, Patch, Path, Places, Reading, Table, group, read_fields, table
from .speakable import make_name

Known = Callable[[str], bool]


class Submission(Struct, frozen=True, gc=False):
    """Jobs submitted together; `name` is empty when the file gives none."""

    name: str
    specs: list[JobSpec]


# What lies under every job is read once, and may not name one.
_NOT_SHARED: dict[str, Problem] = {
    name: Problem("misplaced", f"`{name}` belongs to one job", "`defaults` hold for every job", fix="move it")
    for name in ("name", "needs", "run", "command")
}
_SHARED = {name: row for name, row in FIELDS.items() if name not in _NOT_SHARED}
# Names that are answered as what they are, in a job.
_REFUSED: dict[str, Problem] = {**ELSEWHERE, **LATER}
_read_shared = group(_SHARED, {**_REFUSED, **_NOT_SHARED}, "`defaults`")


def _keep(reading: Reading, path: Path, value: object) -> object:
    return value


_NAME = Field("name", read_name, "name", "ci", "", "what the submission is called")
_DEFAULTS = Field("defaults", _read_shared, "", "{labels: {team: core}}", "", "laid under every job")
_JOBS = Field(
    "jobs", _keep, "jobs", "[{name: build, run: make}]", "", "the jobs; absent, the file is one job"
)

# The file's own fields, when it lists jobs.
FILE: dict[str, Field] = table(_NAME, _DEFAULTS, _JOBS)
FILE_LATER: dict[str, Problem] = {name: later(name) for name in ("params", "lane", "notify")}
_MISPLACED: dict[str, Problem] = {
    name: Problem(
        "misplaced",
        f"`{name}` stands beside `jobs`",
        "it belongs into a job, or under `defaults` for all of them",
        fix=f"defaults: {{{name}: {row.example}}}" if name in _SHARED else "move it into a job",
    )
    for name, row in FIELDS.items()
    if name not in FILE
}
# Fields whose entries are laid over the defaults one by one.
_MERGED = ("env", "labels", "ask")


def read_submission(
    document: object, places: Places | None = None, known: Known | None = None
) -> Submission | list[Problem]:
    """The jobs of a document, or at most 20 problems. `known` says whether an older job has this name."""
    reading = Reading(places)
    if not isinstance(document, dict):
        said = f"a job file is a mapping, and this is {quote(document)}"
        reading.refuse((), Problem("not_a_mapping", said, fix="write at least: {run: make test}"))
        return reading.problems
    if document.get("jobs") is None:
        submission = _read_single(reading, document)
    else:
        submission = _read_file(reading, document)
    if not reading.problems:
        _check_needs(reading, submission, () if document.get("jobs") is None else ("jobs",), known)
    return reading.problems or submission


def _read_single(reading: Reading, document: dict[Any, object]) -> Submission:
    under = _under(reading, document)
    found = {key: value for key, value in document.items() if key not in ("defaults", "jobs")}
    patch = _read_job(reading, (), found, {**FILE, **FIELDS}, {**_REFUSED, **FILE_LATER})
    spec = _build(reading, (), under, patch, set())
    return Submission(patch.get("name", ""), [spec] if spec is not None else [])


def _read_file(reading: Reading, document: dict[Any, object]) -> Submission:
    shallow = {key: value for key, value in document.items() if key != "defaults"}
    patch = read_fields(reading, (), shallow, FILE, {**LATER, **_MISPLACED, **FILE_LATER}, "a job file")
    under = _under(reading, document)
    jobs = patch.get("jobs")
    if not isinstance(jobs, list) or not 0 < len(jobs) <= JOBS_PER_SUBMISSION:
        reading.refuse(("jobs",), _not_jobs(jobs), key=True)
        return Submission("", [])
    patches: list[tuple[Path, Patch]] = []
    for at, job in enumerate(jobs):
        if reading.full:
            break
        path = ("jobs", at)
        if isinstance(job, dict):
            patches.append((path, _read_job(reading, path, job, FIELDS, _REFUSED)))
        else:
            said = f"{quote(job)} is not a job"
            reading.refuse(path, Problem("not_a_mapping", said, fix="- {name: build, run: make}"))
    taken = _names(reading, patches)
    specs = [_build(reading, path, under, job, taken) for path, job in patches if not reading.full]
    return Submission(patch.get("name", ""), [spec for spec in specs if spec is not None])


def _not_jobs(jobs: object) -> Problem:
    if isinstance(jobs, list) and jobs:
        said = f"{len(jobs)} jobs are too many"
        return Problem("too_large", said, f"a submission has at most {JOBS_PER_SUBMISSION}", fix="use count")
    said = "`jobs` is empty" if jobs == [] else f"`jobs` is {quote(jobs)}, not a list"
    return Problem("not_a_list", said, fix="jobs: [{name: build, run: make}]")


def _under(reading: Reading, document: Mapping[Any, object]) -> Patch:
    given = document.get("defaults")
    got = _read_shared(reading, ("defaults",), given) if given is not None else None
    return got if isinstance(got, dict) else {}


def _read_job(
    reading: Reading, path: Path, found: dict[Any, object], fields: Table, refused: Mapping[str, Problem]
) -> Patch:
    before = len(reading.problems)
    patch = read_fields(reading, path, found, fields, refused, "a job")
    both = found.get("run") is not None and found.get("command") is not None
    if both:
        why = "`run` is a text for the shell, `command` a program and its arguments"
        said = "`run` and `command` exclude each other"
        reading.refuse((*path, "command"), Problem("both", said, why, fix="leave one out"), key=True)
    elif len(reading.problems) == before and "command" not in patch:
        reading.refuse(path, Problem("missing", "a job without `run` or `command`", fix="run: make test"))
    return patch


def _names(reading: Reading, patches: list[tuple[Path, Patch]]) -> set[str]:
    first: dict[str, Path] = {}
    for path, patch in patches:
        name = patch.get("name")
        if name is None:
            continue
        if name in first:
            why = f"the first is at {reading.where((*first[name], 'name'))}"
            said = f"two jobs are called {quote(name)}"
            reading.refuse(
                (*path, "name"), Problem("twice", said, why, fix=f"name: {name[:120]}-2"), key=True
            )
        first.setdefault(name, path)
    return set(first)


def _build(reading: Reading, path: Path, under: Patch, patch: Patch, taken: set[str]) -> JobSpec | None:
    """The spec, named. Nothing is built once something is wrong."""
    if reading.problems:
        return None
    merged: Patch = {"ask": {"cpu": 1000}, **under, **patch}
    for name in _MERGED:
        layers = [layer[name] for layer in (under, patch) if name in layer]
        if layers:
            merged[name] = {key: value for layer in layers for key, value in layer.items()}
    merged["ask"] = {key: value for key, value in {"cpu": 1000, **merged["ask"]}.items() if value}
    spec = JobSpec(**{"name": "a", **merged})
    body = encode_spec(spec)
    if len(body) > LARGEST_SPEC:
        said = f"the job takes {len(body)} bytes"
        why = f"a job takes at most {LARGEST_SPEC}"
        reading.refuse(path, Problem("too_large", said, why, fix="keep scripts and data in files"))
        return None
    if "name" in merged:
        return spec
    name, again = make_name(body), 0
    while name in taken:
        again += 1
        name = make_name(body + again.to_bytes(8))
    taken.add(name)
    return msgspec.structs.replace(spec, name=name)


def _check_needs(reading: Reading, submission: Submission, base: Path, known: Known | None) -> None:
    at = {spec.name: index for index, spec in enumerate(submission.specs)}
    inside: list[list[int]] = []
    for index, spec in enumerate(submission.specs):
        path = (*base, index, "needs") if base else ("needs",)
        _check_one(reading, path, spec.needs, at, known)
        inside.append([at[need.job] for need in spec.needs if need.job in at])
    cycle = find_cycle(inside)
    if cycle is not None:
        names = [submission.specs[index].name for index in [*cycle, cycle[0]]]
        shown = names if len(names) <= 10 else [*names[:5], "…", *names[-4:]]
        said = f"jobs need each other in a circle: {' -> '.join(shown)}"
        path = (*base, cycle[0], "needs") if base else ("needs",)
        fix = f"take {names[1]} out of the needs of {names[0]}"
        reading.refuse(path, Problem("cycle", said, "none of them could ever start", fix=fix))


def _check_one(
    reading: Reading, path: Path, needs: list[Need], at: dict[str, int], known: Known | None
) -> None:
    seen: set[str] = set()
    for k, need in enumerate(needs):
        if need.job in seen:
            reading.refuse(
                (*path, k), Problem("twice", f"{quote(need.job)} is needed twice", fix="leave one out")
            )
        elif need.job not in at and known is not None and not known(need.job):
            near = nearest(need.job, at)
            why = f"did you mean `{near}`?" if near else "it is neither in this file nor an older job"
            said = f"no job {quote(need.job)}"
            reading.refuse((*path, k), Problem("unknown_job", said, why, fix=f"needs: [{near or 'build'}]"))
        seen.add(need.job)


def find_cycle(edges: list[list[int]]) -> list[int] | None:
    """A circle among numbered things, each with the numbers it points to; None when there is none."""
    white, grey, black = 0, 1, 2
    colour = [white] * len(edges)
    for start in range(len(edges)):
        if colour[start] != white:
            continue
        way, todo = [start], [iter(edges[start])]
        colour[start] = grey
        while way:
            after = next(todo[-1], None)
            if after is None:
                colour[way.pop()] = black
                todo.pop()
            elif colour[after] == grey:
                return way[way.index(after) :]
            elif colour[after] == white:
                colour[after] = grey
                way.append(after)
                todo.append(iter(edges[after]))
    return None
