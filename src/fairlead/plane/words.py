"""What goes into a step of the plane, and what comes out.

The shell and the simulator speak these words and no others. An effect in an `Outcome` may be performed at
once: whatever had to become durable first already has.
"""

from __future__ import annotations

from msgspec import Struct

from fairlead.model.orders import Frame
from fairlead.model.requests import Answer as Reply
from fairlead.model.requests import Ask, Told
from fairlead.model.storage import Answer, LeaseOp, LogOp, Op

# Into a step.


class Opened(Struct, frozen=True, gc=False):
    """A session of an agent began; its number is the one in its certificate. Session numbers never repeat."""

    session: int
    agent: int


class Received(Struct, frozen=True, gc=False):
    """A frame came up a session."""

    session: int
    frame: Frame


class Closed(Struct, frozen=True, gc=False):
    """A session is over, whoever ended it."""

    session: int


class Asked(Struct, frozen=True, gc=False):
    """A front asks something on its link."""

    link: int
    ask: Ask


class Unlinked(Struct, frozen=True, gc=False):
    """A front's link is over."""

    link: int


class Answered(Struct, frozen=True, gc=False):
    """The store answered the op that was given to it."""

    op: Op
    answer: Answer


Event = Opened | Received | Closed | Asked | Unlinked | Answered

# Out of a step.


class ToLog(Struct, frozen=True, gc=False):
    """Give this to the store's log line. At most one is out at a time."""

    op: LogOp


class ToLease(Struct, frozen=True, gc=False):
    """Give this to the store's lease line. At most one is out at a time."""

    op: LeaseOp


class Send(Struct, frozen=True, gc=False):
    """A frame down a session."""

    session: int
    frame: Frame


class HangUp(Struct, frozen=True, gc=False):
    """End a session, after what was sent on it before."""

    session: int


class Answering(Struct, frozen=True, gc=False):
    """The reply to an ask, on its link."""

    link: int
    reply: Reply


class Telling(Struct, frozen=True, gc=False):
    """A segment that is durable, to a link that follows."""

    link: int
    told: Told


Effect = ToLog | ToLease | Send | HangUp | Answering | Telling


class Outcome(Struct, frozen=True, gc=False):
    """Effects in order, when to step again at the latest, and whether input should wait (back-pressure)."""

    effects: list[Effect]
    deadline: int | None
    congested: bool = False
