"""Reservations against a plain table: who is kept for what, and the room that goes with it."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.wall import Shape
from fairlead.placement.runs import runs
from fairlead.placement.table import AgentTable
from fairlead.scheduler.reservations import Reservations, spans_of

SHAPE = Shape((("cpu", 1000),))


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 9))
def test_runs_are_the_stretches_of_true(bits: list[bool], first: int) -> None:
    found = runs(np.array(bits), first)
    indices = [index for start, count in found for index in range(start, start + count)]
    assert indices == [first + at for at, bit in enumerate(bits) if bit]
    assert all(b[0] > a[0] + a[1] for a, b in itertools.pairwise(found))


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 3)), unique_by=lambda pair: pair[0], max_size=20)
)
def test_spans_cut_where_index_or_attempt_breaks(pairs: list[tuple[int, int]]) -> None:
    pairs = sorted(pairs)
    indices = np.array([index for index, _ in pairs], np.intp)
    attempts = np.array([attempt for _, attempt in pairs], np.uint16)
    told = [(i, a) for first, count, a in spans_of(indices, attempts) for i in range(first, first + count)]
    assert told == pairs


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(1, 4), st.integers(1, 3)), max_size=12))
def test_room_is_what_is_not_kept(taken: list[tuple[int, int, int]]) -> None:
    table = AgentTable()
    for agent in (1, 2, 3):
        table.set_agent(agent, {"cpu": 100_000}, {})
    shape = table.intern(SHAPE)
    kept = Reservations(table)
    book = kept.book(7, shape, "spec", 0)
    plain: dict[int, int] = {}
    for first, count, agent in taken:
        span = list(range(first, first + count))
        if any(index in plain for index in span):
            continue
        table.take(shape, agent, count)
        kept.reserve(book, 7, (first, count, 1), agent, term=1)
        plain.update(dict.fromkeys(span, agent))
    for agent in (1, 2, 3):
        mine = sorted(index for index, who in plain.items() if who == agent)
        assert sum(kept.holds.get(agent, {}).values()) == len(mine)
        assert [i for _, _, found in kept.held_by(agent) for i in found.tolist()] == mine
        for run in book.matching(agent, 0, 40, 1):
            kept.release(7, agent, run)
    assert not kept.holds
    assert all(int(table.free[0][row]) == 100_000 for row in range(3))
    kept.forget(7)
    assert not kept.books


def test_what_is_held_by_another_or_in_another_attempt_does_not_match() -> None:
    table = AgentTable()
    kept = Reservations(table)
    book = kept.book(7, table.intern(SHAPE), "spec", 0)
    kept.reserve(book, 7, (0, 4, 2), agent=1, term=1)
    assert book.matching(1, 0, 4, 2) == [(0, 4)]
    assert book.matching(1, 2, 100, 2) == [(2, 2)]
    assert book.matching(2, 0, 4, 2) == []
    assert book.matching(1, 0, 4, 1) == []
    assert book.matching(1, -3, 2, 2) == []
    assert book.matching(1, 900, 5, 2) == []
