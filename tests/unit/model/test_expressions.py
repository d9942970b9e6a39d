"""Formulas of policies: what they compute, and what is said of broken ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import Problem
from fairlead.model.expressions import compute, parse_expression
from fairlead.model.policies import Policy, flaw_of, score_formula
from fairlead.placement.columns import COLUMNS

NAMES = ("a", "b", "free.cpu")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / 2", 3),
        ("7 % 4 - 10", -7),
        ("a / b", 0),
        ("a % b", 0),
        ("-a - -a", 0),
        ("10 - 3 - 2", 5),
        ("min(a, 3, 9) + max(b, 2)", 5),
        ("free.cpu * 2", 8000),
        ("min(a)", 5),
    ],
)
def test_a_formula_has_its_value(text: str, value: int) -> None:
    formula = parse_expression(text, NAMES)
    assert not isinstance(formula, Problem)
    assert compute(formula, {"a": 5, "b": 0, "free.cpu": 4000}) == value


@pytest.mark.parametrize(
    ("text", "column"),
    [("", 1), ("1 +", 4), ("(1", 3), ("1 2", 3), ("cpu", 1), ("a $ b", 3), ("min(", 5), ("a, b", 2)],
)
def test_a_broken_formula_is_answered_with_its_column(text: str, column: int) -> None:
    problem = parse_expression(text, NAMES)
    assert isinstance(problem, Problem)
    assert f"column {column}:" in problem.message


TEXTS = st.recursive(
    st.one_of(st.integers(0, 9).map(str), st.sampled_from(["a", "b"])),
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from("+-*/%"), part).map(lambda each: f"({' '.join(each)})"),
        st.tuples(st.sampled_from(["min", "max"]), part, part).map(lambda each: f"{each[0]}({each[1]}, {each[2]})"),
        part.map(lambda each: f"-{each}"),
    ),
    max_leaves=8,
)  # fmt: skip


@given(TEXTS, st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=5))
def test_a_formula_computes_columns_as_it_computes_numbers(text: str, rows: list[tuple[int, int]]) -> None:
    formula = parse_expression(text, NAMES)
    assert not isinstance(formula, Problem)
    columns = {name: np.array([row[at] for row in rows], np.int64) for at, name in enumerate("ab")}
    one_by_one = [compute(formula, {"a": a, "b": b}) for a, b in rows]
    assert np.broadcast_to(compute(formula, columns, COLUMNS), len(rows)).tolist() == one_by_one


@given(st.text(max_size=60))
def test_arbitrary_text_never_raises(text: str) -> None:
    parse_expression(text, NAMES)


def test_a_policy_with_an_unknown_scorer_or_name_is_refused_with_what_was_meant() -> None:
    assert (
        flaw_of(Policy("mine", (("pack", 2), ("load", 1)), score="free.cpu - ask.cpu", order="priority"))
        is None
    )
    unknown = flaw_of(Policy("mine", (("spraed", 1),)))
    assert unknown is not None
    assert unknown.fix == "spread"
    heavy = flaw_of(Policy("mine", (("spread", 1000),)))
    assert heavy is not None
    misnamed = flaw_of(Policy("mine", order="priorty"))
    assert misnamed is not None
    assert misnamed.fix == "priority"
    assert isinstance(score_formula("fre.cpu"), Problem)
