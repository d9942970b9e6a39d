"""The lives of attempts, instances and agents, as literal tables. A pair that is not here is illegal.

One axis a table: what is wanted, what is present and what is fit are different small tables, and the words
people see are computed from them (`display`).
"""

from __future__ import annotations

from enum import IntEnum


class Stage(IntEnum):
    """How far an open attempt is, as its agent reports it."""

    assigned = 1
    starting = 2
    running = 3
    ending = 4
    ended = 5


class Outcome(IntEnum):
    """How an attempt ended."""

    succeeded = 1
    failed = 2
    timed_out = 3
    cancelled = 4
    stopped = 5
    preempted = 6
    refused = 7
    lost = 8
    vanished = 9


class State(IntEnum):
    """Where an instance stands. `waiting` is 0, so that a row nobody touched waits."""

    waiting = 0
    active = 1
    succeeded = 2
    failed = 3
    cancelled = 4
    timed_out = 5
    refused = 6
    stopped = 7
    lost = 8


STATES: dict[State, tuple[State, ...]] = {
    State.waiting: (
        State.active,
        State.cancelled,
        State.timed_out,
        State.refused,
        State.failed,
    ),
    State.active: (
        State.waiting,
        State.succeeded,
        State.failed,
        State.cancelled,
        State.timed_out,
        State.refused,
        State.stopped,
        State.lost,
    ),
    State.succeeded: (),
    State.failed: (),
    State.cancelled: (),
    State.timed_out: (),
    State.refused: (),
    State.stopped: (),
    State.lost: (),
}

CLOSED: frozenset[State] = frozenset(state for state, after in STATES.items() if not after)

# What an instance becomes when its last attempt ended so, and no other follows.
CLOSES_AS: dict[Outcome, State] = {
    Outcome.succeeded: State.succeeded,
    Outcome.failed: State.failed,
    Outcome.timed_out: State.timed_out,
    Outcome.cancelled: State.cancelled,
    Outcome.stopped: State.stopped,
    Outcome.preempted: State.lost,
    Outcome.refused: State.refused,
    Outcome.lost: State.lost,
    Outcome.vanished: State.lost,
}


class Output(IntEnum):
    """Whether the stored output of an ended attempt is whole. `incomplete` may still become `complete`."""

    none = 0
    pending = 1
    complete = 2
    incomplete = 3


class Presence(IntEnum):
    """Whether an agent is in contact, as the scheduler sees it."""

    joining = 1
    ready = 2
    suspect = 3
    lost = 4
    left = 5


PRESENCES: dict[Presence, tuple[Presence, ...]] = {
    Presence.joining: (Presence.ready, Presence.suspect, Presence.left),
    Presence.ready: (Presence.joining, Presence.suspect, Presence.left),
    Presence.suspect: (Presence.joining, Presence.ready, Presence.lost, Presence.left),
    Presence.lost: (Presence.joining,),
    Presence.left: (Presence.joining,),
}


class Wanted(IntEnum):
    """What people want of an agent."""

    open = 1
    cordoned = 2
    draining = 3
    banned = 4


def display_agent(wanted: Wanted, presence: Presence) -> str:
    """The one word people see for an agent."""
    if wanted is Wanted.banned:
        return "banned"
    if presence in (Presence.lost, Presence.left, Presence.suspect, Presence.joining):
        return presence.name
    return {Wanted.open: "ready", Wanted.cordoned: "cordoned", Wanted.draining: "draining"}[wanted]
