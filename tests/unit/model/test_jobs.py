"""A job's body: the same bytes for the same job, and bounds that hold wherever it is decoded."""

from __future__ import annotations

import msgspec
import pytest

from fairlead.model.jobs import LARGEST_COUNT, LARGEST_SPEC, JobSpec, Need, decode_spec, encode_spec

FULL = JobSpec("unit", ["make"], env={"B": "2", "A": "1"}, count=9, needs=[Need("build", "always")])


def test_a_spec_is_read_back_as_it_was() -> None:
    assert decode_spec(encode_spec(FULL)) == FULL


def test_equal_specs_are_equal_bytes_whatever_the_order_they_were_written_in() -> None:
    other = JobSpec("unit", ["make"], env={"A": "1", "B": "2"}, count=9, needs=[Need("build", "always")])
    assert encode_spec(FULL) == encode_spec(other)


def test_the_default_ask_of_one_job_is_not_that_of_another() -> None:
    first = JobSpec("a", ["x"])
    first.ask["gpu"] = 1000
    assert JobSpec("b", ["x"]).ask == {"cpu": 1000}


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec("", ["x"]),
        JobSpec("a\n", ["x"]),
        JobSpec("a", []),
        JobSpec("a", ["x"], count=0),
        JobSpec("a", ["x"], count=LARGEST_COUNT + 1),
        JobSpec("a", ["x"], parallel=-1),
        JobSpec("a", ["x"], ask={"cpu": -1}),
        JobSpec("a", ["x"], priority=1001),
        JobSpec("a", ["x"], run_ms=-1),
        JobSpec("a", ["x"], grace_ms=86_400_001),
        JobSpec("a", ["x"], retry_job=1001),
        JobSpec("a", ["x" * LARGEST_SPEC]),
    ],
)
def test_a_body_out_of_bounds_is_not_decoded(spec: JobSpec) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_spec(encode_spec(spec))
