"""Who is next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.placement.order import MANY, Order, Tenants, Waiting

CPU = (("cpu", 1000),)


def lot(key: int, tenant: str = "a", **more: int) -> Waiting:
    return Waiting(key, tenant, CPU, 1, more.pop("arrival", key), **more)


def drained(order: Order, tenants: Tenants | None = None) -> list[int]:
    found = []
    while (lot := order.next()) is not None:
        found.append(lot.key)
        if tenants is not None:
            tenants.hold(lot.tenant, lot.amounts, lot.count)
    return found


def test_a_higher_priority_goes_first_and_then_who_came_first() -> None:
    order = Order(Tenants({"cpu": 10_000}))
    for each in (lot(1), lot(2, priority=200), lot(3, priority=200), lot(4, priority=50)):
        order.add(each)
    assert drained(order) == [2, 3, 1, 4]


def test_the_tenant_that_holds_least_goes_first_and_they_take_turns() -> None:
    tenants = Tenants({"cpu": 10_000})
    order = Order(tenants)
    for each in (lot(1), lot(2), lot(3), lot(4, "b"), lot(5, "b"), lot(6, "b")):
        order.add(each)
    assert drained(order, tenants) == [1, 4, 2, 5, 3, 6]


def test_a_tenant_with_twice_the_weight_gets_twice_as_much() -> None:
    tenants = Tenants({"cpu": 1_000_000})
    tenants.weights["a"] = 2000
    order = Order(tenants)
    for key in range(60):
        order.add(lot(key, "a" if key < 30 else "b"))
    first = drained(order, tenants)[:30]
    assert sum(key < 30 for key in first) == 20


def test_the_largest_part_of_any_resource_is_a_tenants_share() -> None:
    tenants = Tenants({"cpu": 1000, "memory": 1000})
    tenants.hold("a", (("cpu", 100), ("memory", 600)), 1)
    tenants.hold("b", (("cpu", 500), ("memory", 100)), 1)
    assert tenants.share("a") > tenants.share("b") > tenants.share("nobody") == 0


def test_less_slack_goes_before_arrival_within_a_tenant() -> None:
    order = Order(Tenants({"cpu": 1000}))
    for each in (lot(1), lot(2, deadline=1000, run_ms=100), lot(3, deadline=1000, run_ms=500)):
        order.add(each)
    assert drained(order) == [3, 2, 1]


def test_a_quota_counts_what_is_reserved_and_caps_priority_too() -> None:
    tenants = Tenants({"cpu": 100_000})
    tenants.quotas["a"] = {"cpu": 5000}
    tenants.highest["a"] = 10
    assert tenants.room("a", CPU) == 5
    tenants.hold("a", CPU, 4)
    assert tenants.room("a", CPU) == 1
    tenants.hold("a", CPU, -4)
    assert tenants.room("a", CPU) == 5
    assert tenants.room("b", CPU) == MANY
    assert tenants.priority(lot(1, priority=500)) == 10


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 5)), max_size=30))
def test_the_order_is_that_of_sorting_anew_every_time(lots: list[tuple[str, int, int]]) -> None:
    tenants = Tenants({"cpu": 50_000})
    order, left = Order(tenants), []
    for key, (tenant, priority, arrival) in enumerate(lots):
        left.append(lot(key, tenant, priority=priority, arrival=arrival))
        order.add(left[-1])
    while left:
        best = min(
            left,
            key=lambda each: (-each.priority, tenants.share(each.tenant), *_first(left, each), each.tenant),
        )
        found = order.next()
        assert found is not None
        assert (found.priority, found.arrival) == (best.priority, best.arrival)
        assert tenants.share(found.tenant) == tenants.share(best.tenant)
        left.remove(found)
        tenants.hold(found.tenant, found.amounts, 1)
    assert order.next() is None


def _first(left: list[Waiting], each: Waiting) -> tuple[int, int]:
    return (each.slack(), each.arrival)
