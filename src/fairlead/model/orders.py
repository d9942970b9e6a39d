"""What control and an agent say to each other. Every hot message is columns; see `keys`.

Orders go down, reports come up, both in numbered frames of one session (`session`). An order is never sent
again on a later session: the agent reports what it holds, and what is missing is decided anew.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from .keys import Keys
from .storage import Fence


class How(IntEnum):
    """How an attempt is stopped: TERM, grace, KILL; or KILL at once."""

    stop = 1
    kill = 2


class What(IntEnum):
    """Which of the two durable facts of an ended attempt is acknowledged."""

    end = 1
    output = 2


# Control to agent.


class Welcome(Struct, frozen=True, gc=False):
    """The first frame down. An agent that knows a higher fence closes the session and says nothing."""

    fence: Fence
    beat_ms: int
    lost_after_ms: int
    fresh: bool
    # Not empty: this agent gets no work and ends what it holds (a clone, a banned one).
    refusal: str = ""


class Servers(Struct, frozen=True, gc=False):
    """Where control may be dialled, and where output may be sent; sent after `Welcome` and on change."""

    control: list[str]
    output: list[str]


class Start(Struct, frozen=True, gc=False):
    """Run these; `spec` names a body sent before in `Specs`, `lease_ms` is 0 unless exclusive."""

    keys: Keys
    spec: list[str]
    lease_ms: list[int]


class Stop(Struct, frozen=True, gc=False):
    """End these; repeats only ever make it sooner and harder."""

    keys: Keys
    how: How
    reason: int


class Retract(Struct, frozen=True, gc=False):
    """Give back what has not started."""

    keys: Keys


class Ack(Struct, frozen=True, gc=False):
    """The end, or the output, is durable; the agent forgets an attempt after both."""

    keys: Keys
    what: What


class Specs(Struct, frozen=True, gc=False):
    """Bodies by hash, sent before the first `Start` that names them."""

    hashes: list[str]
    bodies: list[bytes]


class Beat(Struct, frozen=True, gc=False):
    """Nothing else to say; the frame's `seen` is the news. Down: keys whose lease is not renewed."""

    withheld: Keys | None = None


class Moved(Struct, frozen=True, gc=False):
    """This control does not lead (any more); dial that address, or any you know when it is empty."""

    leader: str


# Agent to control.


class Hello(Struct, frozen=True, gc=False):
    """The first frame up: which machine, which boot of it, and the highest fence it obeyed."""

    boot: str
    mark: str
    fence: Fence | None
    names: list[str]
    totals: list[int]
    labels: list[str]
    capabilities: list[str]


class Report(Struct, frozen=True, gc=False):
    """What the agent holds, ended but unacknowledged attempts included (they are told again as `Ended`)."""

    keys: Keys
    term: list[int]
    stage: list[int]
    spec: list[str]


class Reported(Struct, frozen=True, gc=False):
    """The report is whole: `count` attempts. Only now may what is missing be judged."""

    count: int


class Refused(Struct, frozen=True, gc=False):
    """Starts that the agent will not carry out."""

    keys: Keys
    reason: list[int]


class Stages(Struct, frozen=True, gc=False):
    """Attempts that went on to `stage` (soft: told again by a report)."""

    keys: Keys
    stage: list[int]
    at: list[int]


class Ended(Struct, frozen=True, gc=False):
    """Attempts that are over; repeated until acknowledged."""

    keys: Keys
    term: list[int]
    outcome: list[int]
    reason: list[int]
    exit: list[int]
    started: list[int]
    ended: list[int]
    # 1: output follows as its own fact; 0: there is none to wait for.
    output: list[int]


class OutputDone(Struct, frozen=True, gc=False):
    """The stored output of ended attempts is whole (or is known to lack bytes)."""

    keys: Keys
    complete: list[int]
    out_length: list[int]
    err_length: list[int]


class Retracted(Struct, frozen=True, gc=False):
    """Answer to `Retract`: 1 given back, 0 started already."""

    keys: Keys
    yes: list[int]


class Load(Struct, frozen=True, gc=False):
    """A beat up, with the measured load in thousandths of the machine."""

    cpu: int
    memory: int


class Leaving(Struct, frozen=True, gc=False):
    """The agent stops on purpose; with `keep` its work goes on and it means to be back."""

    keep: bool
    back_within_ms: int


Order = Welcome | Servers | Start | Stop | Retract | Ack | Specs | Beat | Moved
Word = Hello | Report | Reported | Refused | Stages | Ended | OutputDone | Retracted | Load | Leaving


class Frame(Struct, frozen=True, gc=False):
    """What travels at once on a session: numbered from 1; `seen` is the last number received from there."""

    number: int
    seen: int
    body: list[Order | Word]
