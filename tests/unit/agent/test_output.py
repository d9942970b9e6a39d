"""Which output is sent when, and until when it is sent again."""

from __future__ import annotations

from tests.unit.agent.talk import BEAT, Talk, ended, listed, settings

from fairlead.agent.core import Agent
from fairlead.agent.output import ATTEMPT_WINDOW, IDLE_MS, LINK_WINDOW, STALL_MS
from fairlead.agent.words import (
    DialOutput,
    Dropped,
    Forget,
    Grew,
    HangUpOutput,
    KillProcess,
    OutputDialled,
    OutputDropped,
    OutputStored,
    OutputUnreadable,
    ReadOutput,
    Why,
)
from fairlead.model.blocks import ERR, OUT
from fairlead.model.keys import one
from fairlead.model.lifecycles import Outcome
from fairlead.model.orders import Ack, Beat, Ended, OutputDone, Refused, What
from fairlead.model.reasons import Reason

Range = tuple[str, int, int, int, int]


def quiet(talk: Talk, ms: int) -> None:
    """Time passes while control answers every beat."""
    for _ in range(ms // BEAT):
        talk.later(BEAT)
        talk.say(Beat())


def sent(talk: Talk) -> list[Range]:
    """Every range read since the last clear, in order."""
    return [
        row
        for read in talk.all(ReadOutput)
        for row in zip(read.key, read.stream, read.offset, read.length, read.end, strict=True)
    ]


def bytes_of(talk: Talk, key: str) -> int:
    """How much of one attempt was read since the last clear."""
    return sum(length for name, _, _, length, _ in sent(talk) if name == key)


def linked() -> tuple[Talk, str]:
    """A running attempt, and a front that its output may go to."""
    talk = Talk(Agent(settings(totals=[100_000, 8 << 30])))
    talk.meet()
    key = talk.run()
    talk.step(Grew([key], [OUT], [1]))
    talk.step(OutputDialled(1))
    talk.step(OutputStored([key], [OUT], [1]))
    return talk, key


def test_a_front_is_dialled_at_the_first_byte_and_left_when_nothing_comes() -> None:
    talk = Talk()
    talk.meet()
    key = talk.run()
    assert not talk.all(DialOutput)
    talk.step(Grew([key], [OUT], [10]))
    assert talk.all(DialOutput) == [DialOutput(1, "f1:1")]
    talk.step(OutputDialled(1))
    assert sent(talk) == [(key, OUT, 0, 10, 0)]
    talk.step(OutputStored([key], [OUT], [10]))
    quiet(talk, IDLE_MS)
    assert talk.all(HangUpOutput) == [HangUpOutput(1)]
    talk.step(Grew([key], [ERR], [3]))
    assert talk.all(DialOutput)[-1].link == 2


def test_one_attempt_may_have_only_its_window_on_the_way() -> None:
    talk, key = linked()
    talk.clear()
    talk.step(Grew([key], [OUT], [10_000_000]))
    assert bytes_of(talk, key) == ATTEMPT_WINDOW
    talk.step(OutputStored([key], [OUT], [1 + 100_000]))
    assert bytes_of(talk, key) == ATTEMPT_WINDOW + 100_000


def test_talkers_take_turns_and_the_link_has_a_window_too() -> None:
    talk, key = linked()
    (spawn,) = talk.start(one(8, 0, 1, 60))
    talk.clear()
    talk.step(Grew(spawn.key, [OUT] * 60, [1 << 20] * 60))
    assert sum(length for _, _, _, length, _ in sent(talk)) == LINK_WINDOW
    assert [row[0] for row in sent(talk)[:60]] == spawn.key
    talk.step(OutputStored(spawn.key[:1], [OUT], [64 << 10]))
    assert sum(length for _, _, _, length, _ in sent(talk)) == LINK_WINDOW + (64 << 10)
    assert key not in spawn.key


def test_a_cut_link_is_followed_by_another_front_from_the_last_acknowledged_byte() -> None:
    talk, key = linked()
    talk.step(Grew([key], [OUT], [5_000]))
    talk.step(OutputStored([key], [OUT], [2_000]))
    talk.clear()
    talk.step(OutputDropped(1))
    talk.later(500)
    assert talk.all(DialOutput) == [DialOutput(2, "f2:1")]
    talk.step(OutputDialled(2))
    assert sent(talk) == [(key, OUT, 2_000, 3_000, 0)]


def test_a_front_that_stores_nothing_is_left() -> None:
    talk, key = linked()
    talk.step(Grew([key], [OUT], [5_000]))
    quiet(talk, STALL_MS + 1_000)
    assert talk.all(HangUpOutput) == [HangUpOutput(1)]
    assert talk.all(DialOutput)[-1] == DialOutput(2, "f2:1")


def test_output_is_done_when_its_end_is_stored_and_forgotten_after_both_facts() -> None:
    talk, key = linked()
    talk.step(Grew([key], [OUT], [100]))
    talk.step(ended([key], out=100, err=7))
    assert talk.said(Ended)[-1].output == [1]
    assert sent(talk)[-2:] == [(key, OUT, 100, 0, 1), (key, ERR, 0, 7, 1)]
    talk.step(OutputStored([key], [ERR], [8]))
    assert not talk.said(OutputDone)
    talk.step(OutputStored([key], [OUT], [100]))
    assert not talk.said(OutputDone), "the bytes are stored, the end is not"
    talk.step(OutputStored([key], [OUT], [101]))
    assert talk.said(OutputDone) == [OutputDone(one(7, 0, 1), [1], [100], [7])]
    talk.say(Ack(one(7, 0, 1), What.output))
    assert not talk.all(Forget)
    talk.say(Ack(one(7, 0, 1), What.end))
    assert talk.all(Forget) == [Forget([key])]


def test_an_attempt_without_output_is_forgotten_with_its_end() -> None:
    talk = Talk()
    talk.meet()
    key = talk.run()
    talk.step(ended([key]))
    assert talk.said(Ended)[-1].output == [0]
    talk.say(Ack(one(7, 0, 1), What.end))
    assert talk.all(Forget) == [Forget([key])]
    assert not talk.all(DialOutput)


def test_whole_output_is_told_on_every_session_until_it_is_acknowledged() -> None:
    talk, key = linked()
    talk.step(ended([key], out=1))
    talk.say(Ack(one(7, 0, 1), What.end))
    talk.step(Dropped(1), OutputStored([key], [OUT], [2]))
    talk.later(10_000)
    talk.clear()
    talk.greet()
    assert not talk.said(Ended)
    assert talk.said(OutputDone) == [OutputDone(one(7, 0, 1), [1], [1], [0])]


def test_output_that_cannot_be_read_back_is_told_as_not_whole() -> None:
    talk, key = linked()
    talk.step(Grew([key], [OUT], [5_000]), ended([key], out=5_000))
    talk.step(OutputUnreadable([key], [OUT]))
    assert talk.said(OutputDone) == [OutputDone(one(7, 0, 1), [0], [5_000], [0])]


def test_more_output_than_its_limit_ends_an_attempt() -> None:
    talk = Talk()
    talk.meet()
    key = talk.run(output_bytes=1_000)
    talk.step(Grew([key], [OUT], [600]))
    talk.step(Grew([key], [ERR], [500]))
    assert talk.all(KillProcess) == [KillProcess([key])]
    talk.step(ended([key], signal=9, why=Why.ordered, out=600, err=500))
    told = talk.said(Ended)[-1]
    assert (told.outcome, told.reason) == ([Outcome.failed], [Reason.output_limit])


def test_a_full_spool_takes_nothing_new_and_then_ends_the_largest_talker() -> None:
    talk = Talk(Agent(settings(spool_bytes=1_000)))
    talk.meet()
    small, large = talk.run(0), talk.run(1)
    talk.step(Grew([small, large], [OUT, OUT], [300, 500]))
    assert talk.start(one(8, 0, 1)) == []
    assert talk.said(Refused)[-1].reason == [Reason.spool_full]
    talk.step(Grew([small, large], [OUT, OUT], [500, 600]))
    assert talk.all(KillProcess) == [KillProcess([large])]
    talk.step(Grew([small], [OUT], [900]))
    assert len(talk.all(KillProcess)) == 1
    talk.step(ended([large], signal=9, why=Why.ordered, out=600))
    told = talk.said(Ended)[-1]
    assert (told.outcome, told.reason) == ([Outcome.lost], [Reason.spool_full])


def test_a_restarted_agent_sends_the_output_of_what_ended_meanwhile() -> None:
    talk = Talk()
    talk.meet()
    (spawn,) = talk.start(one(7, 0, 1))
    again = Talk()
    again.step(listed([], ended(spawn.key, out=9), spawn.meta))
    again.greet()
    again.step(OutputDialled(1))
    assert sent(again) == [(spawn.key[0], OUT, 0, 9, 1)]
