"""Whom an agent obeys, and when it looks for another."""

from __future__ import annotations

from tests.unit.agent.talk import BEAT, FENCE, NOTHING, Talk, settings, spec

from fairlead.agent.core import Agent
from fairlead.agent.words import (
    Dial,
    Dialled,
    Dropped,
    FenceKept,
    HangUp,
    Heard,
    KeepAddresses,
    KeeperLost,
    KeepFence,
    Say,
    Spawn,
)
from fairlead.model.keys import one
from fairlead.model.orders import (
    Beat,
    Frame,
    Hello,
    Load,
    Moved,
    Refused,
    Reported,
    Specs,
    Start,
    Welcome,
)
from fairlead.model.reasons import Reason
from fairlead.model.storage import Fence


def test_an_agent_says_nothing_before_its_keeper_has_listed() -> None:
    talk = Talk()
    assert talk.later(60_000) == []
    assert talk.step(NOTHING) == [Dial(1, "c1:1")]


def test_hello_comes_first_and_the_report_follows_the_welcome() -> None:
    talk = Talk()
    talk.step(NOTHING)
    talk.step(Dialled(1))
    (hello,) = talk.said(Hello)
    assert (hello.boot, hello.mark, hello.fence, hello.totals) == ("b", "m", None, [4_000, 8 << 30])
    talk.clear()
    talk.say(Welcome(FENCE, BEAT, 3 * BEAT, True))
    assert [word for say in talk.all(Say) for word in say.frame.body] == [Reported(0)]


def test_a_higher_fence_is_on_disk_before_an_order_under_it_is_acted_on() -> None:
    talk = Talk()
    talk.keeps_fences = False
    talk.step(NOTHING)
    talk.step(Dialled(1))
    name, body = spec()
    talk.say(Welcome(FENCE, BEAT, 3 * BEAT, True), Specs([name], [body]), Start(one(7, 0, 1), [name], [0]))
    assert talk.all(KeepFence) == [KeepFence(FENCE)]
    assert not talk.all(Spawn)
    assert not talk.said(Reported)
    talk.step(FenceKept(FENCE))
    assert talk.said(Reported) == [Reported(0)]
    assert talk.all(Spawn)[0].key == ["7.0.1.5"]


def test_a_leader_with_a_lower_fence_is_left_at_once() -> None:
    talk = Talk(Agent(settings(fence=Fence("site", 1, 9))))
    talk.meet(FENCE)
    assert talk.all(HangUp) == [HangUp(1)]
    assert not talk.said(Reported)
    talk.later(10_000)
    assert talk.all(Dial)[-1] == Dial(2, "c2:1")


def test_another_site_is_refused_even_with_a_higher_generation() -> None:
    talk = Talk(Agent(settings(fence=FENCE)))
    talk.meet(Fence("zone", 2, 9))
    assert talk.all(HangUp) == [HangUp(1)]
    assert not talk.all(KeepFence)


def test_a_fence_still_on_its_way_to_disk_refuses_lower_ones_already() -> None:
    talk = Talk()
    talk.keeps_fences = False
    talk.meet(FENCE)
    talk.step(Dropped(1))
    talk.later(10_000)
    talk.greet(Fence("site", 1, 4))
    assert talk.all(HangUp)[-1] == HangUp(talk.all(HangUp)[-1].session)
    assert talk.all(KeepFence) == [KeepFence(FENCE)]


def test_orders_of_an_older_session_are_dropped() -> None:
    talk = Talk()
    talk.meet()
    late = talk.line.say([Start(one(7, 0, 1), ["x"], [0])], talk.now)
    talk.step(Dropped(1))
    talk.later(10_000)
    talk.clear()
    assert talk.step(Heard(1, late)) == []


def test_a_lost_frame_ends_the_session_and_a_repeated_one_is_passed_over() -> None:
    talk = Talk()
    talk.meet()
    frame = talk.line.say([Beat()], talk.now)
    talk.step(Heard(1, frame))
    talk.clear()
    assert talk.step(Heard(1, frame)) == []
    talk.line.say([Beat()], talk.now)
    talk.say(Beat())
    assert talk.all(HangUp) == [HangUp(1)]


