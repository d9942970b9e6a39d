"""The engine's verb: who gets a lot, and who is left out."""

from __future__ import annotations

import pytest
from tests.unit.placement.worlds import GIB, asks, cluster

from fairlead.model.asks import Ask, Prefer
from fairlead.model.policies import PACK, SPREAD, Policy
from fairlead.model.wall import Shape
from fairlead.placement.place import explain, place
from fairlead.placement.table import MOST_SHAPES, AgentTable

FOUR = [{"cpu": 4000}] * 4


def test_a_lot_fills_the_fullest_agent_first_and_the_lowest_number_among_equals() -> None:
    table = cluster(*FOUR)
    shape = table.intern(asks(cpu=1000))
    table.take(shape, 3, 1)
    assert place(table, shape, 8, 10) == [(3, 3), (1, 4), (2, 1)]


def test_spread_takes_turns_and_ends_with_the_last_free_room() -> None:
    table = cluster(*FOUR, policy=SPREAD)
    shape = table.intern(asks(cpu=1000))
    assert place(table, shape, 6, 10) == [(1, 2), (2, 2), (3, 1), (4, 1)]
    assert place(table, shape, 99, 10) == [(3, 3), (4, 3), (1, 2), (2, 2)]
    assert place(table, shape, 1, 1) == []


def test_no_more_rows_are_chosen_than_allowed() -> None:
    for policy in (PACK, SPREAD):
        table = cluster(*FOUR, policy=policy)
        assert len(place(table, table.intern(asks(cpu=1000)), 100, 2)) == 2


def test_agents_that_joined_in_any_order_are_taken_by_number() -> None:
    table = AgentTable()
    for number in (7, 3, 5, 1):
        table.set_agent(number, {"cpu": 1000}, {})
        table.set_open(number, True)
    shape = table.intern(Shape((("cpu", 1000),)))
    assert [agent for agent, _ in place(table, shape, 3, 9)] == [1, 3, 5]
    table.set_agent(2, {"cpu": 1000}, {})
    table.set_open(2, True)
    assert [agent for agent, _ in place(table, shape, 3, 9)] == [2, 7]


def test_who_refused_it_is_left_out_and_who_lost_it_comes_last() -> None:
    table = cluster(*[{"cpu": 2000}] * 3)
    shape = table.intern(asks(cpu=1000))
    assert place(table, shape, 9, 9, shunned=[2], last=1) == [(3, 2), (1, 2)]
    assert place(table, shape, 9, 9, last=3) == [(2, 2)]


def test_only_candidates_are_taken_where_some_are_named() -> None:
    table = cluster(*FOUR)
    shape = table.intern(asks(cpu=1000))
    assert place(table, shape, 9, 9, among=[2, 99]) == [(2, 4)]
    assert place(table, shape, 9, 9, among=[]) == []


def test_where_it_ran_well_it_runs_again_if_there_is_room_now() -> None:
    table = cluster(*FOUR)
    shape = table.intern(asks(cpu=1000))
    assert place(table, shape, 1, 9, warm=[4, 2, 3]) == [(4, 1)]
    assert place(table, shape, 9, 9, warm=[4, 2, 3]) == [(4, 3), (2, 4), (1, 2)]
    assert place(table, shape, 1, 9, warm=[4, 2]) == [(1, 1)]


def test_a_preference_outweighs_room_by_its_weight_and_never_excludes() -> None:
    table = cluster({"cpu": 4000}, {"cpu": 4000})
    table.set_agent(2, {"cpu": 4000}, {"disk": "ssd"})
    shape = table.intern(Ask((("cpu", 1000),), prefer=(Prefer("disk == ssd", 100),)))
    assert place(table, shape, 6, 9) == [(2, 4), (1, 2)]
    loath = table.intern(Ask((("cpu", 1000),), prefer=(Prefer("disk == ssd", -100),)))
    table.give(shape, 2, 4)
    assert place(table, loath, 1, 9) == [(1, 1)]


def test_a_busy_agent_is_avoided_where_measured_load_counts() -> None:
    table = cluster({"cpu": 4000}, {"cpu": 4000}, policy=Policy("calm", (("load", 2), ("pack", 1))))
    table.set_load(1, 900)
    assert place(table, table.intern(asks(cpu=1000)), 1, 1) == [(2, 1)]


def test_the_clusters_own_resource_bounds_a_lot() -> None:
    table = cluster(*FOUR)
    table.set_pool("licence", 3000)
    shape = table.intern(asks(cpu=100, licence=1000))
    assert sum(many for _, many in place(table, shape, 9, 9)) == 3
    table.give(shape, 1, 1)
    assert sum(many for _, many in place(table, shape, 9, 9)) == 1


def test_an_agent_ends_before_what_would_run_longer() -> None:
    table = cluster({"cpu": 4000}, {"cpu": 4000})
    table.set_agent(1, {"cpu": 4000}, {"name": "a1"}, ends_at=10_000)
    long, short = Ask((("cpu", 1000),), run_ms=9000), Ask((("cpu", 1000),), run_ms=8000)
    assert place(table, table.intern(long), 1, 1, now=1500) == [(2, 1)]
    assert place(table, table.intern(short), 1, 1, now=1500, among=[1]) == [(1, 1)]


def test_work_on_an_agent_that_is_not_known_yet_is_owed() -> None:
    table = cluster({"cpu": 4000})
    shape = table.intern(asks(cpu=1000))
    table.take(shape, 9, 2)
    table.set_agent(9, {"cpu": 3000}, {})
    table.set_open(9, True)
    assert explain(table, shape, {}).fits == 5
    assert place(table, shape, 9, 9) == [(9, 1), (1, 4)]


@pytest.mark.parametrize("amount", [1 << 40, (1 << 53) - 1])
def test_very_large_amounts_are_exact(amount: int) -> None:
    table = cluster({"memory": amount}, {"memory": amount - 1})
    assert place(table, table.intern(asks(memory=amount)), 2, 2) == [(1, 1)]
    assert place(table, table.intern(asks(memory=amount - 1)), 2, 2) == [(2, 1)]


def test_lots_that_all_differ_are_placed_and_the_memory_of_shapes_is_bounded() -> None:
    table = cluster({"cpu": 1 << 30, "memory": 1 << 50})
    for at in range(MOST_SHAPES + 50):
        assert place(table, table.intern(asks(cpu=1, memory=GIB + at)), 1, 1)
    assert len(table._shapes) <= MOST_SHAPES
