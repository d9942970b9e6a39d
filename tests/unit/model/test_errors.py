"""A problem is three lines that people can act on."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import LONGEST_QUOTE, Problem, nearest, quote, render

ALL = Problem("unit", "`4G` has the unknown unit `G`", "a size is written 4GiB", "ci.yaml:4:9", "write 4GiB")


def test_a_problem_is_what_why_and_fix() -> None:
    assert render(ALL).splitlines() == [
        "error: ci.yaml:4:9: `4G` has the unknown unit `G`",
        "  why: a size is written 4GiB",
        "  fix: write 4GiB",
    ]
    assert render(Problem("busy", "too busy")) == "error: too busy"


def test_a_problem_crosses_the_wire_unchanged() -> None:
    assert msgspec.json.decode(msgspec.json.encode(ALL), type=Problem) == ALL


@given(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.booleans(), st.lists(st.integers())))
def test_a_quote_is_short_and_on_one_line(value: object) -> None:
    shown = quote(value)
    assert len(shown) <= LONGEST_QUOTE + 2
    assert shown.isprintable()


def test_a_quote_moves_no_cursor_and_says_what_is_no_text() -> None:
    assert quote("a\x1b[2Jb\nc") == "`a?[2Jb?c`"
    assert quote({"a": 1}) == "a mapping"
    assert quote([1]) == "a list"
    assert quote(10**5000) == "a number of more than 64 bits"
    assert quote(True) == "`true`"
    assert quote(None) == "nothing"


def test_the_nearest_known_word_is_offered_and_nothing_far() -> None:
    assert nearest("comand", ["command", "count"]) == "command"
    assert nearest("CPU", ["cpu"]) == "cpu"
    assert nearest("zzz", ["command"]) is None
    assert nearest("", []) is None
