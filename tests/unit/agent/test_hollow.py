"""A hollow agent answers in the spans it was asked in, and costs nothing per instance."""

from __future__ import annotations

import gc
import sys

from tests.unit.agent.talk import Talk, settings

from fairlead.agent.hollow import HollowAgent
from fairlead.agent.words import Dropped, Exit, StopAsked
from fairlead.model.keys import Keys, one
from fairlead.model.lifecycles import Outcome
from fairlead.model.orders import Ack, Beat, Ended, Report, Reported, Start, What


def hollow() -> Talk:
    """A hollow agent in contact."""
    talk = Talk(HollowAgent(settings()))
    talk.step()
    talk.greet()
    talk.clear()
    return talk


def held(talk: Talk) -> list[tuple[int, int, int, int]]:
    """What a new session is told of."""
    talk.step(Dropped(talk.session))
    talk.later(10_000)
    talk.clear()
    talk.greet()
    spans = [span for report in talk.said(Report) for span in report.keys.spans()]
    assert sum(count for _, _, count, _ in spans) == talk.said(Reported)[0].count
    assert [span for ended in talk.said(Ended) for span in ended.keys.spans()] == spans
    return spans


def test_a_start_is_answered_by_its_end_in_the_same_spans_and_one_frame() -> None:
    talk = hollow()
    keys = Keys([7, 9], [0, 40], [100, 2], [1, 3])
    effects = talk.say(Start(keys, ["a", "b"], [0, 0]))
    (ended,) = talk.said(Ended)
    assert (ended.keys, ended.term, ended.outcome) == (keys, [5, 5], [Outcome.succeeded] * 2)
    assert (ended.exit, ended.output) == ([0, 0], [0, 0])
    assert len(effects) == 1


def test_an_end_is_held_until_it_is_acknowledged_in_whatever_spans() -> None:
    talk = hollow()
    talk.say(Start(one(7, 0, 1, 100), ["a"], [0]))
    talk.say(Start(one(7, 100, 1, 100), ["a"], [0]))
    talk.say(Start(one(8, 0, 2, 10), ["b"], [0]))
    talk.say(Ack(one(7, 0, 1, 100), What.output))
    talk.say(Ack(one(7, 90, 1, 20), What.end))
    assert held(talk) == [(7, 0, 90, 1), (7, 110, 90, 1), (8, 0, 10, 2)]
    talk.say(Ack(one(8, 0, 1, 10), What.end))
    talk.say(Ack(Keys([7, 8], [0, 0], [200, 10], [1, 2]), What.end))
    assert held(talk) == []


def test_scattered_instances_are_acknowledged_in_any_order() -> None:
    talk = hollow()
    talk.say(Start(Keys([7] * 50, list(range(0, 100, 2)), [1] * 50, [1] * 50), ["a"] * 50, [0] * 50))
    talk.say(Ack(Keys([7] * 25, list(range(98, -2, -4)), [1] * 25, [1] * 25), What.end))
    assert held(talk) == [(7, index, 1, 1) for index in range(0, 100, 4)]


def test_a_hollow_agent_leaves_when_its_goodbye_is_heard() -> None:
    talk = hollow()
    talk.step(StopAsked(False))
    talk.say(Beat())
    assert talk.all(Exit)


def test_a_hundred_thousand_instances_leave_less_than_two_blocks_each() -> None:
    talk = hollow()
    starts = [
        Start(Keys([7] * 1_000, list(range(first, first + 2_000, 2)), [1] * 1_000, [1] * 1_000), *columns)
        for first in range(0, 200_000, 2_000)
        for columns in [(["a"] * 1_000, [0] * 1_000)]
    ]
    gc.collect()
    before = sys.getallocatedblocks()
    for start in starts:
        talk.say(start)
    gc.collect()
    assert sys.getallocatedblocks() - before < 2 * 100_000
    for start in starts:
        talk.say(Ack(start.keys, What.end))
    assert held(talk) == []