def test_each_beat_says_the_load_and_three_without_a_confirmation_end_the_session() -> None:
    talk = Talk()
    talk.meet()
    talk.clear()
    for _ in range(5):
        talk.later(BEAT)
        talk.say(Beat())
    assert talk.said(Load) == [Load(0, 0)] * 5
    talk.later(5 * BEAT)
    assert talk.all(HangUp) == [HangUp(1)]
    assert talk.all(Dial) == [Dial(2, "c2:1")]


def test_a_leader_that_talks_but_does_not_hear_is_left_too() -> None:
    talk = Talk()
    talk.meet()
    for number in range(3, 10):
        talk.later(BEAT)
        talk.step(Heard(1, Frame(number, 0, [Beat()])))
    assert talk.all(HangUp) == [HangUp(1)]


def test_a_dial_that_nobody_answers_is_given_up_and_waits_grow() -> None:
    talk = Talk()
    talk.step(NOTHING)
    waits: list[int] = []
    for _ in range(8):
        before = talk.now
        talk.step(Dropped(talk.session))
        assert talk.deadline is not None
        waits.append(talk.deadline - before)
        talk.later(waits[-1])
    assert waits[0] <= 250
    assert waits[-1] > 10 * waits[0]
    assert waits[-1] <= 10_000
    talk.clear()
    talk.later(10_000)
    assert len(talk.all(HangUp)) == 1


def test_a_follower_names_the_leader_and_the_agent_dials_it_next() -> None:
    talk = Talk()
    talk.step(NOTHING)
    talk.step(Dialled(1))
    talk.say(Moved("c9:1"))
    talk.later(200)
    assert talk.all(Dial)[-1] == Dial(2, "c9:1")


def test_a_named_leader_is_dialled_at_once_however_long_nobody_knew_one() -> None:
    talk = Talk()
    talk.step(NOTHING)
    for _ in range(8):
        talk.step(Dropped(talk.session))
        talk.later(10_000)
    talk.step(Dialled(talk.session))
    talk.clear()
    talk.say(Moved("c9:1"))
    talk.later(200)
    assert [dial.address for dial in talk.all(Dial)] == ["c9:1"]


def test_no_wait_for_a_leader_comes_near_to_the_time_of_being_lost() -> None:
    talk = Talk()
    talk.meet()
    lost_after, dials = 3 * BEAT, len(talk.all(Dial))
    for _ in range(12):
        talk.step(Dropped(talk.session))
        talk.later(lost_after // 4)
    assert len(talk.all(Dial)) == dials + 12


def test_two_followers_that_name_each_other_do_not_make_a_storm() -> None:
    talk = Talk()
    talk.step(NOTHING)
    for _ in range(200):
        talk.step(Dialled(talk.session))
        talk.say(Moved("c1:1" if talk.session % 2 else "c2:1"))
        talk.later(100)
    assert len(talk.all(Dial)) < 15


def test_servers_are_remembered_for_the_next_start() -> None:
    talk = Talk()
    talk.meet()
    assert talk.all(KeepAddresses) == [KeepAddresses(["c1:1", "c2:1"], ["f1:1", "f2:1"])]


def test_an_order_before_the_welcome_ends_the_session() -> None:
    talk = Talk()
    talk.step(NOTHING)
    talk.step(Dialled(1))
    talk.say(Start(one(7, 0, 1), ["x"], [0]))
    assert talk.all(HangUp) == [HangUp(1)]


def test_columns_that_do_not_belong_together_end_the_session() -> None:
    talk = Talk()
    talk.meet()
    talk.say(Start(one(7, 0, 1), [], []))
    assert talk.all(HangUp) == [HangUp(1)]


def test_without_its_keeper_an_agent_refuses_work_and_keeps_its_session() -> None:
    talk = Talk()
    talk.meet()
    talk.step(KeeperLost())
    assert talk.start(one(7, 0, 1)) == []
    assert talk.said(Refused) == [Refused(one(7, 0, 1), [Reason.agent_unfit])]
    assert not talk.all(HangUp)
