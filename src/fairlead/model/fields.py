"""The fields of a job: what each is called, how it is read, and where it goes in a `JobSpec`.

A field is one row of a table. A name that will come later stands in `LATER`, so that it is answered as what it
is and not as a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .errors import Problem, quote
from .jobs import HIGHEST_PRIORITY, LARGEST_COUNT, LONGEST_GRACE_MS, LONGEST_MS, MOST_RETRIES, NAME, Need
from .quantities import read_ask, read_duration, read_size, show_duration
from .reading import (
    LONGEST_TEXT,
    Field,
    Path,
    Reading,
    as_text,
    checked,
    choice,
    flag,
    group,
    pairs,
    table,
    text,
    texts,
    whole,
)
from .rules import parse_rule
from .selectors import LAST, Selector, is_reserved, parse_selector

LONGEST_LABEL = 256
LABEL_NAME = r"[A-Za-z][A-Za-z0-9._/-]{0,127}"
ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
RESOURCE_NAME = r"[a-z][a-z0-9._-]{0,63}"
OUR_ENV = "FAIRLEAD_"

# Every name is a resource, so the usual other spellings would be resources that no agent has.
OTHER_SPELLINGS: dict[str, str] = {
    "cpus": "cpu",
    "core": "cpu",
    "cores": "cpu",
    "mem": "memory",
    "ram": "memory",
    "gpus": "gpu",
    "storage": "disk",
}

_NAME = re.compile(NAME, re.ASCII)
_RESOURCE = re.compile(RESOURCE_NAME, re.ASCII)


def later(name: str, instead: str = "") -> Problem:
    """A name that means something, but not in this release."""
    return Problem("unsupported", f"`{name}` is not supported yet", instead, fix="leave it out")


def read_name(reading: Reading, path: Path, value: object) -> str | None:
    """A name of a job or a submission."""
    if not isinstance(value, str) or not _NAME.match(value):
        why = "a name is a letter, then up to 127 letters, digits, `.`, `_` or `-`"
        said = f"{quote(value)} is not a name"
        reading.refuse(path, Problem("name", said, why, fix=f"name: {_usable(value)}"))
    elif is_reserved(value):
        said = f"{quote(value)} would be read as an id"
        why = "`last`, `j-…` and `s-…` stand for what has no other name"
        reading.refuse(path, Problem("name", said, why, fix=f"name: my-{value[:60]}"))
    else:
        return str(value)
    return None


def _usable(value: object) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", str(value)[:60] if isinstance(value, str) else "").strip("-")
    if not cleaned:
        return "build"
    return cleaned if _NAME.match(cleaned) and not is_reserved(cleaned) else f"job-{cleaned}"


def _read_run(reading: Reading, path: Path, value: object) -> list[str] | None:
    if as_text(value) is None or not str(value).strip():
        said = f"{quote(value)} is not a line for the shell"
        fix = 'command: ["make", "test"]' if isinstance(value, list) else "run: make test"
        reading.refuse(path, Problem("not_text", said, fix=fix))
        return None
    line = text(reading, path, value)
    return None if line is None else ["/bin/sh", "-e", "-c", line]


_read_words = texts(1, "command: [make, test]")


def _read_command(reading: Reading, path: Path, value: object) -> list[str] | None:
    if isinstance(value, str) and value.strip():
        why = "a line for the shell is given by `run`"
        said = f"{quote(value)} is not a list of words"
        reading.refuse(path, Problem("not_a_list", said, why, fix=f"run: {quote(value).strip('`')}"))
        return None
    words: list[str] | None = _read_words(reading, path, value)
    if words is None:
        return None
    if not words[0].strip():
        reading.refuse((*path, 0), Problem("not_text", "the program's name is empty", fix="command: [make]"))
        return None
    return words


def _read_dir(reading: Reading, path: Path, value: object) -> str | None:
    found = text(reading, path, value)
    if found is None or found.startswith("/"):
        return found
    why = "a folder on the agent is named from the root; without `dir` there is a fresh workspace"
    fix = f"dir: /{quote(found).strip('`')}"
    reading.refuse(path, Problem("not_absolute", f"{quote(found)} does not begin with `/`", why, fix=fix))
    return None


def _read_resources(reading: Reading, path: Path, value: object) -> dict[str, int] | None:
    if value == "auto":
        reading.refuse(path, later("resources: auto"))
        return None
    if not isinstance(value, dict):
        said = f"{quote(value)} is not a mapping"
        reading.refuse(path, Problem("not_a_mapping", said, fix="resources: {cpu: 2, memory: 4GiB}"))
        return None
    ask: dict[str, int] = {}
    for key, amount in value.items():
        name = key if isinstance(key, str) else quote(key)
        here = (*path, name)
        meant = OTHER_SPELLINGS.get(name)
        if meant is not None:
            said = f"the resource is called `{meant}`, not `{name}`"
            reading.refuse(here, Problem("name", said, fix=f"resources: {{{meant}: …}}"), key=True)
        elif not _RESOURCE.fullmatch(name):
            said = f"{quote(key)} is not the name of a resource"
            fix = "resources: {cpu: 2, memory: 4GiB}"
            reading.refuse(here, Problem("name", said, f"allowed is {RESOURCE_NAME}", fix=fix), key=True)
        elif amount is not None:
            got = checked(reading, here, read_ask(name, amount))
            if got is not None:
                ask[name] = got
    return ask


def _read_where(reading: Reading, path: Path, value: object) -> list[str] | None:
    rules: list[str] | None = texts(0, 'where: ["region == eu"]')(reading, path, value)
    if rules is None:
        return None
    good = True
    for at, rule in enumerate(rules):
        parsed = parse_rule(rule)
        if isinstance(parsed, Problem):
            reading.refuse((*path, at), parsed)
            good = False
    return rules if good else None


def _read_need_name(reading: Reading, path: Path, value: object) -> str | None:
    found = parse_selector(value) if isinstance(value, str) else None
    is_job = isinstance(found, Selector) and found.whole and found.number < 0 and found.name != LAST
    if not is_job:
        why = "a need is another job's name or id"
        fix = "needs: [build, {job: unit, on: always}]"
        reading.refuse(path, Problem("name", f"{quote(value)} names no job", why, fix=fix))
        return None
    return str(value)


_NEED_ON = choice(
    {"success": "success", "failure": "failure", "always": "always"},
    {"healthy": later("on: healthy", "only a workload can be healthy")},
)
_NEED = table(
    Field("job", _read_need_name, "job", "build", "", ""),
    Field("on", _NEED_ON, "on", "always", "success", ""),
)
_read_need = group(_NEED, {}, "a need")


def _read_needs(reading: Reading, path: Path, value: object) -> list[Need] | None:
    if not isinstance(value, list):
        said = f"{quote(value)} is not a list"
        fix = f"needs: [{quote(value).strip('`') if isinstance(value, str) else 'build'}]"
        reading.refuse(path, Problem("not_a_list", said, fix=fix))
        return None
    needs: list[Need] = []
    for at, each in enumerate(value):
        here = (*path, at)
        if isinstance(each, dict):
            patch = _read_need(reading, here, each)
            if not each.get("job"):
                reading.refuse(
                    here, Problem("missing", "a need without `job`", fix="{job: build, on: always}")
                )
        else:
            name = _read_need_name(reading, here, each)
            patch = {} if name is None else {"job": name}
        if "job" in patch:
            needs.append(Need(**patch))
    return needs if len(needs) == len(value) else None


def _duration(least: int, most: int, none: bool) -> Callable[[Reading, Path, object], int | None]:
    """A time within bounds; with `none` the word `none` lifts it."""

    def read(reading: Reading, path: Path, value: object) -> int | None:
        if none and value == "none":
            return 0
        got = checked(reading, path, read_duration(value))
        if got is None:
            return None
        if got < least:
            why = f"no time would be left; {'`none` lifts the limit' if none else 'it must be longer'}"
            reading.refuse(path, Problem("out_of_range", f"{quote(value)} is too short", why, fix="write 1s"))
            return None
        if got > most:
            why = f"it is at most {show_duration(most)}"
            fix = f"write {show_duration(most)}"
            reading.refuse(path, Problem("out_of_range", f"{quote(value)} is too long", why, fix=fix))
            return None
        return got

    return read


def _read_output(reading: Reading, path: Path, value: object) -> int | None:
    got = checked(reading, path, read_size(value))
    if got == 0:
        why = "the first byte would end it; for none, send the output away: `make >/dev/null 2>&1`"
        said = f"{quote(value)} is too small"
        reading.refuse(path, Problem("out_of_range", said, why, fix="write 1MiB"))
        return None
    return got


LIMITS = table(
    Field("run", _duration(1, LONGEST_MS, True), "run_ms", "1h", "none", "how long an attempt may run"),
    Field("pending", _duration(1, LONGEST_MS, True), "pending_ms", "2h", "none", "how long it may wait"),
    Field("grace", _duration(0, LONGEST_GRACE_MS, False), "grace_ms", "30s", "10s", "between TERM and KILL"),
    Field("output", _read_output, "output_bytes", "100MiB", "1GiB", "how much an attempt may print"),
)
RETRIES = table(
    Field(
        "infrastructure",
        whole(0, MOST_RETRIES),
        "retry_infrastructure",
        "5",
        "3",
        "reruns when the machine was at fault",
    ),
    Field("job", whole(0, MOST_RETRIES), "retry_job", "2", "0", "reruns when the command failed"),
)

FIELDS = table(
    Field("name", read_name, "name", "build", "", "what it is called; without it, a speakable one is made"),
    Field(
        "kind",
        choice({"action": {}}, {"workload": later("kind: workload", "only actions run so far")}),
        "",
        "action",
        "action",
        "an action runs to its end",
    ),
    Field("run", _read_run, "command", "make test", "", "a text for `/bin/sh -e -c`; this or `command`"),
    Field("command", _read_command, "command", "[make, test]", "", "a program and its arguments, no shell"),
    Field("dir", _read_dir, "dir", "/srv/tree", "", "a folder on the agent; without it, a fresh workspace"),
    Field(
        "env",
        pairs("a variable", ENV_NAME, LONGEST_TEXT, 'env: {CI: "true"}', OUR_ENV),
        "env",
        '{CI: "true"}',
        "{}",
        "variables of the command; numbers as they are written",
    ),
    Field("inherit_env", flag, "inherit_env", "true", "false", "also the agent's own variables"),
    Field("merge_output", flag, "merge_output", "true", "false", "stdout and stderr in one log"),
    Field(
        "labels",
        pairs("a label", LABEL_NAME, LONGEST_LABEL, "labels: {team: core}"),
        "labels",
        "{team: core}",
        "{}",
        "for finding it again",
    ),
    Field(
        "count",
        whole(1, LARGEST_COUNT),
        "count",
        "9",
        "1",
        "how many instances; each sees its `FAIRLEAD_INDEX`, from 0",
    ),
    Field("parallel", whole(1, LARGEST_COUNT), "parallel", "3", "", "how many at once; without it, all"),
    Field(
        "resources",
        _read_resources,
        "ask",
        "{cpu: 2, memory: 4GiB, gpu: 1}",
        "{cpu: 1}",
        'per instance: `cpu` in cores or `"500m"`, `memory` and `disk` as sizes, `gpu` and any name as pieces',
    ),
    Field(
        "where", _read_where, "where", '["region == eu"]', "[]", "rules over an agent's labels; all must hold"
    ),
    Field(
        "needs",
        _read_needs,
        "needs",
        "[compile, {job: lint, on: always}]",
        "[]",
        "jobs to wait for, here or older ones; `on`: `success`, `failure` or `always`",
    ),
    Field("priority", whole(0, HIGHEST_PRIORITY), "priority", "200", "100", "0 to 1000, higher first"),
    Field(
        "limits", group(LIMITS, {"hold": later("limits.hold")}, "`limits`"), "", "{run: 1h}", "", "see below"
    ),
    Field("retries", group(RETRIES, {}, "`retries`"), "", "{job: 2}", "", "see below"),
    Field(
        "on_silence",
        choice({"overlap": False, "exclusive": True}, {}),
        "exclusive",
        "exclusive",
        "overlap",
        "when an agent falls silent: `overlap` runs it again soon, `exclusive` never twice at once",
    ),
    Field(
        "when_full",
        choice({"wait": False, "refuse": True}, {}),
        "refuse_when_full",
        "refuse",
        "wait",
        "`wait` for room, or `refuse`",
    ),
    Field(
        "on_caller_gone",
        choice({"continue": False, "cancel": True}, {}),
        "cancel_when_caller_gone",
        "cancel",
        "continue",
        "when who waits for it goes away: `continue` or `cancel`",
    ),
)

_COUNTED = "`count` makes instances, each with its own FAIRLEAD_INDEX"
_HINTS: dict[str, str] = {
    "matrix": _COUNTED,
    "each": _COUNTED,
    "replicas": "only actions run so far",
    "steps": "`run` takes several lines",
    "stdin": "read the file in `run`",
    "stdout": "output is kept and shown by `fairlead logs`",
    "stderr": "output is kept and shown by `fairlead logs`",
    "secrets": "`env` is readable by everyone who may look at the job",
    "deadline": "`limits` has `run` and `pending`",
}
_NAMES = (
    "steps source python infrastructure files stdin stdout stderr secrets cache artifacts skip_if_same "
    "companions ports health matrix each replicas gang any_of equipment prefer near apart spread "
    "interference tolerate cluster cluster_types lane not_before deadline schedule warn restart protected "
    "on_failure on_loss on_refusal on_cluster_failed update preset tenant notify"
)
LATER: dict[str, Problem] = {name: later(name, _HINTS.get(name, "")) for name in _NAMES.split()}


def _called(name: str, ours: str) -> Problem:
    said = f"a job has no field `{name}`"
    return Problem("unknown_field", said, f"here it is `{ours}`", fix=f"{ours}: {FIELDS[ours].example}")


# Names that other tools have for the same, too far from ours to be found by their letters.
_HABITS = (
    "script=run shell=run cmd=command args=command arguments=command cwd=dir workdir=dir working_directory=dir "
    "environment=env variables=env timeout=limits depends_on=needs dependencies=needs requires=needs after=needs "
    "retry=retries cpu=resources cpus=resources memory=resources gpus=resources requests=resources "
    "node_selector=where constraints=where runs_on=where tags=labels instances=count array=count"
)
ELSEWHERE: dict[str, Problem] = {
    name: _called(name, ours) for name, _, ours in (each.partition("=") for each in _HABITS.split())
}
