"""The attempts an agent holds, from their start order until both their facts are acknowledged.

Decides what an end means: which outcome and reason follow from how the keeper saw it and what was ordered
before. An attempt is found by its key, or by job, index and number; it is kept by the keeper too, in the
text that `note` makes and `read_note` reads back, so a restarted agent knows all it held.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from fairlead.agent.words import Why, key_of
from fairlead.model.lifecycles import Outcome, Stage
from fairlead.model.orders import How
from fairlead.model.reasons import Reason


class Note(Struct, frozen=True, gc=False, array_like=True):
    """What must be known of an attempt after a restart."""

    job: int
    index: int
    number: int
    term: int
    spec: str
    lease_ms: int
    output_bytes: int
    ask: list[tuple[str, int]]

    @property
    def key(self) -> str:
        """How core, keeper and spool name it."""
        return key_of(self.job, self.index, self.number, self.term)


_decode_note = msgspec.json.Decoder(Note).decode
_encode_note = msgspec.json.Encoder().encode


def write_note(note: Note) -> str:
    """The text that the keeper keeps."""
    return _encode_note(note).decode()


def read_note(text: str, key: str) -> Note | None:
    """The note behind a text, or None when it is none of ours or not that attempt's."""
    try:
        note = _decode_note(text)
    except msgspec.MsgspecError:
        return None
    return note if note.key == key else None


class End(Struct, frozen=True, gc=False):
    """How an attempt ended. `exit` is its code, or minus its signal; `output`: 1 when there is any."""

    outcome: Outcome
    reason: Reason
    exit: int
    started: int
    ended: int
    output: int


class Attempt:
    """One attempt; `stage` and what was ordered of it change, `note` does not."""

    __slots__ = ("end", "end_known", "how", "key", "note", "output_known", "reason", "stage", "started")

    def __init__(self, note: Note) -> None:
        self.note = note
        self.key = note.key
        self.stage = Stage.starting
        self.started = 0
        # What was ordered to end it, and why; the first reason stays.
        self.how: How | None = None
        self.reason = Reason.none
        self.end: End | None = None
        # Whether its end, and its output, are acknowledged.
        self.end_known = False
        self.output_known = False

    @property
    def over(self) -> bool:
        """Nothing of it is left to be acknowledged."""
        return self.end is not None and self.end_known and (self.output_known or not self.end.output)

    def order(self, how: How, reason: Reason) -> bool:
        """Take note of an order to end it; True when that is sooner or harder than what was ordered."""
        if self.end is not None or (self.how is not None and how <= self.how):
            return False
        if self.how is None:
            self.reason = reason
        self.how = how
        self.stage = Stage.ending
        return True


# What an ordered end counts as; whatever is not here is cancelled.
_ORDERED: dict[Reason, Outcome] = {
    Reason.output_limit: Outcome.failed,
    Reason.spool_full: Outcome.lost,
    Reason.agent_unfit: Outcome.lost,
    Reason.superseded: Outcome.lost,
    Reason.vanished: Outcome.lost,
    Reason.agent_silent: Outcome.lost,
    Reason.unclaimed: Outcome.lost,
    Reason.run_limit: Outcome.timed_out,
}

_SEEN: dict[Why, tuple[Outcome, Reason]] = {
    Why.run_limit: (Outcome.timed_out, Reason.run_limit),
    Why.lease: (Outcome.lost, Reason.lease_ended),
    Why.out_of_memory: (Outcome.failed, Reason.out_of_memory),
    Why.abandoned: (Outcome.lost, Reason.keeper_lost),
}

# What a shell would answer for a command that cannot be run.
FAILED_EXITS = {Reason.not_found: 127, Reason.not_executable: 126}


def judge(attempt: Attempt, why: Why, code: int, signal: int) -> tuple[Outcome, Reason, int]:
    """Outcome, reason and exit of a process that is over."""
    exit_ = -signal if signal else code
    if why is Why.ordered and attempt.how is None:
        # Not by us: the keeper itself was told to end, as when a machine is shut down.
        why = Why.abandoned
    if why is Why.ordered:
        reason = attempt.reason or Reason.cancelled_by_user
        return _ORDERED.get(reason, Outcome.cancelled), reason, exit_
    if why in _SEEN:
        return *_SEEN[why], exit_
    if signal:
        return Outcome.failed, Reason.signalled, exit_
    if code:
        return Outcome.failed, Reason.exited, exit_
    return Outcome.succeeded, Reason.none, 0


class Attempts:
    """All attempts held, by key and by instance."""

    def __init__(self) -> None:
        self.by_key: dict[str, Attempt] = {}
        # job, index: its attempts, the highest number last.
        self._jobs: dict[int, dict[int, list[Attempt]]] = {}
        # How many have not ended.
        self.live = 0

    def __len__(self) -> int:
        return len(self.by_key)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self.by_key.values())

    def add(self, attempt: Attempt) -> None:
        """Hold one more."""
        note = attempt.note
        self.by_key[attempt.key] = attempt
        tries = self._jobs.setdefault(note.job, {}).setdefault(note.index, [])
        tries.append(attempt)
        tries.sort(key=lambda one: one.note.number)
        self.live += attempt.end is None

    def close(self, attempt: Attempt, end: End) -> None:
        """It is over; it is held until that is acknowledged."""
        attempt.end = end
        attempt.stage = Stage.ended
        self.live -= 1

    def drop(self, attempt: Attempt) -> None:
        """Hold it no more."""
        note = attempt.note
        del self.by_key[attempt.key]
        self.live -= attempt.end is None
        indices = self._jobs[note.job]
        indices[note.index].remove(attempt)
        if not indices[note.index]:
            del indices[note.index]
        if not indices:
            del self._jobs[note.job]

    def indices(self, job: int, first: int, count: int) -> list[int]:
        """The instances of a span of which an attempt is held, in order; never longer than what is held."""
        held = self._jobs.get(job)
        if held is None:
            return []
        if count <= len(held):
            return [index for index in range(first, first + count) if index in held]
        return sorted(index for index in held if first <= index < first + count)

    def highest(self, job: int, index: int) -> Attempt:
        """The newest attempt of an instance of which one is held."""
        return self._jobs[job][index][-1]

    def of_span(self, job: int, first: int, count: int, number: int) -> Iterator[Attempt]:
        """The held attempts that a span names."""
        for index in self.indices(job, first, count):
            for attempt in tuple(self._jobs[job][index]):
                if attempt.note.number == number:
                    yield attempt
