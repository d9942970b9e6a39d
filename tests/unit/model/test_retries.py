"""Whether an instance runs again, for every outcome and reason."""

from __future__ import annotations

import pytest

from fairlead.model.lifecycles import CLOSES_AS, STATES, Outcome, State
from fairlead.model.reasons import Reason
from fairlead.model.retries import (
    BY_OUTCOME,
    INFRASTRUCTURE,
    JOB,
    MOST_FREE,
    NOTHING,
    Class,
    Decision,
    classify,
    decide,
)

PAIRS = [(outcome, reason) for outcome in Outcome for reason in Reason]
PLENTY, SPENT = (1000, 1000), (0, 0)
AGAIN_FREE = Decision(State.waiting, NOTHING)
AGAIN_INFRASTRUCTURE = Decision(State.waiting, INFRASTRUCTURE)
AGAIN_JOB = Decision(State.waiting, JOB)
INFRASTRUCTURE_REASONS = {
    Reason.spawn_failed, Reason.spool_full, Reason.keeper_lost, Reason.lease_ended,
    Reason.agent_dead, Reason.agent_silent, Reason.vanished,
}  # fmt: skip


def expected(outcome: Outcome, reason: Reason) -> Decision:
    """What should happen with plenty of budget, said a second time and in another way."""
    if outcome in (Outcome.succeeded, Outcome.cancelled, Outcome.stopped, Outcome.timed_out):
        return Decision(CLOSES_AS[outcome], NOTHING)
    if reason is Reason.no_such_dir and outcome in (Outcome.failed, Outcome.refused):
        return Decision(State.refused, NOTHING)
    if outcome is Outcome.failed:
        return AGAIN_INFRASTRUCTURE if reason in INFRASTRUCTURE_REASONS else AGAIN_JOB
    if outcome in (Outcome.preempted, Outcome.refused):
        return AGAIN_FREE
    if outcome is Outcome.vanished and reason is Reason.vanished:
        return AGAIN_FREE
    return AGAIN_INFRASTRUCTURE


@pytest.mark.parametrize("outcome", Outcome)
def test_every_end_has_its_answer(outcome: Outcome) -> None:
    for reason in Reason:
        assert decide(PLENTY, (0, 0), outcome, reason) == expected(outcome, reason), reason


@pytest.mark.parametrize("outcome", Outcome)
def test_without_budget_every_end_closes_the_instance_and_charges_nothing(outcome: Outcome) -> None:
    for reason in Reason:
        decision = decide(SPENT, (0, 0), outcome, reason, MOST_FREE)
        assert decision.charge == NOTHING
        assert decision.then is not State.waiting
        assert decision.then in STATES[State.active]


def reruns(outcome: Outcome, reason: Reason) -> int:
    """How often an instance with three and two reruns runs again when it always ends so."""
    infrastructure = job = free = 0
    while infrastructure + job + free < 1000:
        decision = decide((3, 2), (infrastructure, job), outcome, reason, free)
        if decision.then is not State.waiting:
            break
        infrastructure += decision.charge == INFRASTRUCTURE
        job += decision.charge == JOB
        free += decision.charge == NOTHING
    return infrastructure + job + free


def test_no_end_repeats_an_instance_for_ever() -> None:
    for outcome, reason in PAIRS:
        assert reruns(outcome, reason) in (0, 2, 3, MOST_FREE + 3), (outcome, reason)


def test_each_budget_pays_only_for_its_own_kind() -> None:
    assert decide((3, 0), (0, 0), Outcome.failed, Reason.exited) == Decision(State.failed, NOTHING)
    assert decide((0, 3), (0, 0), Outcome.lost, Reason.agent_silent) == Decision(State.lost, NOTHING)
    assert decide((3, 1), (3, 0), Outcome.failed, Reason.exited) == AGAIN_JOB
    assert decide((3, 1), (0, 1), Outcome.lost, Reason.agent_dead) == AGAIN_INFRASTRUCTURE


def test_free_reruns_are_charged_from_the_twenty_first_on() -> None:
    assert decide((1, 0), (0, 0), Outcome.vanished, Reason.vanished, MOST_FREE - 1) == AGAIN_FREE
    assert decide((1, 0), (0, 0), Outcome.vanished, Reason.vanished, MOST_FREE) == AGAIN_INFRASTRUCTURE
    assert decide((1, 0), (1, 0), Outcome.vanished, Reason.vanished, MOST_FREE).then is State.lost
    assert decide((0, 0), (0, 0), Outcome.refused, Reason.agent_full, MOST_FREE).then is State.refused


def test_vanished_under_another_boot_is_charged() -> None:
    assert decide((1, 0), (0, 0), Outcome.vanished, Reason.agent_dead) == AGAIN_INFRASTRUCTURE


def test_every_outcome_has_a_class_and_final_ones_are_never_repeated() -> None:
    assert set(BY_OUTCOME) == set(Outcome)
    for outcome, reason in PAIRS:
        if classify(outcome, reason) is Class.final:
            assert decide(PLENTY, (0, 0), outcome, reason).then is not State.waiting
