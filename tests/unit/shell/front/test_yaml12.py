"""YAML 1.2 and JSON become plain values, each with its place; what is broken is told with line and column."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import Problem
from fairlead.model.quantities import Number
from fairlead.model.submission import Submission, read_submission
from fairlead.shell.front import yaml12
from fairlead.shell.front.yaml12 import Loaded, load


@pytest.fixture(params=["libyaml", "python"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test runs with both parsers: which one a machine has must not be seen."""
    name = str(request.param)
    loader: Any = yaml.SafeLoader if name == "python" else getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    monkeypatch.setattr(yaml12, "_LOADER", loader)
    return name


def document(text: str | bytes, name: str = "ci.yaml") -> object:
    """What a sound text says."""
    found = load(text, name)
    assert isinstance(found, Loaded), found
    return found.document


def broken(text: str | bytes, name: str = "ci.yaml") -> Problem:
    """What is wrong with a text."""
    found = load(text, name)
    assert isinstance(found, Problem), found
    return found


def test_only_true_and_false_are_booleans() -> None:
    assert document("[true, false, yes, on, True, FALSE, n, 'true']") == [
        True, False, "yes", "on", "True", "FALSE", "n", "true",
    ]  # fmt: skip
    assert document("on: off") == {"on": "off"}


def test_a_number_keeps_how_it_was_written() -> None:
    found = document("[3.10, 0x1F, 0o17, 010, -1, +2, 1e3, .5, .inf, '3.10', 1_000, 12:30:45, 2026-12-01]")
    assert isinstance(found, list)
    written = "3.10 0x1F 0o17 010 -1 +2 1e3 .5 .inf 3.10 1_000 12:30:45 2026-12-01"
    assert " ".join(found) == written
    assert [type(each) is Number for each in found] == [True] * 9 + [False] * 4


def test_nothing_is_nothing() -> None:
    assert document("a:\nb: null\nc: ~\nd: ''") == {"a": None, "b": None, "c": None, "d": ""}


def test_every_value_and_key_has_its_line_and_column() -> None:
    found = load("name: ci\njobs:\n- name: a\n  resources: {cpu: 2,\n    memory: 4GiB}\n", "ci.yaml")
    assert isinstance(found, Loaded)
    find = found.places.find
    assert find(("name",)) == "ci.yaml:1:7" and find(("name",), key=True) == "ci.yaml:1:1"
    assert find(("jobs", 0)) == "ci.yaml:3:3"
    assert find(("jobs", 0, "resources", "memory")) == "ci.yaml:5:13"
    assert find(("jobs", 0, "resources", "memory"), key=True) == "ci.yaml:5:5"
    assert find(("jobs", 0, "resources", "disk")) == "ci.yaml:4:14"
    assert find(("elsewhere",)) == find(()) == "ci.yaml:1:1"


def test_what_an_alias_unfolds_to_stands_where_the_alias_does() -> None:
    found = load("a: &x {b: 1}\nc: *x\n", "ci.yaml")
    assert isinstance(found, Loaded) and found.document == {"a": {"b": "1"}, "c": {"b": "1"}}
    assert found.places.find(("c", "b")) == "ci.yaml:2:4"


def test_json_goes_through_with_places_tabs_and_escapes() -> None:
    text = '{\n\t"run": "a\\tb \\ud83d\\ude00 \\/",\n\t"count": 3.10,\n\t"x": [true, null]\n}'
    found = load(text, "job.json")
    assert isinstance(found, Loaded)
    assert found.document == {"run": "a\tb 😀 /", "count": "3.10", "x": [True, None]}
    assert found.places.find(("count",)) == "job.json:3:11"


def test_a_body_without_a_name_is_placed_by_path() -> None:
    found = load('{"run": "x", "count": 0}', "")
    assert isinstance(found, Loaded)
    (problem,) = read_all(found)
    assert problem.where == "count"
    assert broken('{"a": ', "").where == "line 1, column 7"
    assert broken('{"a": 1]', "").message.startswith("not JSON:")
    assert broken(b"\xff", "").where == "line 1, column 1"
    assert document("{a: 1}", "") == {"a": "1"}


