"""Gangs, preemption, and what may go before what."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.placement.worlds import asks, cluster

from fairlead.model.asks import Ask, Neighbours
from fairlead.placement.backfill import Promises, Wish, easy, estimate
from fairlead.placement.gangs import place_gang
from fairlead.placement.place import place
from fairlead.placement.preempt import Reclaimable, Runs, choose_victims
from fairlead.placement.table import AgentTable
from fairlead.placement.timeline import Timeline


def frees(table: AgentTable) -> list[list[int]]:
    return [column[: len(table)].tolist() for column in table.free]


def test_a_gang_is_placed_whole_or_leaves_no_trace() -> None:
    table = cluster({"cpu": 4000}, {"cpu": 4000, "gpu": 2000})
    leader, worker = table.intern(asks(cpu=1000)), table.intern(asks(cpu=1000, gpu=1000))
    before, version = frees(table), table.room_version
    assert place_gang(table, [(leader, 3), (worker, 3)]) is None
    assert frees(table) == before
    assert table.room_version == version
    seats = place_gang(table, [(leader, 3), (worker, 2)])
    assert seats is not None
    assert [sum(many for _, many in found) for found in seats] == [3, 2]


def test_a_gang_whose_members_keep_apart_needs_as_many_agents() -> None:
    table = cluster(*[{"cpu": 8000}] * 3)
    alone = Ask((("cpu", 1000),), labels=(("app", "x"),), apart=(Neighbours("app == x"),))
    assert place_gang(table, [(table.intern(alone), 4)]) is None
    seats = place_gang(table, [(table.intern(alone), 3)])
    assert seats is not None
    assert sorted(seats[0]) == [(1, 1), (2, 1), (3, 1)]


class Site:
    """A table with what runs on it."""

    def __init__(self, table: AgentTable) -> None:
        self.table = table
        self.held = Reclaimable(table)

    def run(
        self, key: int, number: int, priority: int, started: int = 0, protected: bool = False, **amounts: int
    ) -> None:
        shape = self.table.intern(asks(**amounts))
        self.table.take(shape, number, 1)
        self.held.start(number, Runs(key, shape, priority, started, protected))

    def victims(self, priority: int, **amounts: int) -> tuple[int, list[int]] | None:
        choice = choose_victims(self.held, self.table.intern(asks(**amounts)), priority, 100)
        return (choice.agent, [run.key for run in choice.victims]) if choice else None


def test_the_least_important_and_the_fewest_go() -> None:
    site = Site(cluster(*[{"cpu": 4000}] * 3))
    for key in range(4):
        site.run(key, 1, 10, cpu=1000)
    site.run(10, 2, 10, cpu=4000)
    site.run(20, 3, 50, cpu=4000)
    assert site.victims(100, cpu=3000) == (2, [10])
    assert site.victims(10, cpu=3000) is None
    assert site.victims(100, cpu=5000) is None


def test_of_two_equals_the_one_that_has_run_least_goes() -> None:
    site = Site(cluster({"cpu": 4000}))
    site.run(1, 1, 10, started=0, cpu=2000)
    site.run(2, 1, 10, started=90, cpu=2000)
    assert site.victims(100, cpu=2000) == (1, [2])


def test_what_is_protected_stays_and_a_larger_victim_spares_the_smaller_ones() -> None:
    site = Site(cluster({"cpu": 4000}, {"cpu": 4000}))
    site.run(1, 1, 10, protected=True, cpu=4000)
    site.run(2, 2, 10, started=50, cpu=1000)
    site.run(3, 2, 10, started=10, cpu=3000)
    assert site.victims(100, cpu=3000) == (2, [3])


def test_what_ended_is_no_victim() -> None:
    site = Site(cluster({"cpu": 4000}))
    site.run(1, 1, 10, cpu=2000)
    site.run(2, 1, 20, cpu=2000)
    site.held.end(1, 1)
    site.table.give(site.table.intern(asks(cpu=2000)), 1, 1)
    assert site.victims(100, cpu=4000) == (1, [2])


RUNNING = st.lists(
    st.tuples(st.integers(1, 12), st.sampled_from([10, 20, 50]), st.integers(1, 3), st.booleans()),
    max_size=40,
)


@given(RUNNING, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_the_agent_that_is_cleared_costs_the_lowest_priority_that_any_could(
    running: list[tuple[int, int, int, bool]], wanted: int
) -> None:
    site = Site(cluster(*[{"cpu": 8000}] * 12))
    shape = site.table.intern(asks(cpu=1000 * wanted))
    placed: list[tuple[int, int, int]] = []
    for key, (number, priority, cores, stays) in enumerate(running):
        if site.table.free[0][number - 1] >= 1000 * cores:
            site.run(key, number, priority, protected=stays, cpu=1000 * cores)
            if not stays:
                placed.append((number, priority, cores))
            choose_victims(site.held, shape, 30, 0)
    choice = choose_victims(site.held, shape, 30, 0)
    levels = []
    for number in range(1, 13):
        for level in (0, 10, 20):
            back = sum(cores for at, priority, cores in placed if at == number and priority <= level)
            if site.table.free[0][number - 1] + 1000 * back >= 1000 * wanted:
                levels.append(level)
                break
    assert (choice is None) == (not levels)
    if choice is not None:
        assert max((run.priority for run in choice.victims), default=0) == min(levels)
        for run in choice.victims:
            site.held.end(choice.agent, run.key)
            site.table.give(run.shape, choice.agent, 1)
        assert place(site.table, shape, 1, 1)


def test_a_lot_goes_before_a_blocked_one_only_if_that_changes_nothing_for_it() -> None:
    table = cluster({"cpu": 4000})
    small, large = table.intern(asks(cpu=1000)), table.intern(asks(cpu=4000))
    table.take(small, 1, 2)
    timeline = Timeline(table, 0)
    timeline.ends([(small, 1, 2, 100)])
    plan = easy(
        timeline,
        [Wish(1, large, 1, 50), Wish(2, small, 1, 100), Wish(3, small, 1, 101), Wish(4, small, 1, 60)],
    )
    assert [key for key, _ in plan.start] == [2, 4]
    assert [(key, booking.start) for key, booking in plan.promised] == [(1, 100)]


def test_beside_the_promised_room_even_endless_work_may_start() -> None:
    table = cluster({"cpu": 8000})
    small, large = table.intern(asks(cpu=1000)), table.intern(asks(cpu=5000))
    table.take(small, 1, 5)
    timeline = Timeline(table, 0)
    timeline.ends([(small, 1, 5, 100)])
    plan = easy(timeline, [Wish(1, large, 1, 0), *(Wish(key, small, 1, 0) for key in range(2, 7))])
    assert [key for key, _ in plan.start] == [2, 3, 4]


def test_an_estimate_is_a_range_from_usual_ends_to_limits() -> None:
    table = cluster({"cpu": 1000})
    shape = table.intern(asks(cpu=1000))
    table.take(shape, 1, 1)
    usual, limits = Timeline(table, 0), Timeline(table, 0)
    usual.ends([(shape, 1, 1, 30)])
    limits.ends([(shape, 1, 1, 100)])
    found = estimate(usual, limits, [Wish(1, shape, 1, 100), Wish(2, shape, 1, 100)], [10, 10])
    assert found == [(30, 100), (40, 200)]


JOBS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 4), st.integers(1, 40), st.integers(0, 40)),
    min_size=1,
    max_size=20,
)


@given(JOBS)
@settings(max_examples=60, deadline=None)
def test_nobody_starts_later_than_was_promised(jobs: list[tuple[int, int, int, int]]) -> None:
    table = cluster(*[{"cpu": 1000}] * 4)
    shape = table.intern(asks(cpu=1000))
    promises = Promises(Timeline(table, 0))
    coming = sorted((at, key, size, run, run + more) for key, (at, size, run, more) in enumerate(jobs))
    told: dict[int, int] = {}
    started: dict[int, int] = {}
    ends: dict[int, int] = {}
    runs = {key: run for _, key, _, run, _ in coming}
    sizes = {key: size for _, key, size, _, _ in coming}
    for now in range(3000):
        for key in [key for key, end in ends.items() if end == now]:
            del ends[key]
            promises.ended(key, now)
        while coming and coming[0][0] == now:
            _, key, size, _, limit = coming.pop(0)
            start = promises.submit(Wish(key, shape, size, limit), now)
            assert start is not None
            told[key] = start
        for key, _ in promises.due(now):
            started[key] = now
            ends[key] = now + runs[key]
        assert sum(sizes[key] for key in ends) <= 4
    assert started.keys() == told.keys()
    assert all(started[key] <= told[key] for key in told)


def test_room_given_back_by_an_agent_is_filled_again() -> None:
    table = cluster({"cpu": 2000})
    shape = table.intern(asks(cpu=1000))
    assert place(table, shape, 5, 5) == [(1, 2)]
    table.give(shape, 1, 1)
    assert place(table, shape, 5, 5) == [(1, 1)]
