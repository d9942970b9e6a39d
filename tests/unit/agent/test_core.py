"""What an agent starts and refuses, how attempts end, and what is told until it is acknowledged."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.agent.talk import BEAT, FENCE, NONE, WALL, Talk, ended, listed, settings, spec

from fairlead.agent.core import Agent
from fairlead.agent.words import (
    Dialled,
    Dropped,
    Exit,
    Forget,
    HangUp,
    KeeperFailed,
    KeeperLost,
    KeeperStarted,
    KillProcess,
    LeaveKeeper,
    MoveDeadline,
    Say,
    StopAsked,
    StopProcess,
    Why,
)
from fairlead.model.keys import Keys, one
from fairlead.model.lifecycles import Outcome, Stage
from fairlead.model.orders import (
    Ack,
    Beat,
    Ended,
    How,
    Leaving,
    Refused,
    Report,
    Reported,
    Retract,
    Retracted,
    Stages,
    Start,
    Stop,
    Welcome,
    What,
)
from fairlead.model.reasons import Reason


def outcome_of(talk: Talk) -> tuple[Outcome, Reason, int]:
    """How the last attempt that ended did so, as it was told."""
    told = talk.said(Ended)[-1]
    return Outcome(told.outcome[-1]), Reason(told.reason[-1]), told.exit[-1]


def test_an_array_is_one_spawn_in_columns_and_one_row_of_stages() -> None:
    talk = Talk()
    talk.meet()
    talk.clear()
    (spawn,) = talk.start(one(7, 10, 1, count=4), run_ms=5_000, command=["make", "test"])
    assert spawn.key == ["7.10.1.5", "7.11.1.5", "7.12.1.5", "7.13.1.5"]
    assert spawn.argv == ["make", "test"]
    assert (spawn.limit_ms, spawn.grace_ms, spawn.cpu) == (5_000, 10_000, 1_000)
    started = WALL + talk.now
    talk.later(10)
    assert talk.said(Stages) == [Stages(one(7, 10, 1, 4), [Stage.starting], [started])]
    talk.step(KeeperStarted(spawn.key, [WALL] * 4))
    talk.later(10)
    assert talk.said(Stages)[-1] == Stages(one(7, 10, 1, 4), [Stage.running], [WALL])


def test_a_start_and_its_end_shortly_after_are_one_frame() -> None:
    talk = Talk()
    talk.meet()
    talk.clear()
    key = talk.run()
    talk.now += 3
    talk.step(ended([key]))
    (say,) = talk.all(Say)
    assert [type(word) for word in say.frame.body] == [Stages, Ended]
    talk.later(BEAT - 100)
    assert len(talk.all(Say)) == 1


def test_an_attempt_sees_who_it_is_and_nothing_of_the_agents_own_environment() -> None:
    talk = Talk(Agent(settings(inherited={"PATH": "/x", "SECRET": "y"}, attempts="/a", spool="/s")))
    talk.meet()
    (spawn,) = talk.start(one(7, 3, 2), count=9, env={"CI": "true"}, ask={"cpu": 1_500}, run_ms=60_000)
    assert spawn.environment[0] == {
        "PATH": "/bin",
        "CI": "true",
        "FAIRLEAD_JOB": "j-7",
        "FAIRLEAD_INDEX": "3",
        "FAIRLEAD_COUNT": "9",
        "FAIRLEAD_ATTEMPT": "2",
        "FAIRLEAD_TERM": "5",
        "FAIRLEAD_AGENT": "one",
        "FAIRLEAD_CPUS": "1.5",
        "FAIRLEAD_WORKSPACE": "/a/7.3.2.5",
        "FAIRLEAD_ENDS_AT": str((WALL + talk.now + 60_000) // 1000),
    }
    assert (spawn.workspace, spawn.cwd) == (["/a/7.3.2.5"], ["/a/7.3.2.5"])
    assert (spawn.out, spawn.err) == (["/s/7.3.2.5.out"], ["/s/7.3.2.5.err"])
    (spawn,) = talk.start(one(7, 4, 1), inherit_env=True, dir="/srv", merge_output=True)
    assert spawn.environment[0]["SECRET"] == "y"
    assert (spawn.workspace, spawn.cwd, spawn.err) == ([""], ["/srv"], [""])


def test_what_has_no_room_is_refused_and_counted_exactly() -> None:
    talk = Talk()
    talk.meet()
    (spawn,) = talk.start(one(7, 0, 1, count=6))
    assert len(spawn.key) == 4
    assert talk.said(Refused) == [Refused(one(7, 4, 1, 2), [Reason.agent_full])]
    talk.step(ended(spawn.key[:1]))
    (spawn,) = talk.start(one(8, 0, 1))
    assert spawn.key == ["8.0.1.5"]


def test_a_span_of_a_million_costs_no_more_than_what_fits() -> None:
    talk = Talk()
    talk.meet()
    (spawn,) = talk.start(one(7, 0, 1, count=10_000_000))
    assert len(spawn.key) == 4
    talk.say(Stop(one(7, 0, 1, 10_000_000), How.kill, 10), Ack(one(7, 0, 1, 10_000_000), What.end))
    assert talk.all(KillProcess) == [KillProcess(spawn.key)]


def test_a_resource_that_the_machine_does_not_have_is_refused() -> None:
    talk = Talk()
    talk.meet()
    assert talk.start(one(7, 0, 1), ask={"gpu": 1_000}) == []
    assert talk.said(Refused) == [Refused(one(7, 0, 1), [Reason.agent_full])]


def test_a_repeat_of_a_start_is_no_second_process_and_no_refusal() -> None:
    talk = Talk()
    talk.meet()
    talk.run()
    assert talk.start(one(7, 0, 1, count=2))[0].key == ["7.1.1.5"]
    assert not talk.said(Refused)


def test_an_older_number_is_refused_and_a_newer_one_ends_the_older_attempt() -> None:
    talk = Talk()
    talk.meet()
    old = talk.run(number=2)
    assert talk.start(one(7, 0, 1)) == []
    assert talk.said(Refused) == [Refused(one(7, 0, 1), [Reason.superseded])]
    new = talk.run(number=3)
    assert (old, new) == ("7.0.2.5", "7.0.3.5")
    assert talk.all(KillProcess) == [KillProcess([old])]


def test_a_spec_that_was_not_sent_or_cannot_be_read_is_refused() -> None:
    talk = Talk()
    talk.meet()
    talk.say(Start(one(7, 0, 1), ["never seen"], [0]))
    assert talk.said(Refused) == [Refused(one(7, 0, 1), [Reason.unknown_spec])]


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, (Outcome.succeeded, Reason.none, 0)),
        ({"exit_": 3}, (Outcome.failed, Reason.exited, 3)),
        ({"signal": 11}, (Outcome.failed, Reason.signalled, -11)),
        ({"signal": 15, "why": Why.run_limit}, (Outcome.timed_out, Reason.run_limit, -15)),
        ({"signal": 9, "why": Why.lease}, (Outcome.lost, Reason.lease_ended, -9)),
        ({"signal": 9, "why": Why.out_of_memory}, (Outcome.failed, Reason.out_of_memory, -9)),
        ({"signal": 9, "why": Why.abandoned}, (Outcome.lost, Reason.keeper_lost, -9)),
    ],
)
def test_an_end_is_told_with_its_outcome_and_reason(
    facts: dict[str, int], told: tuple[Outcome, Reason, int]
) -> None:
    talk = Talk()
    talk.meet()
    talk.step(ended([talk.run()], **facts))  # type: ignore[arg-type]
    assert outcome_of(talk) == told


def test_what_was_ordered_to_stop_is_cancelled_unless_its_exit_came_first() -> None:
    talk = Talk()
    talk.meet()
    first, second = talk.run(0), talk.run(1)
    talk.say(Stop(one(7, 0, 1, 2), How.stop, Reason.cancelled_by_user))
    assert talk.all(StopProcess) == [StopProcess([first, second])]
    talk.later(10)
    assert talk.said(Stages)[-1].stage[-1] == Stage.ending
    talk.step(ended([first], exit_=0))
    assert outcome_of(talk) == (Outcome.succeeded, Reason.none, 0)
    talk.step(ended([second], signal=15, why=Why.ordered))
    assert outcome_of(talk) == (Outcome.cancelled, Reason.cancelled_by_user, -15)


def test_a_stop_only_gets_harder() -> None:
    talk = Talk()
    talk.meet()
    key = talk.run()
    for how in (How.stop, How.stop, How.kill, How.stop, How.kill):
        talk.say(Stop(one(7, 0, 1), how, Reason.caller_gone))
    assert talk.all(StopProcess) == [StopProcess([key])]
    assert talk.all(KillProcess) == [KillProcess([key])]
    talk.step(ended([key], signal=9, why=Why.ordered))
    assert outcome_of(talk) == (Outcome.cancelled, Reason.caller_gone, -9)


def test_a_command_that_cannot_be_run_failed_and_a_missing_folder_is_a_refusal() -> None:
    talk = Talk()
    talk.meet()
    (spawn,) = talk.start(one(7, 0, 1, 2))
    talk.step(KeeperFailed(spawn.key, [Reason.not_found, Reason.no_such_dir]))
    assert outcome_of(talk) == (Outcome.failed, Reason.not_found, 127)
    assert talk.said(Refused) == [Refused(one(7, 1, 1), [Reason.no_such_dir])]
    assert talk.all(Forget) == [Forget([spawn.key[1]])]


def test_an_end_is_told_on_every_session_until_it_is_acknowledged() -> None:
    talk = Talk()
    talk.meet()
    key = talk.run()
    talk.step(Dropped(1), ended([key], exit_=1))
    for _ in range(2):
        talk.later(10_000)
        talk.clear()
        talk.greet()
        assert talk.said(Report) == [Report(one(7, 0, 1), [5], [Stage.ended], [spec()[0]])]
        assert talk.said(Ended)[0].exit == [1]
        assert talk.said(Reported) == [Reported(1)]
        talk.step(Dropped(talk.session))
    talk.later(10_000)
    talk.greet()
    talk.say(Ack(one(7, 0, 1), What.end))
    assert talk.all(Forget) == [Forget([key])]
    talk.step(Dropped(talk.session))
    talk.later(10_000)
    talk.clear()
    talk.greet()
    assert (talk.said(Reported), talk.said(Report)) == ([Reported(0)], [])


def test_a_long_report_travels_in_frames_below_their_limit() -> None:
    talk = Talk(Agent(settings(totals=[10_000_000, 8 << 30])))
    talk.meet()
    keys = talk.start(one(7, 0, 1, 5_000), env={"x": "y" * 60})[0].key
    talk.step(*(ended([key], exit_=1) for key in keys[::2]), Dropped(1))
    talk.later(10_000)
    talk.clear()
    talk.greet()
    frames = [say.frame for say in talk.all(Say)]
    assert max(len(msgspec.msgpack.encode(frame)) for frame in frames) < 256 << 10
    assert sum(report.keys.total() for report in talk.said(Report)) == 5_000
    assert frames[-1].body[-1] == Reported(5_000)


def test_an_exclusive_attempt_lives_a_lease_from_when_the_last_answered_beat_was_sent() -> None:
    talk = Talk()
    talk.meet()
    at = talk.now
    (spawn,) = talk.start(one(7, 0, 1), lease_ms=60_000)
    assert spawn.lease_until == [at + 60_000]
    talk.run(1)
    talk.clear()
    talk.later(BEAT)
    sent = talk.now
    talk.later(BEAT // 2)
    talk.say(Beat())
    assert talk.all(MoveDeadline) == [MoveDeadline(spawn.key, [sent + 60_000])]
    talk.clear()
    talk.later(BEAT)
    talk.say(Beat(withheld=one(7, 0, 1)))
    assert not talk.all(MoveDeadline)


def test_what_may_not_have_started_is_given_back_only_if_it_is_not_here() -> None:
    talk = Talk()
    talk.meet()
    talk.run(1)
    talk.say(Retract(one(7, 0, 1, 3)))
    assert talk.said(Retracted) == [Retracted(Keys([7, 7, 7], [1, 0, 2], [1, 1, 1], [1, 1, 1]), [0, 1, 1])]


def test_a_restarted_agent_knows_from_its_keeper_all_that_it_held() -> None:
    talk = Talk()
    talk.meet()
    (spawn,) = talk.start(one(7, 0, 1, 2), lease_ms=60_000, ask={"cpu": 1_500})
    again = Talk(Agent(settings(fence=FENCE)))
    over = ended(spawn.key[1:], exit_=4)
    again.step(listed(spawn.key[:1], over, spawn.meta))
    again.greet()
    assert again.said(Report)[0].stage == [Stage.running, Stage.ended]
    assert again.said(Ended)[0].exit == [4]
    assert again.start(one(8, 0, 1), ask={"cpu": 3_000}) == []
    again.later(BEAT)
    again.say(Beat())
    assert again.all(MoveDeadline)[0].key == spawn.key[:1]


def test_what_a_keeper_does_not_list_any_more_is_lost() -> None:
    talk = Talk()
    talk.meet()
    key = talk.run()
    other = talk.run(1)
    talk.say(Stop(one(7, 1, 1), How.stop, Reason.cancelled_by_user))
    talk.step(KeeperLost())
    talk.clear()
    talk.step(listed([other], NONE, ["{}"]))
    assert outcome_of(talk) == (Outcome.lost, Reason.keeper_lost, 0)
    assert talk.said(Ended)[-1].keys == one(7, 0, 1)
    assert talk.all(StopProcess) == [StopProcess([other])]
    assert key != other


def test_what_failed_or_was_ended_without_an_agent_is_told_by_the_next_one() -> None:
    talk = Talk()
    talk.meet()
    (spawn,) = talk.start(one(7, 0, 1, 2))
    again = Talk()
    shut_down = ended(spawn.key[:1], signal=15, why=Why.ordered)
    again.step(listed([], shut_down, spawn.meta, failed=spawn.key[1:]))
    again.greet()
    told = again.said(Ended)[0]
    assert told.outcome == [Outcome.lost, Outcome.failed]
    assert told.reason == [Reason.keeper_lost, Reason.not_found]


def test_a_process_that_is_not_ours_is_killed_and_forgotten() -> None:
    talk = Talk()
    talk.step(listed(["x"], NONE, ["nonsense"]))
    assert talk.all(KillProcess) == [KillProcess(["x"])]
    talk.step(ended(["x"]))
    assert talk.all(Forget) == [Forget(["x"])]


def test_an_agent_that_is_refused_ends_what_it_holds_and_takes_nothing_new() -> None:
    talk = Talk()
    talk.meet()
    key = talk.run()
    talk.step(Dropped(1))
    talk.later(10_000)
    talk.clear()
    talk.step(Dialled(talk.session))
    talk.say(Welcome(FENCE, BEAT, 3 * BEAT, False, refusal="a clone"))
    assert talk.all(StopProcess) == [StopProcess([key])]
    assert talk.start(one(9, 0, 1)) == []
    assert talk.said(Refused)[0].reason == [Reason.agent_unfit]
    talk.step(ended([key], signal=15, why=Why.ordered))
    assert outcome_of(talk) == (Outcome.lost, Reason.agent_unfit, -15)
    assert not talk.all(HangUp)


def test_leaving_with_keep_says_so_and_exits_when_it_is_heard() -> None:
    talk = Talk()
    talk.meet()
    talk.run()
    talk.step(StopAsked(True))
    assert talk.said(Leaving) == [Leaving(True, 600_000)]
    assert not talk.all(Exit)
    talk.say(Beat())
    assert talk.effects[-2:] == [LeaveKeeper(True, 600_000), Exit()]


def test_draining_waits_for_the_work_and_its_acknowledgement() -> None:
    talk = Talk()
    talk.meet()
    key = talk.run()
    talk.step(StopAsked(False))
    assert talk.start(one(8, 0, 1)) == []
    assert talk.said(Refused)[0].reason == [Reason.agent_leaving]
    talk.step(ended([key]))
    talk.say(Beat())
    assert not talk.all(Exit)
    talk.say(Ack(one(7, 0, 1), What.end))
    assert talk.effects[-2:] == [LeaveKeeper(False, 0), Exit()]


def test_draining_does_not_wait_for_ever_for_a_control_that_is_gone() -> None:
    talk = Talk()
    talk.meet()
    key = talk.run()
    talk.step(StopAsked(False), ended([key]), Dropped(1))
    talk.later(10_000)
    assert talk.all(Exit)


def test_an_acknowledgement_may_name_an_attempt_twice() -> None:
    talk = Talk()
    talk.meet()
    key = talk.run()
    talk.step(ended([key]))
    talk.say(Ack(Keys([7, 7], [0, 0], [1, 1], [1, 1]), What.end))
    assert talk.all(Forget) == [Forget([key])]
