"""What is large still fits a write: rosters, former attempts, output of arrays, needs of submissions."""

from __future__ import annotations

import pytest
from tests.unit.plane.conversation import Conversation

from fairlead.controllers.records import describe
from fairlead.model import orders
from fairlead.model.errors import Problem
from fairlead.model.jobs import JobSpec, Need, encode_spec
from fairlead.model.keys import Keys
from fairlead.model.requests import AddToken, Admit, Submit
from fairlead.model.storage import LARGEST_WRITE, Load, Loaded
from fairlead.plane.checkpoints import load_ledger


def reloads(talk: Conversation) -> bool:
    """What is stored makes the same ledger, and checkpoints took part in it."""
    loaded = talk.handle.perform(Load(), talk.now)
    assert isinstance(loaded, Loaded)
    assert loaded.values
    assert all(len(value) < LARGEST_WRITE for value in loaded.values.values())
    ledger, _ = load_ledger(loaded)
    assert talk.plane.core is not None
    return describe(ledger) == describe(talk.plane.core.ledger)


def test_a_roster_of_twelve_thousand_is_checkpointed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.plane.checkpoints.ROUND_BYTES", 100_000)
    talk = Conversation()
    for number in range(4):
        talk.ask(AddToken(f"t{number}", "d", "agent", "default", 1, 0))
        admitted = talk.ask(
            Admit(f"t{number}", "d", "agent", "a-long-name-of-a-fleet" * 4 + str(number), 3_000)
        )
        assert not isinstance(admitted, Problem)
    talk.pass_time(2_000)
    assert reloads(talk)


def test_output_and_former_attempts_of_a_large_array_are_checkpointed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairlead.plane.checkpoints.ROUND_BYTES", 20_000)
    talk = Conversation()
    agent = talk.connect(talk.join()).ready(cpus=40_000)
    talk.submit(count=30_000, retry_job=2)
    half = Keys([1] * 15_000, list(range(0, 30_000, 2)), [1] * 15_000, [1] * 15_000)
    for start in range(0, 15_000, 1_500):
        cut = slice(start, start + 1_500)
        agent.end(Keys(half.job[cut], half.first[cut], half.count[cut], half.attempt[cut]), exit=3, output=1)
    for start in range(0, 30_000, 2_000):
        rows = [index for index in range(start, start + 2_000) if index % 2]
        keys = Keys([1] * len(rows), rows, [1] * len(rows), [1] * len(rows))
        agent.end(keys, output=1)
        agent.say(orders.OutputDone(keys, [1] * len(rows), [index + 5 for index in rows], [0] * len(rows)))
    talk.submit("after", name="after", count=1)
    talk.pass_time(2_000)
    assert talk.instance(7)["out_length"] == 12
    assert reloads(talk)


def test_a_submission_with_more_needs_than_a_segment_holds_is_refused_whole() -> None:
    talk = Conversation()
    specs = [
        encode_spec(
            JobSpec(name=f"j{at}", command=["true"], needs=[Need(f"j{before}") for before in range(at)])
        )
        for at in range(620)
    ]
    refused = talk.ask(Submit("k", "d", "", "default", "me", specs))
    assert isinstance(refused, Problem)
    assert refused.code == "too_many"
    assert talk.plane.core is not None
    assert not talk.plane.core.ledger.jobs
    assert not isinstance(talk.submit(), Problem)


def test_an_end_of_another_term_frees_nothing() -> None:
    talk = Conversation()
    agent = talk.connect(talk.join()).ready(cpus=1)
    talk.submit(count=2)
    agent.end(Keys([1], [0], [1], [1]), term=99)
    assert talk.instance(0)["state"] == "assigned"
    assert talk.instance(1)["state"] == "waiting"
    assert len(agent.started()) == 1


def test_a_step_looks_at_so_many_shapes_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.plane.core.STEP_DECISIONS", 4)
    talk = Conversation()
    agent = talk.connect(talk.join()).ready(cpus=1)
    for number in range(20):
        talk.submit(f"k{number}", name=f"big{number}", ask={"cpu": 2_000 + number})
    talk.submit("small", name="small")
    assert agent.started() == [(21, 0, 1, 1)]
