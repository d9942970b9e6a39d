"""What the simulator found in the cores once, told as short conversations."""

from __future__ import annotations

import random

from tests.unit.agent.talk import Talk
from tests.unit.plane.conversation import Agent, Conversation, submission

from fairlead.agent.words import KeepAddresses
from fairlead.model import orders
from fairlead.model.keys import one
from fairlead.model.lifecycles import Output
from fairlead.model.requests import Ask, Follow, Following
from fairlead.model.storage import Commit, Deposed, Load, Renew
from fairlead.plane.words import Answered, Answering, Asked, Telling, ToLease

FOLLOWER = 7


def site_with_agent() -> tuple[Conversation, Agent]:
    talk = Conversation()
    return talk, talk.connect(talk.join()).ready()


def told(effects: list[object]) -> list[int]:
    """The segments that a follower hears of, in the order in which they left."""
    return [effect.told.part.n for effect in effects if isinstance(effect, Telling)]


def test_a_deposed_leader_asks_nothing_of_the_log_before_its_last_op_is_answered() -> None:
    talk, _ = site_with_agent()
    talk.holds = lambda op: isinstance(op, Commit)
    talk.ask_only(submission())
    (commit,) = talk.held
    # Its lease is lost and won again while that commit is still on its way.
    renewal = Answered(Renew(), Deposed())
    talk.truth.end_lease()
    effects = talk.step(renewal)
    talk.pass_time(2_000)
    assert talk.plane.leadership.fence is not None, "it leads again"
    assert talk.log_ops(effects) == []
    assert talk.held == [commit]
    # What comes of it is nothing to the new term, which loads only now.
    after = talk.answer_held()
    assert [type(op) for op in talk.log_ops(after)] == [Load]
    talk.holds = lambda op: False
    talk.submit("another", name="another")
    assert talk.job("another")["state"] == "pending"


def test_a_leader_that_waits_for_the_answer_to_an_old_op_sleeps_until_then() -> None:
    talk, _ = site_with_agent()
    talk.holds = lambda op: not isinstance(op, Load)
    talk.ask_only(submission())
    talk.truth.end_lease()
    deposed = talk.plane.step([Answered(Renew(), Deposed())], talk.now)
    (campaign,) = [effect.op for effect in deposed.effects if isinstance(effect, ToLease)]
    elected = talk.plane.step([Answered(campaign, talk.handle.perform(campaign, talk.now))], talk.now)
    assert talk.plane.leadership.fence is not None
    assert elected.deadline is not None
    assert elected.deadline > talk.now


def test_segments_of_a_time_without_lease_are_told_before_later_ones() -> None:
    talk, _ = site_with_agent()
    talk.step(Asked(FOLLOWER, Ask(1, Follow(-1))))
    first = talk.truth.head + 1
    talk.holds = lambda op: isinstance(op, Renew)
    talk.pass_time(4_000)
    assert told(talk.ask_only(submission("a", name="a"))) == []
    assert told(talk.ask_only(submission("b", name="b"))) == []
    # The lease is renewed in the very step in which one more segment is durable.
    talk.holds = lambda op: isinstance(op, Commit | Renew)
    talk.ask_only(submission("c", name="c"))
    answers = [Answered(op, talk.handle.perform(op, talk.now)) for op in talk.held]
    talk.held.clear()
    assert len(answers) == 2
    assert told(talk.step(*answers)) == [first, first + 1, first + 2]


def test_a_follower_whose_first_segments_are_dropped_meanwhile_is_told_to_look_anew() -> None:
    talk, _ = site_with_agent()
    talk.submit("a", name="a")
    wanted = talk.truth.head
    talk.holds = lambda op: isinstance(op, Commit)
    body = random.Random(1).randbytes(2_000).hex()
    talk.ask_only(submission("b", name="b", env={"BODY": body}))
    asked = talk.step(Asked(FOLLOWER, Ask(1, Follow(wanted))))
    assert not any(isinstance(effect, Answering) for effect in asked)
    # The segment that its answer waits for pushes out the one that it asked for.
    talk.plane.followers.most_bytes = 5_000
    effects = talk.answer_held()
    replies = [effect.reply.reply for effect in effects if isinstance(effect, Answering)]
    assert Following(talk.truth.head + 1, True) in replies
    assert told(effects) == []


def test_output_that_died_with_its_machine_is_not_waited_for() -> None:
    talk, agent = site_with_agent()
    talk.submit()
    agent.end(one(1, 0, 1), output=int(Output.pending))
    assert talk.instance()["output"] == "pending"
    talk.cut(agent)
    again = talk.connect(agent.number).ready(boot="boot-2")
    assert talk.instance()["output"] == "incomplete"
    # What comes all the same counts.
    again.say(orders.OutputDone(one(1, 0, 1), [1], [5], [0]))
    assert talk.instance()["output"] == "complete"


def test_a_leader_that_names_fewer_servers_does_not_make_the_others_forgotten() -> None:
    talk = Talk()
    talk.meet()
    talk.say(orders.Servers(["c3:1"], []))
    assert talk.all(KeepAddresses)[-1] == KeepAddresses(["c3:1", "c1:1", "c2:1"], ["f1:1", "f2:1"])
