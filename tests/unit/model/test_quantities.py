"""What people write for sizes, times and amounts, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model import quantities
from fairlead.model.errors import Problem
from fairlead.model.jobs import LARGEST_AMOUNT, LONGEST_MS
from fairlead.model.quantities import (
    DURATION,
    SIZE,
    Number,
    read_amount,
    read_cpu,
    read_duration,
    read_size,
    read_whole,
    show_amount,
    show_duration,
    show_held,
    show_size,
)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("4GiB", 4 << 30),
        ("512 MiB", 512 << 20),
        ("1.5GiB", 3 << 29),
        ("1TiB", 1 << 40),
        ("1kB", 1000),
        ("0.1kB", 100),
        ("20GB", 20 * 10**9),
        ("100B", 100),
        (" 7MB ", 7_000_000),
        ("0", 0),
        (0, 0),
        (Number("0"), 0),
    ],
)
def test_a_size_is_exact_bytes(written: object, size: int) -> None:
    assert read_size(written) == size


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("300ms", 300),
        ("10s", 10_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("1.5h", 5_400_000),
        ("0.1s", 100),
        ("1h30m", 5_400_000),
        ("1m 34s", 94_000),
        ("0", 0),
    ],
)
def test_a_duration_is_exact_milliseconds(written: object, ms: int) -> None:
    assert read_duration(written) == ms


@pytest.mark.parametrize(
    ("written", "millis"),
    [(2, 2000), (0.5, 500), ("500m", 500), (Number("0.1"), 100), ("1.250", 1250), (".5", 500), ("2.", 2000)],
)
def test_cores_are_exact_thousandths(written: object, millis: int) -> None:
    assert read_cpu(written) == millis


def test_a_decimal_that_floats_cannot_hold_is_still_exact() -> None:
    assert read_cpu(0.29) == 290
    assert read_amount(1.001) == 1001
    assert read_duration("0.29s") == 290
    assert read_size("8191.999TB") == 8_191_999_000_000_000


@pytest.mark.parametrize(
    ("read", "written", "code", "fix"),
    [
        (read_size, "-1GiB", "negative", "write 0"),
        (read_size, "4G", "unit", "write 4GiB"),
        (read_size, "4gb", "unit", "write 4GB"),
        (read_size, 4, "unit", "write it like 4GiB, 512MiB, 20GB or 100B"),
        (read_size, "4 parsecs", "unit", "write it like 4GiB, 512MiB, 20GB or 100B"),
        (read_size, "0.3B", "too_fine", "write fewer digits"),
        (read_size, "9000TiB", "too_large", "write 8191TiB"),
        (read_size, "", "not_a_quantity", ""),
        (read_size, ".", "not_a_quantity", ""),
        (read_size, "GiB", "not_a_quantity", ""),
        (read_size, "1e3MB", "not_a_quantity", ""),
        (read_size, "٤GiB", "not_a_quantity", ""),
        (read_size, "9" * 41 + "B", "not_a_quantity", ""),
        (read_size, None, "not_a_quantity", ""),
        (read_size, ["4GiB"], "not_a_quantity", ""),
        (read_size, True, "not_a_quantity", ""),
        (read_duration, 60, "unit", "write 60s"),
        (read_duration, "5 minutes", "unit", "write 5m"),
        (read_duration, "30m1h", "not_a_quantity", ""),
        (read_duration, "1h1h", "not_a_quantity", ""),
        (read_duration, "0.1ms", "too_fine", ""),
        (read_duration, "4000d", "too_large", "write 3650d"),
        (read_cpu, -1, "negative", "write 0"),
        (read_cpu, float("nan"), "not_a_quantity", ""),
        (read_cpu, float("inf"), "not_a_quantity", ""),
        (read_cpu, Number(".nan"), "not_a_quantity", ""),
        (read_cpu, 0.0001, "too_fine", ""),
        (read_cpu, 10**30, "not_a_quantity", ""),
        (read_cpu, 2_000_000, "too_large", "write 1000000"),
        (read_amount, "0.0001", "too_fine", ""),
    ],
)
def test_what_is_no_quantity_is_refused_with_the_value_and_a_way_out(
    read: object, written: object, code: str, fix: str
) -> None:
    found = read(written)  # type: ignore[operator]
    assert isinstance(found, Problem)
    assert found.code == code
    assert found.fix and fix in found.fix
    assert len(found.message) < 120


def test_a_whole_number_is_held_to_its_bounds() -> None:
    assert read_whole(Number("7"), 1, 9) == 7
    assert read_whole("7", 1, 9) == 7
    for value in (0, 10, "1.5", 2.0, True, None, "x", 10**400, "9" * 400):
        found = read_whole(value, 1, 9)
        assert isinstance(found, Problem) and found.fix, value
    assert read_whole(12, 1, 9) == Problem(
        "out_of_range", "12 is out of range", "allowed is a whole number from 1 to 9", fix="write 9"
    )


@given(st.integers(0, LARGEST_AMOUNT), st.sampled_from(sorted(SIZE.units)))
def test_every_size_in_a_unit_is_read_as_the_product(number: int, unit: str) -> None:
    product = number * SIZE.units[unit]
    found = read_size(f"{number}{unit}")
    assert found == product if product <= LARGEST_AMOUNT else isinstance(found, Problem)


@given(st.integers(0, 10**9))
def test_an_amount_that_is_shown_is_read_back_the_same(thousandths: int) -> None:
    assert read_amount(show_amount(thousandths)) == thousandths
    assert read_cpu(f"{thousandths}m") == thousandths


@given(st.integers(0, LONGEST_MS))
def test_a_duration_that_is_shown_is_read_back_within_its_second_unit(ms: int) -> None:
    read = read_duration(show_duration(ms))
    assert isinstance(read, int) and read <= ms
    assert ms - read <= (ms // 10 if ms >= 1000 else 0)


@given(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.booleans()))
def test_nothing_makes_a_reader_raise(value: object) -> None:
    for read in (read_size, read_duration, read_cpu, read_amount):
        found = read(value)
        assert isinstance(found, Problem) or 0 <= found


def test_quantities_are_shown_for_people() -> None:
    assert [show_size(n) for n in (0, 1023, 1024, 1536, 4 << 30, (1 << 20) - 1, 1 << 52)] == [
        "0 B",
        "1023 B",
        "1 KiB",
        "1.5 KiB",
        "4 GiB",
        "1 MiB",
        "4096 TiB",
    ]
    assert [show_duration(n) for n in (0, 300, 1500, 94_000, 7_200_000, 90_061_000)] == [
        "0ms",
        "300ms",
        "1.5s",
        "1m 34s",
        "2h",
        "1d 1h",
    ]


def test_every_slip_of_a_unit_leads_to_a_unit_that_exists() -> None:
    for kind in (SIZE, DURATION, quantities.CORES, quantities.PIECES):
        assert set(kind.slips.values()) <= set(kind.units)


def test_a_number_too_long_to_print_is_refused_like_any_other() -> None:
    for read in (read_size, read_duration, read_cpu, read_amount):
        found = read(10**5000)
        assert isinstance(found, Problem) and "64 bits" in found.message


def test_an_amount_that_stands_alone_says_of_what_it_is() -> None:
    told = [show_held(name, amount) for name, amount in (("gpu", 1000), ("cpu", 62_500), ("memory", 4 << 30))]
    assert told == ["1 gpu", "62.5 cpu", "4 GiB"]
