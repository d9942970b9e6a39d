"""What becomes durable: changes in columns, and the segment that carries them.

A change is a fact, never an intention to compute something later: whoever reads the log, a loader of a later
release or a follower of events, needs no policy to know what became of an instance.
A batch larger than a segment is several parts; a part whose last part does not follow is void.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from .keys import Keys

FORMAT = 1
# A segment's size; etcd refuses values of 1.6 MiB.
SEGMENT_BYTES = 1 << 20
# One change of a submission is never split: its jobs begin together.
SUBMISSION_BYTES = SEGMENT_BYTES * 8 // 10
# What a row of columns weighs at most, about.
ROW_BYTES = 64


class SpecsAdded(Struct, frozen=True, gc=False, tag="specs"):
    """Bodies by hash. They travel in the segment that first names them: one write from submit to start."""

    hashes: list[str]
    bodies: list[bytes]


class Submitted(Struct, frozen=True, gc=False, tag="submitted"):
    """A submission and its jobs; `needs` as (job, on) by job."""

    submission: int
    name: str
    tenant: str
    key: str
    digest: str
    caller: str
    job: list[int]
    spec: list[str]
    needs: list[list[tuple[int, str]]]


class Placed(Struct, frozen=True, gc=False, tag="placed"):
    """Attempts bound to agents, under the segment's term."""

    keys: Keys
    agent: list[int]


class Ended(Struct, frozen=True, gc=False, tag="ended"):
    """Attempts that are over, and what their instances became (`then`: a State; waiting means again)."""

    keys: Keys
    agent: list[int]
    outcome: list[int]
    reason: list[int]
    exit: list[int]
    started: list[int]
    ended: list[int]
    output: list[int]
    then: list[int]
    # 1 where the infrastructure budget, 2 where the job's own budget is charged, 0 where none.
    charge: list[int]


class Closed(Struct, frozen=True, gc=False, tag="closed"):
    """Instances closed without an attempt."""

    keys: Keys
    state: list[int]
    reason: list[int]


class OutputDone(Struct, frozen=True, gc=False, tag="output"):
    """Stored output that is whole, or known not to be."""

    keys: Keys
    output: list[int]
    out_length: list[int]
    err_length: list[int]


class CancelWanted(Struct, frozen=True, gc=False, tag="cancel"):
    """Somebody wants these jobs ended."""

    job: list[int]
    reason: list[int]


class Detached(Struct, frozen=True, gc=False, tag="detached"):
    """The callers of these jobs left them on purpose: they go on without."""

    job: list[int]


class AgentAdded(Struct, frozen=True, gc=False, tag="agent"):
    """A machine joined and has a number; one of those that come together uses up the token."""

    number: int
    name: str
    token: str
    charged: bool = True


class AgentBooted(Struct, frozen=True, gc=False, tag="booted"):
    """The boot and mark under which an agent was last accepted."""

    number: int
    boot: str
    mark: str


class AgentWanted(Struct, frozen=True, gc=False, tag="wanted"):
    """What people want of an agent."""

    number: int
    wanted: int
    reason: str


class TokenAdded(Struct, frozen=True, gc=False, tag="token"):
    """A token of which only the digest of the secret is kept; uses -1: without bound."""

    id: str
    digest: str
    role: str
    tenant: str
    uses: int
    expires: int


class TokenRevoked(Struct, frozen=True, gc=False, tag="revoked"):
    """A token that opens nothing any more."""

    id: str


Change = (
    SpecsAdded
    | Submitted
    | Placed
    | Ended
    | Closed
    | OutputDone
    | CancelWanted
    | Detached
    | AgentAdded
    | AgentBooted
    | AgentWanted
    | TokenAdded
    | TokenRevoked
)


class Part(Struct, frozen=True, gc=False):
    """One segment: a batch, or one part of it. `batch` is the number of the batch's first part."""

    format: int
    n: int
    batch: int
    more: bool
    term: int
    at: int
    changes: list[Change]


_decode = msgspec.msgpack.Decoder(Part).decode
_encode = msgspec.msgpack.Encoder().encode


def encode(part: Part) -> bytes:
    """A part as it is stored."""
    return _encode(part)


def decode(data: bytes) -> Part:
    """A stored part; raises msgspec.DecodeError for bytes that are none."""
    return _decode(data)


def size(change: Change) -> int:
    """How many bytes a change takes in a segment."""
    return len(_encode(change))


def weigh(change: Change) -> int:
    """At most about how many bytes a change takes: enough to tell one segment from many."""
    if isinstance(change, SpecsAdded):
        return sum(len(body) + 80 for body in change.bodies)
    if isinstance(change, Submitted):
        words = (change.name, change.tenant, change.key, change.digest, change.caller)
        return (
            200 + sum(4 * len(word) for word in words) + sum(90 + 20 * len(needs) for needs in change.needs)
        )
    keys = getattr(change, "keys", None)
    return 40 + ROW_BYTES * len(keys) if isinstance(keys, Keys) else 300


def select(change: Change, rows: Sequence[int]) -> Change:
    """Some rows of a change of columns, as a change of its own."""
    columns: dict[str, Any] = {}
    for field in msgspec.structs.fields(change):
        value = getattr(change, field.name)
        if isinstance(value, Keys):
            columns[field.name] = Keys(
                *(
                    [column[row] for row in rows]
                    for column in (value.job, value.first, value.count, value.attempt)
                )
            )
        else:
            columns[field.name] = [value[row] for row in rows] if isinstance(value, list) else value
    return type(change)(**columns)
