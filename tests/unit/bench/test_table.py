from __future__ import annotations

from typing import Any

import msgspec
import pytest
from bench.run import document
from bench.table import Row, row, show

GOOD: dict[str, Any] = {
    "id": "S3",
    "what": "an array",
    "value": 200.0,
    "unit": "instances/s",
    "target": "value >= 100 and ratio >= 0.2",
    "reference": 400.0,
    "reference_name": "bare skeleton",
    "ratio": 0.5,
    "spread": (190.0, 210.0),
    "versions": {"python": "3.11"},
    "command": "fairlead bench S3",
}


def test_a_row_with_all_that_it_needs_is_taken() -> None:
    assert Row(**GOOD).met


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("reference", 0.0, "a reference"),
        ("reference_name", "", "a reference"),
        ("spread", (float("nan"), float("nan")), "a spread"),
        ("spread", (210.0, 220.0), "a spread"),
        ("versions", {}, "versions"),
        ("command", "", "the command"),
        ("ratio", 2.0, "a ratio"),
        ("target", "fast", "a target"),
        ("unit", "", "a unit"),
    ],
)
def test_a_row_that_lacks_something_is_rejected(field: str, value: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Row(**GOOD | {field: value})


@pytest.mark.parametrize("field", ["reference", "spread", "versions"])
def test_a_stored_row_without_a_field_is_rejected(field: str) -> None:
    stored = {name: value for name, value in GOOD.items() if name != field}
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert(stored, Row)


def test_a_row_is_the_median_of_its_repetitions_and_how_far_they_lie_apart() -> None:
    made = row("S6", "p50", [7.0, 5.0, 9.0], "ms", "value <= 8", ("a pipe", 2.0))
    assert (made.value, made.spread, made.ratio, made.runs, made.met) == (7.0, (5.0, 9.0), 3.5, 3, True)
    assert made.command == "fairlead bench S6"
    assert {"python", "kernel", "fairlead", "grpcio"} <= made.versions.keys()


def test_a_row_may_stand_for_the_worst_of_its_repetitions() -> None:
    made = row("S13", "a gap", [7.0, 5.0, 9.0], "s", "ratio <= 2", ("the lease", 5.0), pick=max)
    assert (made.value, made.spread, made.ratio) == (9.0, (5.0, 9.0), 1.8)


@pytest.mark.parametrize(
    ("target", "met"),
    [
        ("", None),
        ("value >= 200", True),
        ("value >= 200.5", False),
        ("ratio <= 0.5", True),
        ("value >= 100 and ratio >= 0.6", False),
    ],
)
def test_a_target_is_judged_by_value_and_ratio(target: str, met: bool | None) -> None:
    assert Row(**GOOD | {"target": target}).met is met


def test_the_table_names_value_spread_reference_and_verdict() -> None:
    text = show([Row(**GOOD), Row(**GOOD | {"target": "ratio >= 0.9"})])
    head, met, missed = text.splitlines()
    assert head.split()[:3] == ["id", "what", "value"]
    assert "190..210" in met
    assert "400 bare skeleton" in met
    assert met.endswith("met")
    assert missed.endswith("missed")


def test_a_row_for_programs_can_be_read_back() -> None:
    told = document(Row(**GOOD))
    assert told.pop("met") is True
    assert msgspec.convert(told, Row) == Row(**GOOD)
