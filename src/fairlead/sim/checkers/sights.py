"""What the checkers see: facts about processes, the store, sessions and answers, as they happen.

A sight names no simulated object, so that a checker can be shown an invented history as well as a real one.
Times are milliseconds of the world's clock.
"""

from __future__ import annotations

from msgspec import Struct

from fairlead.model.changes import Part
from fairlead.model.orders import Order
from fairlead.model.requests import Reply, Request
from fairlead.model.storage import Fence


class Broken(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


class Joined(Struct, frozen=True, gc=False):
    """A machine with so much of everything; `place` tells two machines of one identity apart."""

    place: str
    agent: int
    totals: dict[str, int]


class Began(Struct, frozen=True, gc=False):
    """A process of an attempt runs."""

    at: int
    place: str
    agent: int
    job: int
    index: int
    attempt: int
    term: int
    ask: dict[str, int]
    exclusive: bool


class Finished(Struct, frozen=True, gc=False):
    """It is gone with its whole tree: `exit`, or minus the signal; what it wrote."""

    at: int
    place: str
    job: int
    index: int
    attempt: int
    term: int
    exit: int
    out_length: int
    err_length: int


class Contact(Struct, frozen=True, gc=False):
    """A frame of an agent was taken by the server that leads."""

    at: int
    agent: int
    place: str


class Obeys(Struct, frozen=True, gc=False):
    """An agent does what the leader with this fence says; `kept` is the one on its disk."""

    place: str
    fence: Fence
    kept: Fence | None


class Durable(Struct, frozen=True, gc=False):
    """A part of a whole batch is in the store's log; `leader` is whose lead the store knows then."""

    at: int
    part: Part


class Elected(Struct, frozen=True, gc=False):
    """The store gave the lead to a new term; `lawful`: the lease before had run out or was given back."""

    at: int
    term: int
    lawful: bool


class Ordered(Struct, frozen=True, gc=False):
    """Orders left a server for an agent."""

    at: int
    agent: int
    term: int
    orders: list[Order]


class Asked(Struct, frozen=True, gc=False):
    """Somebody asked something for the first time."""

    at: int
    asker: str
    id: int
    request: Request


class Replied(Struct, frozen=True, gc=False):
    """A reply left a server."""

    at: int
    request: Request
    reply: Reply


class Heard(Struct, frozen=True, gc=False):
    """A reply reached who asked."""

    at: int
    asker: str
    request: Request
    reply: Reply


class Follows(Struct, frozen=True, gc=False):
    """A follower will be told from this segment on; it asked for another one if `resync`."""

    follower: str
    asked: int
    since: int
    resync: bool


class Told(Struct, frozen=True, gc=False):
    """A follower was told a segment."""

    follower: str
    part: Part


class Checkpointed(Struct, frozen=True, gc=False):
    """The store took values that include segments up to this one, when its log went up to `head`."""

    key: str
    includes: int
    head: int


class Stored(Struct, frozen=True, gc=False):
    """A blob of output is in the blob store."""

    body: bytes


class Healed(Struct, frozen=True, gc=False):
    """From now on nothing fails any more."""

    at: int


class Tick(Struct, frozen=True, gc=False):
    """Time went by."""

    at: int


class Settled(Struct, frozen=True, gc=False):
    """The run is over: everything that could end has ended."""

    at: int


Sight = (
    Joined
    | Began
    | Finished
    | Contact
    | Obeys
    | Durable
    | Elected
    | Ordered
    | Asked
    | Replied
    | Heard
    | Follows
    | Told
    | Checkpointed
    | Stored
    | Healed
    | Tick
    | Settled
)
