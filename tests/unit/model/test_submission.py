"""From a document to exact specs, or to everything that is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model import speakable
from fairlead.model.errors import Problem
from fairlead.model.fields import ELSEWHERE, FIELDS, LATER, LIMITS, RETRIES
from fairlead.model.jobs import GIB, JobSpec, Need, decode_spec, encode_spec
from fairlead.model.quantities import Number
from fairlead.model.reading import MOST_PROBLEMS
from fairlead.model.selectors import parse_selector
from fairlead.model.submission import FILE, FILE_LATER, Submission, find_cycle, read_submission


def specs(document: object) -> list[JobSpec]:
    """The specs of a document that is right."""
    found = read_submission(document)
    assert isinstance(found, Submission), found
    return found.specs


def problems(document: object) -> list[Problem]:
    """The problems of a document that is not."""
    found = read_submission(document)
    assert isinstance(found, list), found
    return found


def problem(document: object) -> Problem:
    """The only problem of a document."""
    found = problems(document)
    assert len(found) == 1, found
    return found[0]


def job(**fields: object) -> dict[str, object]:
    """A job that is right but for these fields."""
    return {"name": "build", "run": "make", **fields}


def test_the_smallest_job_has_every_default() -> None:
    assert specs({"name": "a", "run": "make test"}) == [JobSpec("a", ["/bin/sh", "-e", "-c", "make test"])]


def test_every_field_arrives_where_it_belongs() -> None:
    found = specs(
        {
            "name": "unit",
            "kind": "action",
            "command": ["make", Number("3.10"), 7, True],
            "dir": "/srv/tree",
            "env": {"A": Number("3.10"), "B": False, "C": "x", "D": 0.5},
            "inherit_env": True,
            "merge_output": True,
            "labels": {"app/part": "db"},
            "count": Number("9"),
            "parallel": 3,
            "resources": {"cpu": "500m", "memory": "4GiB", "gpu": 1, "licence.synth": Number("2")},
            "where": ["region == eu"],
            "needs": ["compile", {"job": "lint", "on": "always"}],
            "priority": 7,
            "limits": {"run": "1h", "pending": "none", "grace": "0s", "output": "1MiB"},
            "retries": {"infrastructure": 5, "job": 1},
            "on_silence": "exclusive",
            "when_full": "refuse",
            "on_caller_gone": "cancel",
        }
    )
    assert found == [
        JobSpec(
            "unit",
            ["make", "3.10", "7", "true"],
            dir="/srv/tree",
            env={"A": "3.10", "B": "false", "C": "x", "D": "0.5"},
            inherit_env=True,
            merge_output=True,
            labels={"app/part": "db"},
            count=9,
            parallel=3,
            ask={"cpu": 500, "memory": 4 * GIB, "gpu": 1000, "licence.synth": 2000},
            where=["region == eu"],
            needs=[Need("compile"), Need("lint", "always")],
            priority=7,
            run_ms=3_600_000,
            grace_ms=0,
            output_bytes=1 << 20,
            retry_infrastructure=5,
            retry_job=1,
            exclusive=True,
            refuse_when_full=True,
            cancel_when_caller_gone=True,
        )
    ]


def test_every_row_of_the_tables_is_a_field_of_a_spec() -> None:
    reached = {row.into for rows in (FIELDS, LIMITS, RETRIES) for row in rows.values() if row.into}
    assert reached == set(JobSpec.__struct_fields__)


def test_a_word_that_yaml_takes_for_a_boolean_or_a_number_is_still_a_command() -> None:
    assert [specs({"name": "a", "run": line})[0].command[-1] for line in (True, Number("5"))] == ["true", "5"]


def test_names_of_other_tools_are_answered_with_ours() -> None:
    for name, found in ELSEWHERE.items():
        assert name not in FIELDS and name not in LATER and name not in FILE
        assert found.fix.split(":")[0] in FIELDS


def test_text_that_comes_from_numbers_is_plain_text() -> None:
    (spec,) = specs(job(command=None, env={"V": Number("3.10")}, labels={"v": Number("1")}))
    assert type(spec.env["V"]) is str and type(spec.labels["v"]) is str


def test_defaults_lie_under_every_job_and_maps_are_laid_over_one_by_one() -> None:
    document = {
        "name": "ci",
        "defaults": {
            "env": {"A": "1", "B": "1"},
            "labels": {"team": "core"},
            "resources": {"memory": "1GiB"},
            "priority": 5,
            "limits": {"run": "1h"},
        },
        "jobs": [
            {"name": "x", "run": "a", "env": {"B": "2"}, "resources": {"cpu": 2}, "limits": {"grace": "1s"}},
            {"name": "y", "run": "b", "priority": 9, "resources": {"cpu": 0, "memory": "2GiB"}},
        ],
    }
    found = read_submission(document)
    assert isinstance(found, Submission) and found.name == "ci"
    x, y = found.specs
    assert x.env == {"A": "1", "B": "2"} and y.env == {"A": "1", "B": "1"}
    assert x.labels == y.labels == {"team": "core"}
    assert x.ask == {"cpu": 2000, "memory": GIB} and y.ask == {"memory": 2 * GIB}
    assert (x.priority, y.priority) == (5, 9)
    assert (x.run_ms, x.grace_ms, y.run_ms) == (3_600_000, 1000, 3_600_000)


def test_a_single_job_gives_its_name_to_the_submission() -> None:
    found = read_submission({"name": "build", "run": "make"})
    assert isinstance(found, Submission) and found.name == "build"
    unnamed = read_submission({"run": "make"})
    assert isinstance(unnamed, Submission) and unnamed.name == ""


def test_an_unnamed_job_gets_a_speakable_name_that_depends_on_its_content_alone() -> None:
    first, again, other = specs({"run": "a"})[0], specs({"run": "a"})[0], specs({"run": "b"})[0]
    assert first.name == again.name != other.name
    adjective, noun, number = first.name.split("-")
    assert adjective in speakable.FIRST and noun in speakable.SECOND and 0 <= int(number) < 100
    same = specs({"jobs": [{"run": "a"}, {"run": "a"}, {"run": "a"}, {"name": first.name, "run": "c"}]})
    assert len({spec.name for spec in same}) == 4


def test_a_field_that_is_left_empty_is_as_if_it_were_not_there() -> None:
    empty = dict.fromkeys([*FIELDS, "jobs", "defaults"])
    assert specs({**empty, "name": "a", "run": "x", "limits": {"run": None}}) == specs(
        {"name": "a", "run": "x"}
    )


@pytest.mark.parametrize("name", sorted({**LATER, **FILE_LATER}))
def test_a_field_that_will_come_is_answered_as_such(name: str) -> None:
    found = problem(job(**{name: "x"}))
    assert found.code == "unsupported" and found.message == f"`{name}` is not supported yet"
    assert found.where == name and found.fix


@pytest.mark.parametrize(
    ("document", "where", "message", "fix"),
    [
        (job(comand=["x"]), "comand", "a job has no field `comand`", "command: [make, test]"),
        (job(Count=3), "Count", "a job has no field `Count`", "count: 9"),
        ({"run": "x", "job": []}, "job", "a job has no field `job`", "jobs: [{name: build, run: make}]"),
        (job(environment={}), "environment", "a job has no field `environment`", "env: {"),
        (job(artefacts={}), "artefacts", "a job has no field `artefacts`", "leave it out"),
        (job(qqq={}), "qqq", "a job has no field `qqq`", "leave it out"),
        (job(limits={"rum": "1h"}), "limits.rum", "`limits` has no field `rum`", "run: 1h"),
        (job(limits={"hold": "1h"}), "limits.hold", "`limits.hold` is not supported yet", "leave it out"),
        (job(kind="workload"), "kind", "`kind: workload` is not supported yet", "leave it out"),
        (job(kind="acton"), "kind", "`acton` is not known here", "kind: action"),
        (job(resources={"cpu": -1}), "resources.cpu", "`-1` is negative", "write 0"),
        (job(resources={"memory": "4"}), "resources.memory", "`4` has no unit", "write it like"),
        (job(resources={"mem": "4GiB"}), "resources.mem", "the resource is called `memory`, not `mem`", "{memory"),
        (job(resources={"GPU!": 1}), "resources.GPU!", "`GPU!` is not the name of a resource", "resources: {cpu"),
        (job(resources="auto"), "resources", "`resources: auto` is not supported yet", "leave it out"),
        (job(resources=2), "resources", "`2` is not a mapping", "resources: {cpu: 2"),
        (job(count=0), "count", "0 is out of range", "write 1"),
        (job(count="many"), "count", "`many` is not a whole number", "write a whole number"),
        (job(priority=1001), "priority", "1001 is out of range", "write 1000"),
        (job(limits={"run": "0s"}), "limits.run", "`0s` is too short", "write 1s"),
        (job(limits={"grace": "2d"}), "limits.grace", "`2d` is too long", "write 1d"),
        (job(limits=[1]), "limits", "a list is not a mapping", "limits: {run: 1h"),
        (job(retries={"job": -1}), "retries.job", "-1 is out of range", "write 0"),
        (job(inherit_env="yes"), "inherit_env", "`yes` is neither true nor false", "inherit_env: true"),
        (job(on_silence="exclusiv"), "on_silence", "`exclusiv` is not known here", "on_silence: exclusive"),
        (job(env=["A=1"]), "env", "a list is not a mapping", "env: {"),
        (job(env={"A B": "1"}), "env.A B", "`A B` is not the name of a variable", "env: {"),
        (job(env={"FAIRLEAD_JOB": "1"}), "env.FAIRLEAD_JOB", "`FAIRLEAD_JOB` is set by", "choose another"),
        (job(env={"A": None}), "env.A", "nothing is not text", "write text"),
        (job(env={"A": "a\0"}), "env.A", "`a?` is not text", "remove it"),
        (job(env={"A": "\ud800"}), "env.A", "`?` is not text", "remove it"),
        (job(env={"A": float("nan")}), "env.A", "`nan` is not text", "write text"),
        (job(labels={"a": "x" * 300}), "labels.a", "a value of 300 letters", ""),
        (job(dir="srv"), "dir", "`srv` does not begin with `/`", "dir: /srv"),
        (job(run="echo {{ref}}"), "run", "the placeholder `{{ref}}` is not supported yet", "use a variable"),
        (job(run=["make"]), "run", "a list is not a line for the shell", "command: ["),
        (job(run="  "), "run", "`  ` is not a line for the shell", "run: make test"),
        ({"command": "make test"}, "command", "`make test` is not a list of words", "run: make test"),
        ({"command": []}, "command", "an empty list where a list of texts is expected", "command: ["),
        ({"command": ["make", ["x"]]}, "command[1]", "a list is not text", "write text"),
        ({"command": [" "]}, "command[0]", "the program's name is empty", "command: ["),
        (job(command=["x"]), "command", "`run` and `command` exclude each other", "leave one out"),
        ({"name": "a"}, "", "a job without `run` or `command`", "run: make test"),
        ({}, "", "a job without `run` or `command`", "run: make test"),
        ([], "", "a job file is a mapping, and this is a list", "write at least"),
        (None, "", "a job file is a mapping, and this is nothing", "write at least"),
        (job(name="a b"), "name", "`a b` is not a name", "name: a-b"),
        (job(name="3"), "name", "`3` is not a name", "name: job-3"),
        (job(name="j-3k9"), "name", "`j-3k9` would be read as an id", "name: my-j-3k9"),
        (job(name="last"), "name", "`last` would be read as an id", "name: my-last"),
        (job(where="a == b"), "where", "`a == b` where a list of texts is expected", 'where: ["'),
        (job(where=["a = b"]), "where[0]", "rule `a = b`, column 3: `=` means nothing here", "write it like"),
        (job(needs="a"), "needs", "`a` is not a list", "needs: [a]"),
        (job(needs=[{"on": "always"}]), "needs[0]", "a need without `job`", "{job: build"),
        (job(needs=[{"job": "a", "on": "healthy"}]), "needs[0].on", "`on: healthy` is not supported", "leave"),
        (job(needs=["a", "a"]), "needs[1]", "`a` is needed twice", "leave one out"),
        (job(needs=["a/3"]), "needs[0]", "`a/3` names no job", "needs: ["),
        (job(needs=["build"]), "needs", "jobs need each other in a circle: build -> build", "take build out"),
        ({"jobs": []}, "jobs", "`jobs` is empty", "jobs: [{"),
        ({"jobs": {"a": {}}}, "jobs", "`jobs` is a mapping, not a list", "jobs: [{"),
        ({"jobs": ["make"]}, "jobs[0]", "`make` is not a job", "- {name"),
        ({"env": {}, "jobs": [job()]}, "env", "`env` stands beside `jobs`", "defaults: {env:"),
        ({"run": "x", "jobs": [job()]}, "run", "`run` stands beside `jobs`", "move it into a job"),
        ({"defaults": {"run": "x"}, "jobs": [job()]}, "defaults.run", "`run` belongs to one job", "move it"),
        ({"jobs": [job(), job()]}, "jobs[1].name", "two jobs are called `build`", "name: build-2"),
        ({"run": "x" * (121 << 10)}, "run", "a text of 123904 bytes", "keep scripts"),
        ({"run": "ü" * (61 << 10)}, "run", "a text of 124928 bytes", "keep scripts"),
        ({"command": ["x" * (100 << 10)] * 3}, "", "the job takes 307", "keep scripts"),
        (job(limits={"output": "0B"}), "limits.output", "`0B` is too small", "write 1MiB"),
        (job(needs=["last"]), "needs[0]", "`last` names no job", "needs: ["),
        (job(needs=["s-3k9"]), "needs[0]", "`s-3k9` names no job", "needs: ["),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_placed_and_mended(
    document: object, where: str, message: str, fix: str
) -> None:
    found = problem(document)
    assert found.where == where
    assert found.message.startswith(message)
    assert fix in found.fix


def test_everything_wrong_is_told_at_once_up_to_twenty() -> None:
    found = problems({"jobs": [job(name="a", count=0, priority=-1), job(name="b", xyz=1)]})
    assert [each.where for each in found] == ["jobs[0].count", "jobs[0].priority", "jobs[1].xyz"]
    many = problems({"jobs": [job(name=f"a{n}", count=0) for n in range(100)]})
    assert len(many) == MOST_PROBLEMS


def test_with_places_the_line_is_told_and_the_field_named() -> None:
    class Numbered:
        def find(self, path: tuple[str | int, ...], key: bool = False) -> str:
            return f"ci.yaml:{len(path)}:{int(key)}"

    found = read_submission({"jobs": [job(resources={"cpu": -1}), job(name="x", foo=1)]}, Numbered())
    assert isinstance(found, list)
    assert (found[0].where, found[0].message) == ("ci.yaml:4:0", "resources.cpu: `-1` is negative")
    assert (found[1].where, found[1].message) == ("ci.yaml:3:1", "a job has no field `foo`")


def test_a_circle_of_needs_is_printed() -> None:
    chain = [job(name=a, needs=[b]) for a, b in ("ab", "bc", "cd", "db")]
    found = problem({"jobs": chain})
    assert found.code == "cycle" and found.message.endswith("b -> c -> d -> b")
    assert found.where == "jobs[1].needs" and found.fix == "take c out of the needs of b"


def test_a_long_chain_of_needs_is_no_circle_and_costs_no_stack() -> None:
    size = 5000
    edges = [[n + 1] for n in range(size - 1)]
    assert find_cycle([*edges, []]) is None
    assert find_cycle([*edges, [0]]) == list(range(size))
    assert find_cycle([[1, 2], [2], []]) is None


def test_a_need_that_is_not_in_the_file_is_an_older_job_unless_somebody_knows_better() -> None:
    document = {"jobs": [job(name="compile"), job(name="x", needs=["complie", "j-3k9", "ci/old"])]}
    assert [need.job for need in specs(document)[1].needs] == ["complie", "j-3k9", "ci/old"]
    asked: list[str] = []

    def known(name: str) -> bool:
        asked.append(name)
        return name != "complie"

    found = read_submission(document, known=known)
    assert isinstance(found, list) and len(found) == 1
    assert (found[0].code, found[0].why) == ("unknown_job", "did you mean `compile`?")
    assert asked == ["complie", "j-3k9", "ci/old"]


names = st.sampled_from(
    [*FIELDS, *FILE, *LIMITS, *RETRIES, "on", "job", "cpu", "memory", "hold", "matrix", "x"]
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=20),
    st.text(st.characters(categories=["Cs", "Cc"]), max_size=3),
    st.sampled_from(
        ["1h", "4GiB", "a == b", "action", "exclusive", "always", "build", "500m", Number("3.10")]
    ),
)
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(names, st.text(max_size=5)), inner, max_size=6)
    ),
    max_leaves=25,
)


@settings(max_examples=150)
@given(
    st.one_of(
        documents, st.dictionaries(names, documents), st.fixed_dictionaries({"jobs": st.lists(documents)})
    )
)
def test_any_document_is_read_or_refused_and_never_raises(document: Any) -> None:
    found = read_submission(document)
    if isinstance(found, Submission):
        assert found.specs
        for spec in found.specs:
            assert decode_spec(encode_spec(spec)) == spec
            assert not isinstance(parse_selector(spec.name), Problem)
    else:
        assert 0 < len(found) <= MOST_PROBLEMS
        for each in found:
            assert each.message.isprintable() and each.why.isprintable() and each.fix.isprintable()
            assert each.where.isprintable()


@settings(max_examples=100)
@given(
    st.fixed_dictionaries(
        {"run": st.text(min_size=1)},
        optional={
            "env": st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True), st.text()),
            "count": st.integers(-1, 12),
            "resources": st.dictionaries(names, st.sampled_from([0, 1, 0.5, "2GiB", "-1", "x"]), max_size=3),
            "priority": st.integers(-1, 1001),
            "needs": st.lists(st.one_of(names, st.fixed_dictionaries({"job": names})), max_size=3),
        },
    )
)
def test_a_document_that_is_nearly_right_is_read_or_refused_too(document: Any) -> None:
    found = read_submission(document)
    if isinstance(found, Submission):
        (spec,) = found.specs
        assert decode_spec(encode_spec(spec)) == spec
