"""Decides whether an instance runs again after an attempt ended, and which budget pays for it.

What an end means is a literal table: the class of (outcome, reason). Ends of the work itself are charged to
the job's budget, ends for which the work is not to blame to the infrastructure budget, and some are free,
because the work never ran or was taken away on purpose. Free is bounded too: after `MOST_FREE` of them an
instance pays from the infrastructure budget, so that no cause repeats it for ever.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from .lifecycles import CLOSES_AS, Outcome, State
from .reasons import Reason

MOST_FREE = 20

# What is charged, as it stands in `changes.Ended`.
NOTHING, INFRASTRUCTURE, JOB = 0, 1, 2


class Class(IntEnum):
    """Who answers for an end."""

    # Nobody: it is what was wanted, and it is final.
    final = 0
    infrastructure = INFRASTRUCTURE
    job = JOB
    free = 3


class Decision(Struct, frozen=True, gc=False):
    """What the instance becomes (`waiting`: again), and which budget is charged: 0, 1 or 2."""

    then: State
    charge: int


# The class of an end by its outcome, and where the reason tells more, by both.
BY_OUTCOME: dict[Outcome, Class] = {
    Outcome.succeeded: Class.final,
    Outcome.failed: Class.job,
    Outcome.timed_out: Class.final,
    Outcome.cancelled: Class.final,
    Outcome.stopped: Class.final,
    Outcome.preempted: Class.free,
    Outcome.refused: Class.free,
    Outcome.lost: Class.infrastructure,
    Outcome.vanished: Class.infrastructure,
}
BY_REASON: dict[tuple[Outcome, Reason], Class] = {
    (Outcome.failed, Reason.spawn_failed): Class.infrastructure,
    (Outcome.failed, Reason.spool_full): Class.infrastructure,
    (Outcome.failed, Reason.keeper_lost): Class.infrastructure,
    (Outcome.failed, Reason.lease_ended): Class.infrastructure,
    (Outcome.failed, Reason.agent_dead): Class.infrastructure,
    (Outcome.failed, Reason.agent_silent): Class.infrastructure,
    (Outcome.failed, Reason.vanished): Class.infrastructure,
    (Outcome.failed, Reason.no_such_dir): Class.final,
    (Outcome.refused, Reason.no_such_dir): Class.final,
    # The agent came back under the same boot without it: it never ran there.
    (Outcome.vanished, Reason.vanished): Class.free,
}
# Where the reason tells more than `CLOSES_AS` what the instance becomes: nothing ran, so nothing failed.
CLOSES_BY_REASON: dict[tuple[Outcome, Reason], State] = {
    (Outcome.failed, Reason.no_such_dir): State.refused,
}


def classify(outcome: Outcome, reason: Reason) -> Class:
    """Who answers for this end; every pair has an answer."""
    return BY_REASON.get((outcome, reason), BY_OUTCOME[outcome])


def decide(
    policy: tuple[int, int],
    past: tuple[int, int],
    outcome: Outcome,
    reason: Reason,
    free_used: int = 0,
) -> Decision:
    """Again or over, and who pays.

    `policy` are the instance's budgets, `past` what was charged to them so far: (infrastructure, job).
    `free_used` are its closed attempts that were charged to neither, this one not counted.
    """
    owner = classify(outcome, reason)
    if owner is Class.free:
        if free_used < MOST_FREE:
            return Decision(State.waiting, NOTHING)
        owner = Class.infrastructure
    if owner is Class.infrastructure and past[0] < policy[0]:
        return Decision(State.waiting, INFRASTRUCTURE)
    if owner is Class.job and past[1] < policy[1]:
        return Decision(State.waiting, JOB)
    return Decision(CLOSES_BY_REASON.get((outcome, reason), CLOSES_AS[outcome]), NOTHING)
