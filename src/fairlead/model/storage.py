"""What the plane asks of a store, and what a store may answer.

A store is one method, `perform(op) -> answer`. The plane gives one op at a time to each of two lines: the
*log line* (Load, Put, Commit, Trim, in order) and the *lease line* (Campaign, Renew, Resign). Every store
keeps the same promises:

- Put, Trim and Commit are conditional on the leader key that the last Campaign of this store object won.
  When that key is another's, or gone, the answer is Deposed and nothing was written.
- Commit is also conditional on the head of the log: it writes segment n only over head n - 1. Repeating the
  same Commit after an Unanswered cannot apply twice: when head is n already, by our own hand, it is Committed.
  Any other head under a leader key that is ours is a bug of the caller: WrongHead is raised.
- Unanswered means unknown: it may have been written, or not, or may still be written later. Once the same op,
  or another of its kind, was answered, an older attempt can no longer take effect: a late Put never undoes a
  newer one.
- What was answered Committed or Done is durable.
- A Campaign gives up whatever lead this store object still held, so each Elected has a term of its own.

Deliberately absent: a watch, a transaction of the caller's own, a key per instance.
"""

from __future__ import annotations

from msgspec import Struct

LARGEST_WRITE = 1 << 20
"""Bytes of one segment, or of all keys and values of one Put: etcd refuses requests above 1.5 MiB."""


class WrongHead(Exception):
    """A Commit by the rightful leader that does not follow the head of the log: the caller has a bug."""


class Fence(Struct, frozen=True, gc=False, order=True):
    """Which leadership an order or write belongs to; compared in this order. A site is one control plane."""

    site: str
    generation: int
    term: int


class Campaign(Struct, frozen=True, gc=False, tag=True):
    """Try once to become the leader; `address` is what followers are told."""

    address: str
    lease_ms: int


class Renew(Struct, frozen=True, gc=False, tag=True):
    """Keep the lease for another `lease_ms` of the last Campaign."""


class Resign(Struct, frozen=True, gc=False, tag=True):
    """Give the lease back at once, so that a successor need not wait for its end."""


class Load(Struct, frozen=True, gc=False, tag=True):
    """Read every value and every segment."""


class Put(Struct, frozen=True, gc=False, tag=True):
    """Write values by key, all or nothing; None deletes. At most 1 MiB in all."""

    values: dict[str, bytes | None]


class Commit(Struct, frozen=True, gc=False, tag=True):
    """Append segment n to the log."""

    n: int
    segment: bytes


class Trim(Struct, frozen=True, gc=False, tag=True):
    """Forget the segments below n: checkpoints cover them."""

    below: int


class Elected(Struct, frozen=True, gc=False, tag=True):
    """Answer to Campaign: this store object holds the lead, under a term that no leader had before."""

    fence: Fence


class Follower(Struct, frozen=True, gc=False, tag=True):
    """Answer to Campaign: another holds the lead."""

    leader: str


class Renewed(Struct, frozen=True, gc=False, tag=True):
    """Answer to Renew: the lease runs anew, from when the Renew was sent."""


class Loaded(Struct, frozen=True, gc=False, tag=True):
    """Answer to Load: values by key, segments from the oldest kept to the head."""

    values: dict[str, bytes]
    segments: list[tuple[int, bytes]]
    head: int


class Committed(Struct, frozen=True, gc=False, tag=True):
    """Answer to Commit: segment n is durable."""

    n: int


class Done(Struct, frozen=True, gc=False, tag=True):
    """Answer to Put, Trim and Resign."""


class Deposed(Struct, frozen=True, gc=False, tag=True):
    """Answer to anything but Campaign and Load: the lead is another's, or nobody's; this try wrote nothing."""


class Unanswered(Struct, frozen=True, gc=False, tag=True):
    """The store did not answer in time, or the answer was lost: the op may have taken effect or not.

    `why` is for people, but for one word: `nospace` says that the store refuses to grow. Then nothing was
    written, Trim, Renew, Resign and Load go on, and the same op may be repeated when there is room again.
    """

    why: str = ""


LogOp = Load | Put | Commit | Trim
LeaseOp = Campaign | Renew | Resign
Op = LogOp | LeaseOp
Answer = Elected | Follower | Renewed | Loaded | Committed | Done | Deposed | Unanswered


def check_size(op: Op) -> None:
    """Every store refuses the same sizes, so that a simulated run meets the limit before a real one does."""
    size = 0
    if isinstance(op, Commit):
        size = len(op.segment)
    elif isinstance(op, Put):
        size = sum(len(key.encode()) + len(value or b"") for key, value in op.values.items())
    if size > LARGEST_WRITE:
        raise ValueError(f"a write of {size} bytes is above the limit of {LARGEST_WRITE}")
