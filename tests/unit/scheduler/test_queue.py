"""The queue against a plain set: what waits is exactly what was offered and neither taken nor withdrawn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.wall import Offer, Shape
from fairlead.placement.table import AgentTable
from fairlead.scheduler.queue import Lot, Queue

SHAPE = Shape((("cpu", 1000),))
SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=6)


def apart(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that do not overlap."""
    at, placed = 0, []
    for gap, count in spans:
        placed.append((at + gap, count))
        at += gap + count
    return placed


def offer(job: int, spans: list[tuple[int, int]], priority: int = 100, arrival: int = 0) -> Offer:
    return Offer(
        job,
        SHAPE,
        "spec",
        1,
        [first for first, _ in spans],
        [count for _, count in spans],
        priority,
        arrival,
        0,
    )


@given(SPANS, SPANS, st.integers(0, 60))
def test_what_waits_is_what_was_offered_and_neither_taken_nor_withdrawn(
    offered: list[tuple[int, int]], withdrawn: list[tuple[int, int]], taken: int
) -> None:
    queue, table = Queue(), AgentTable()
    spans = apart(offered)
    lot = Lot(offer(1, spans), table.intern(SHAPE))
    queue.add(lot)
    waits = [index for first, count in spans for index in range(first, first + count)]
    assert queue.waiting == lot.total() == len(waits)
    for first, count in withdrawn:
        queue.withdraw(1, first, count)
        waits = [index for index in waits if not first <= index < first + count]
    assert queue.waiting == len(waits)
    many = min(taken, len(waits))
    got = [index for first, count in lot.take(many) for index in range(first, first + count)]
    queue.took(lot, many)
    assert got == waits[:many]
    assert queue.waiting == len(waits) - many
    assert bool(queue.by_job) == bool(queue.waiting)


def test_higher_priority_then_earlier_arrival_then_lower_job_goes_first() -> None:
    queue, table = Queue(), AgentTable()
    for job, priority, arrival in ((3, 100, 5), (2, 100, 5), (4, 100, 1), (5, 900, 9)):
        queue.add(Lot(offer(job, [(0, 1)], priority, arrival), table.intern(SHAPE)))
    order = []
    while heads := queue.heads(room_version=-2):
        lot = heads[0].heap[0][2]
        order.append(lot.offer.job)
        list(lot.take(1))
        queue.took(lot, 1)
    assert order == [5, 4, 2, 3]


def test_a_blocked_line_is_tried_again_when_room_changed_or_a_better_head_came() -> None:
    queue, table = Queue(), AgentTable()
    queue.add(Lot(offer(1, [(0, 1)]), table.intern(SHAPE)))
    (line,) = queue.heads(7)
    line.blocked_at = 7
    assert queue.heads(7) == []
    assert queue.heads(8) == [line]
    queue.add(Lot(offer(2, [(0, 1)], priority=900), table.intern(SHAPE)))
    assert queue.heads(7) == [line]
