from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.intake import Ledger

A = (1, 0, 1, 1, 0)
B = (1, 1, 1, 1, 0)


def upto(ledger: Ledger, stream: tuple[int, int, int, int, int] = A) -> int:
    return ledger.acknowledge([stream]).offset[0]


def test_what_is_stored_in_a_row_is_acknowledged() -> None:
    ledger = Ledger()
    ledger.heard(A, 0)
    ledger.stored(A, 0, 10)
    ledger.stored(A, 10, 30)
    assert upto(ledger) == 30


def test_nothing_is_acknowledged_before_it_is_stored() -> None:
    ledger = Ledger()
    ledger.heard(A, 0)
    assert upto(ledger) == 0


def test_a_hole_stops_the_acknowledgement_until_it_is_filled() -> None:
    ledger = Ledger()
    ledger.heard(A, 0)
    ledger.stored(A, 0, 10)
    ledger.stored(A, 20, 30)
    assert upto(ledger) == 10
    assert ledger.holes([A, B]) == [(A, 10, 20)]
    ledger.stored(A, 10, 20)
    assert upto(ledger) == 30
    assert ledger.holes([A]) == []


def test_an_agent_that_comes_from_another_front_vouches_for_what_it_sent_there() -> None:
    ledger = Ledger()
    ledger.heard(A, 500)
    ledger.stored(A, 500, 600)
    assert upto(ledger) == 600


def test_an_agent_that_begins_lower_takes_back_its_word() -> None:
    ledger = Ledger()
    ledger.heard(A, 500)
    ledger.stored(A, 500, 600)
    ledger.heard(A, 0)
    ledger.stored(A, 0, 100)
    assert upto(ledger) == 100
    ledger.stored(A, 100, 500)
    assert upto(ledger) == 600


def test_repeats_and_overlaps_change_nothing() -> None:
    ledger = Ledger()
    ledger.heard(A, 0)
    for start, end in ((0, 10), (0, 10), (5, 12), (2, 4), (12, 20)):
        ledger.heard(A, start)
        ledger.stored(A, start, end)
    assert upto(ledger) == 20


def test_a_whole_stream_is_forgotten_once_it_is_acknowledged() -> None:
    ledger = Ledger()
    ledger.heard(A, 0)
    ledger.stored(A, 0, 10, last=True)
    assert ledger.acknowledge([A, A]).offset == [11]
    ledger.forget([A])
    assert len(ledger) == 0


def test_all_bytes_are_told_apart_from_all_bytes_and_the_end() -> None:
    ledger = Ledger()
    ledger.heard(A, 0)
    ledger.stored(A, 0, 10)
    assert upto(ledger) == 10
    ledger.stored(A, 10, 10, last=True)
    assert upto(ledger) == 11


def test_an_empty_stream_is_whole_at_once() -> None:
    ledger = Ledger()
    ledger.heard(A, 0)
    ledger.stored(A, 0, 0, last=True)
    assert upto(ledger) == 1
    ledger.forget([A])
    assert len(ledger) == 0


def test_the_end_behind_a_hole_does_not_make_a_stream_whole() -> None:
    ledger = Ledger()
    ledger.heard(A, 0)
    ledger.stored(A, 10, 20, last=True)
    assert upto(ledger) == 0
    ledger.forget([A])
    assert len(ledger) == 1


def test_streams_of_agents_that_left_push_each_other_out() -> None:
    ledger = Ledger(most=2)
    for job in range(5):
        ledger.heard((job, 0, 1, 1, 0), 0)
    assert len(ledger) == 2


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=30))
def test_only_bytes_that_are_stored_with_all_before_them_are_acknowledged(
    pieces: list[tuple[int, int]],
) -> None:
    ledger = Ledger()
    ledger.heard(A, 0)
    held: set[int] = set()
    for start, length in pieces:
        ledger.heard(A, start)
        ledger.stored(A, start, start + length)
        held.update(range(start, start + length))
        whole = next(byte for byte in range(60) if byte not in held)
        assert upto(ledger) == whole