def read_all(found: Loaded) -> list[Problem]:
    """The problems of a document."""
    read = read_submission(found.document, found.places)
    assert isinstance(read, list)
    return read


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("a: 1\nb: 2\na: 3", "3:1", "the key `a` stands twice"),
        ('{"a": 1, "a": 2}', "1:10", "the key `a` stands twice"),
        ("a:\n\tb: 1", "2:1", "a tab stands where blanks are expected"),
        ("a: *b", "1:4", "the alias `*b` stands for nothing"),
        ("a: &b [*b]", "1:8", "the alias `*b` stands for nothing"),
        ("a: 1\n---\nb: 2", "2:1", "a second document begins"),
        ("a: !!python/name:os.system x", "1:4", "the tag `tag:yaml.org,2002:python/name:os.system` means nothing"),
        ("run: {{ref}}", "1:7", "a key that is no text"),
        ("? [a]\n: b", "1:3", "a key that is no text"),
        ("a: \x07", "1:4", "the character U+0007 is not allowed"),
        ("ok: 1\na: \ud800", "2:4", "the character U+D800 is not allowed"),
        ("a: b: c", "1:5", "mapping values are not allowed"),
        ("[" * 500, "1:101", "nested too deep"),
        ("", "1:1", "the file is empty"),
        ("# nothing\n", "1:1", "the file is empty"),
        (b"a: 1\nb: \xff", "2:4", "byte 0xff is not UTF-8"),
    ],
)  # fmt: skip
def test_what_is_broken_is_told_with_its_place_and_a_command(
    text: str | bytes, where: str, message: str
) -> None:
    found = broken(text, "my ci.yaml")
    assert found.where == f"my ci.yaml:{where}"
    assert found.message.startswith(message)
    assert "'my ci.yaml'" in found.fix


def test_broken_json_is_told_as_json_only_where_json_was_meant() -> None:
    assert broken('{"a": 1,}', "x.json").message.startswith("not JSON:")
    assert document("{a: 1, b: [x]}", "x.yaml") == {"a": "1", "b": ["x"]}
    assert broken('{"a": NaN}', "x.json").message == "`NaN` is not a number"
    assert broken("[" * 200_000, "x.json").message == "nested too deep"


def test_aliases_may_not_unfold_to_more_than_a_file_could_hold() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n"
    for before, name in zip("abcdefghijk", "bcdefghijkl", strict=True):
        bomb += f"{name}: &{name} [{','.join('*' + before for _ in range(9))}]\n"
    assert broken(bomb).message == "too many values"
    wide = "a: &a [" + ",".join("x" * 1000) + "]\n" + "".join(f"b{n}: *a\n" for n in range(600))
    assert broken(wide).message == "too many values"


def test_a_file_may_not_hold_more_values_than_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml12, "MOST_VALUES", 100)
    assert broken("- a\n" * 100).where == "ci.yaml:100:3"
    assert document("- a\n" * 99) == ["a"] * 99


def test_a_file_that_is_too_large_is_not_read() -> None:
    assert broken("a" * (yaml12.LARGEST_FILE + 1)).code == "too_large"


def test_columns_count_letters_and_not_bytes() -> None:
    found = load("ä: {ö: 😀, b: 1}\n", "ci.yaml")
    assert isinstance(found, Loaded)
    assert found.places.find(("ä", "b")) == "ci.yaml:1:14"


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert document(b"\xef\xbb\xbfname: ci") == {"name": "ci"}
    assert document("\ufeffname: ci") == {"name": "ci"}


def test_both_errors_of_a_file_are_found_where_they_stand() -> None:
    found = load(
        "name: ci\njobs:\n- name: a\n  run: x\n  cont: 2\n- name: b\n  run: y\n  count: -1\n", "ci.yaml"
    )
    assert isinstance(found, Loaded)
    assert [(each.where, each.fix) for each in read_all(found)] == [
        ("ci.yaml:5:3", "count: 9"),
        ("ci.yaml:8:10", "write 1"),
    ]


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=15,
)


@given(values.filter(lambda value: isinstance(value, dict | list)), st.sampled_from([None, 1, "\t"]))
def test_any_json_is_read_as_json_reads_it(value: object, indent: int | str | None) -> None:
    assert as_json(document(json.dumps(value, indent=indent), "x.json")) == value


def as_json(value: object) -> object:
    """Numbers as numbers again."""
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    return json.loads(value) if isinstance(value, Number) else value


@given(st.one_of(st.text(), st.binary(), st.text(alphabet="ab:-[]{}&*!#|>'\" \n\t,?%@`~1.", max_size=60)))
def test_any_bytes_are_read_or_refused_and_what_was_read_is_judged(data: str | bytes) -> None:
    found = load(data, "x.yaml")
    if isinstance(found, Problem):
        assert found.where or found.code == "too_large"
        assert found.fix and found.message.isprintable()
    else:
        read = read_submission(found.document, found.places)
        assert isinstance(read, Submission) or all(each.where.startswith("x.yaml:") for each in read)
