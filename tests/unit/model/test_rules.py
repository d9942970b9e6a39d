"""Rules over labels: what they say, and how a broken one is answered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import Problem
from fairlead.model.rules import DEEPEST_RULE, LONGEST_RULE, MOST_VALUES, matches, parse_rule

EU = {"region": "eu", "arch": "x86_64", "zone": "a-1", "spot": "true", "old": "false", "note": "two words"}


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("region == eu", True),
        ("region == us", False),
        ("region != eu", False),
        ("region != us", True),
        ("missing != x", True),
        ("missing == x", False),
        ("arch in (x86_64, arm64)", True),
        ("arch in (arm64)", False),
        ("arch not in (arm64)", True),
        ("missing not in (a)", True),
        ("spot", True),
        ("not spot", False),
        ("old", False),
        ("not old", True),
        ("old exists", True),
        ("missing", False),
        ("missing exists", False),
        ("not missing exists", True),
        ('note == "two words"', True),
        ("note == 'two words'", True),
        ("zone==a-1", True),
        ("region == us or arch == x86_64", True),
        ("region == eu and arch == arm64", False),
        ("region == us and spot or arch == x86_64", True),
        ("region == us and (spot or arch == x86_64)", False),
        ("not (region == us or old)", True),
        ("not not spot", True),
        ('region == "and"', False),
        ("zone in (a-1 , b.2,c:3)", True),
    ],
)
def test_a_rule_says_whether_labels_meet_it(text: str, met: bool) -> None:
    rule = parse_rule(text)
    assert not isinstance(rule, Problem), rule
    assert matches(rule, EU) is met


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("   ", 1),
        ("region = eu", 8),
        ("region == ", 10),
        ("region == and", 11),
        ("== eu", 1),
        ("7 == eu", 1),
        ("arch in x86", 9),
        ("arch in (x86", 13),
        ("arch in (x86 arm)", 14),
        ("arch in ()", 10),
        ("arch not (a)", 10),
        ("(spot", 6),
        ("spot)", 5),
        ("spot spot", 6),
        ("spot and", 9),
        ("cores > four", 9),
        ("zone == a*", 10),
        ('note == "two', 9),
        ("a && b", 3),
    ],
)
def test_a_broken_rule_is_answered_with_its_column_and_a_way_out(text: str, column: int) -> None:
    found = parse_rule(text)
    assert isinstance(found, Problem)
    assert f"column {column}:" in found.message
    assert found.fix


@pytest.mark.parametrize(
    ("text", "met"),
    [("cores > 4", True), ("cores >= 8", True), ("cores < 8", False), ("cores <= 7", False), ("cores > -1", True),
     ("model > 4", False), ("none < 4", False), ("not none < 4", True)],
)  # fmt: skip
def test_whole_numbers_are_compared_and_anything_else_is_not(text: str, met: bool) -> None:
    rule = parse_rule(text)
    assert not isinstance(rule, Problem)
    assert matches(rule, {"cores": "8", "model": "A10"}) is met


def test_a_rule_is_bounded_in_length_depth_and_values() -> None:
    long = parse_rule("a" * (LONGEST_RULE + 1))
    deep = parse_rule("not " * (DEEPEST_RULE + 1) + "a")
    brackets = parse_rule("(" * 400 + "a" + ")" * 400)
    many = parse_rule("a in (" + ",".join("b" for _ in range(MOST_VALUES + 1)) + ")")
    for found in (long, deep, brackets, many):
        assert isinstance(found, Problem), found
    assert not isinstance(parse_rule("not " * (DEEPEST_RULE - 1) + "a"), Problem)


def test_equal_rules_are_equal_values_and_can_be_keys() -> None:
    assert parse_rule("a==b and not c") == parse_rule(" a == 'b'  and not c ")
    assert len({parse_rule("arch in (a, b)"), parse_rule("arch in (a,b)")}) == 1


@given(st.text(alphabet="ab =!()in,notexisdr\"'<>", max_size=40))
def test_any_text_is_a_rule_or_a_problem(text: str) -> None:
    rule = parse_rule(text)
    if not isinstance(rule, Problem):
        assert matches(rule, {"a": "b"}) in (True, False)


@given(st.text())
def test_arbitrary_text_never_raises(text: str) -> None:
    parse_rule(text)
