"""What people type to name work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.base.ids import job_id, spell
from fairlead.model.errors import Problem
from fairlead.model.selectors import Selector, is_reserved, parse_selector


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("unit", Selector(name="unit")),
        ("last", Selector(name="last")),
        ("ci-1882", Selector(name="ci-1882")),
        ("ci/unit", Selector(submission="ci", name="unit")),
        ("unit/17", Selector(name="unit", first=17, last=17)),
        ("unit/3-9", Selector(name="unit", first=3, last=9)),
        ("ci/unit/0", Selector(submission="ci", name="unit", first=0, last=0)),
        (job_id(3689), Selector(job=3689)),
        (f"{job_id(7)}/3-9", Selector(job=7, first=3, last=9)),
        (f"s-{spell(12)}", Selector(number=12)),
        (f"s-{spell(12)}/unit", Selector(submission=f"s-{spell(12)}", name="unit")),
    ],
)
def test_a_name_is_taken_apart(text: str, meant: Selector) -> None:
    assert parse_selector(text) == meant


@pytest.mark.parametrize(
    "text",
    ["", "/", "a/", "/a", "17", "a//b", "a/b/c", "a/b/c/d", "a/9-3", "a/-1", "a/1-", "a b", "a/99999999",
     "unit/py=3.12", "ünit", "a\n", "s-3/4", "x" * 129],
)  # fmt: skip
def test_what_names_nothing_is_refused(text: str) -> None:
    found = parse_selector(text)
    assert isinstance(found, Problem), found


def test_ids_and_last_may_not_be_names() -> None:
    assert is_reserved("last") and is_reserved("j-3k9") and is_reserved("s-3k9")
    assert not is_reserved("job-3") and not is_reserved("last-one")


@given(st.text())
def test_any_text_is_a_selector_or_a_problem(text: str) -> None:
    found = parse_selector(text)
    assert isinstance(found, Problem) or found.whole or found.first <= found.last
