from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tests.unit.shell.front.harness import MemoryControl, run, until

from fairlead.model import changes
from fairlead.model.changes import Part
from fairlead.model.keys import Keys
from fairlead.model.requests import LOOK_ROWS, Following
from fairlead.shell.front.waiting import Feed, places_of


class Cut(MemoryControl):
    """A control whose link breaks after each segment."""

    async def follow(self, since: int) -> AsyncIterator[Part | Following]:
        async for said in super().follow(since):
            yield said
            raise ConnectionResetError("cut")


def ended(job: int, index: int = 0, count: int = 1) -> changes.Closed:
    return changes.Closed(Keys([job], [index], [count], [0]), [3], [1])


def test_a_cut_link_is_followed_on_from_where_it_broke() -> None:
    async def work() -> None:
        control = Cut()
        for job in range(1, 4):
            control.tell(ended(job))
        feed = Feed(control)
        task = asyncio.create_task(feed.run())
        await until(lambda: feed.head == 3)
        task.cancel()
        assert control.followed[:3] == [1, 2, 3]
        assert [part.n for part in feed.parts] == [1, 2, 3]

    run(work)


def test_a_segment_that_is_told_twice_counts_once() -> None:
    feed = Feed(MemoryControl())
    part = MemoryControl().tell(ended(1))
    feed.hear(part)
    feed.hear(part)
    assert len(feed.parts) == 1


def test_a_bell_rings_for_its_instance_and_no_other() -> None:
    async def work() -> None:
        feed = Feed(MemoryControl())
        control = MemoryControl()
        mine, other, job, anything = (asyncio.Event() for _ in range(4))
        with (
            feed.listening([(1, 5)], mine),
            feed.listening([(1, 9), (2, 5)], other),
            feed.listening([(1, None)], job),
            feed.listening((), anything),
        ):
            feed.hear(control.tell(ended(1, 4, 3)))
            assert [bell.is_set() for bell in (mine, other, job, anything)] == [True, False, True, True]
            mine.clear()
            feed.hear(control.tell(ended(1, 0, 1_000_000)))
            assert mine.is_set() and other.is_set()
        assert not feed._jobs and not feed._instances and not feed._any

    run(work)


def test_a_jump_rings_everybody() -> None:
    async def work() -> None:
        feed = Feed(MemoryControl())
        bells = [asyncio.Event() for _ in range(3)]
        one, job, anything = bells
        with feed.listening([(1, 5)], one), feed.listening([(7, None)], job), feed.listening((), anything):
            feed.jump(90)
            assert all(bell.is_set() for bell in bells)
        assert (feed.head, feed.floor, feed.resyncs) == (89, 90, 1)

    run(work)


def test_an_item_says_what_to_listen_to() -> None:
    assert places_of({"id": "j-3/4", "job": "j-3", "index": 4}) == [(3, 4)]
    assert places_of({"id": "j-3", "name": "build"}) == [(3, None)]
    assert places_of({"id": "s-1", "jobs": ["j-1", {"id": "j-2"}]}) == [(1, None), (2, None)]
    assert places_of({"id": "s-1", "jobs": [f"j-{n % 9}" for n in range(LOOK_ROWS)]}) == []


def test_a_change_of_nothing_in_particular_rings_who_waits_for_anything() -> None:
    feed = Feed(MemoryControl())
    bell = asyncio.Event()
    with feed.listening((), bell):
        feed.hear(MemoryControl().tell(changes.TokenRevoked("t")))
        assert bell.is_set()
