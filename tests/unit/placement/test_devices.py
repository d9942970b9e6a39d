"""Which GPUs an instance gets."""

from __future__ import annotations

from tests.unit.placement.worlds import asks, cluster

from fairlead.model.policies import GPU_PACK
from fairlead.placement.place import place


def free(table: object, row: int = 0) -> list[int]:
    devices: list[int] = table.devices.free[row].tolist()  # type: ignore[attr-defined]
    return devices


def test_a_share_goes_to_the_tightest_device_that_holds_it() -> None:
    table = cluster({"cpu": 9000, "gpu": 3000})
    for share in (300, 800, 600, 300):
        assert place(table, table.intern(asks(gpu=share)), 1, 1) == [(1, 1)]
    # 300; 800 does not fit beside it; 600 does; the last 300 finds 200 and 100 too little.
    assert free(table) == [100, 200, 700]


def test_whole_devices_are_taken_whole_and_given_back_as_they_were() -> None:
    table = cluster({"cpu": 9000, "gpu": 4000})
    share, pair = table.intern(asks(gpu=500)), table.intern(asks(gpu=2000))
    assert place(table, share, 1, 1) == [(1, 1)]
    assert place(table, pair, 3, 3) == [(1, 1)]
    assert free(table) == [500, 0, 0, 1000]
    assert place(table, table.intern(asks(gpu=1000)), 3, 3) == [(1, 1)]
    table.give(pair, 1, 1)
    assert free(table) == [500, 1000, 1000, 0]


def test_more_than_one_is_rounded_up_to_whole_devices() -> None:
    table = cluster({"cpu": 9000, "gpu": 4000})
    shape = table.intern(asks(gpu=1500))
    assert place(table, shape, 9, 9) == [(1, 2)]
    assert free(table) == [0, 0, 0, 0]


def test_an_agent_that_comes_back_with_fewer_devices_owes_what_runs_on_them() -> None:
    table = cluster({"cpu": 9000, "gpu": 2000})
    shape = table.intern(asks(gpu=1000))
    assert place(table, shape, 2, 2) == [(1, 2)]
    table.set_agent(1, {"cpu": 9000, "gpu": 1000}, {})
    assert free(table) == [0, -1000]
    table.give(shape, 1, 1)
    assert place(table, shape, 1, 1) == []
    table.give(shape, 1, 1)
    assert place(table, shape, 2, 2) == [(1, 1)]


def test_the_gpu_policy_keeps_whole_devices_for_the_work_that_needs_them() -> None:
    table = cluster({"cpu": 9000, "gpu": 2000}, {"cpu": 9000, "gpu": 2000}, policy=GPU_PACK)
    assert table.states is not None
    whole, share = asks(cpu=100, gpu=2000), asks(cpu=100, gpu=500)
    table.states.expect([(whole, 0.5), (share, 0.5)])
    for _ in range(4):
        assert place(table, table.intern(share), 1, 1) == [(1, 1)]
    assert place(table, table.intern(whole), 2, 2) == [(2, 1)]
