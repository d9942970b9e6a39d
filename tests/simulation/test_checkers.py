"""Each checker fails on a history in which its invariant does not hold, and only there."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fairlead.model import changes
from fairlead.model.blocks import Row, fill, pack
from fairlead.model.changes import FORMAT, Change, Part
from fairlead.model.jobs import JobSpec, encode_spec
from fairlead.model.keys import one
from fairlead.model.lifecycles import Outcome, State
from fairlead.model.orders import Ack, Beat, Start, What
from fairlead.model.requests import Accepted, Submit
from fairlead.model.storage import Fence
from fairlead.sim.checkers.capacity import Capacity
from fairlead.sim.checkers.durable_first import DurableFirst
from fairlead.sim.checkers.fencing import Fencing
from fairlead.sim.checkers.history import Follow
from fairlead.sim.checkers.idempotence import Idempotence
from fairlead.sim.checkers.lives import Lives
from fairlead.sim.checkers.no_lost_job import NoLostJob
from fairlead.sim.checkers.no_orphans import NoOrphans
from fairlead.sim.checkers.one_process import OneProcess
from fairlead.sim.checkers.output import WholeOutput
from fairlead.sim.checkers.results import Results
from fairlead.sim.checkers.sights import (
    Began,
    Broken,
    Checkpointed,
    Contact,
    Durable,
    Elected,
    Finished,
    Follows,
    Heard,
    Joined,
    Obeys,
    Ordered,
    Replied,
    Settled,
    Sight,
    Told,
)

SUBMIT = Submit("k", "d", "", "t", "me", [])
ACCEPTED = Accepted("s-1", ["j-1"], ["a"])


def began(place: str, attempt: int = 1, at: int = 0, exclusive: bool = False, cpu: int = 1) -> Began:
    return Began(at, place, 1, 1, 0, attempt, 1, {"cpu": cpu}, exclusive)


def finished(place: str = "a1", exit_: int = 0, out: int = 0) -> Finished:
    return Finished(0, place, 1, 0, 1, 1, exit_, out, 0)


def durable(*said: Change, n: int = 1, term: int = 1) -> Durable:
    return Durable(0, Part(FORMAT, n, n, False, term, 1, list(said)))


def submitted(number: int = 1, job: int = 1, key: str = "k") -> Change:
    return changes.Submitted(number, "s", "t", key, "d", "me", [job], ["body"], [[]])


def placed(attempt: int = 1, agent: int = 1) -> Change:
    return changes.Placed(one(1, 0, attempt), [agent])


def ended(attempt: int = 1, then: State = State.succeeded, output: int = 0) -> Change:
    outcome = Outcome.succeeded if then is State.succeeded else Outcome.lost
    facts = ([1], [int(outcome)], [0], [0], [1], [2], [output], [int(then)], [0])
    return changes.Ended(one(1, 0, attempt), *facts)


BODY = changes.SpecsAdded(["body"], [encode_spec(JobSpec("a", ["x"], retry_infrastructure=0))])
BLOCK = b"".join(pack(*block) for block in fill([Row(1, 0, 1, 1, 0, 0, b"abc", True)]))
F1, F2 = Fence("s", 1, 1), Fence("s", 1, 2)

# Checker, a history that holds, and one sight more with which it does not.
CASES: dict[str, tuple[object, list[Sight], Sight]] = {
    "an answer before its commit": (NoLostJob(dict), [], Replied(0, SUBMIT, ACCEPTED)),
    "an accepted job that never ends": (
        NoLostJob(lambda: {"j-1": "running"}),
        [durable(submitted()), Replied(0, SUBMIT, ACCEPTED)],
        Settled(9),
    ),
    "a start that is repeated": (OneProcess(5_000, 0), [began("a1"), finished()], began("a2")),
    "two of an exclusive instance": (
        OneProcess(5_000, 0),
        [began("a1", exclusive=True)],
        began("a2", 2, at=99_000, exclusive=True),
    ),
    "two attempts without a silence": (
        OneProcess(5_000, 0),
        [began("a1"), Contact(9_000, 1, "a1")],
        began("a2", 2, at=9_100),
    ),
    "more than a machine has": (Capacity(), [Joined("a1", 1, {"cpu": 1}), began("a1")], began("a1", 2)),
    "an older leader obeyed": (
        Fencing(),
        [Obeys("a1", F2, F2)],
        Obeys("a1", F1, F2),
    ),
    "a leader obeyed before the disk knows": (Fencing(), [], Obeys("a1", F2, F1)),
    "an older term in the log": (Fencing(), [durable(term=2)], durable(n=2, term=1)),
    "a deposed leader's beat": (
        Fencing(),
        [Elected(1, 1, True), Elected(2, 2, True)],
        Ordered(3, 1, 1, [Beat()]),
    ),
    "a start before its placement": (
        DurableFirst(),
        [durable(submitted())],
        Ordered(1, 1, 1, [Start(one(1, 0, 1), ["body"], [0])]),
    ),
    "an end acknowledged before it is stored": (
        DurableFirst(),
        [durable(submitted(), placed())],
        Ordered(1, 1, 1, [Ack(one(1, 0, 1), What.end)]),
    ),
    "output acknowledged while it is pending": (
        DurableFirst(),
        [durable(submitted(), placed(), ended(output=1))],
        Ordered(1, 1, 1, [Ack(one(1, 0, 1), What.output)]),
    ),
    "a checkpoint ahead of the log": (DurableFirst(), [], Checkpointed("job/1", 5, 4)),
    "a process that outlives everything": (NoOrphans(list), [began("a1")], Settled(9)),
    "something that is still held": (NoOrphans(lambda: ["a1 holds 1.0.1.1"]), [], Settled(9)),
    "output that is not all there": (
        WholeOutput(lambda key, stream, length: b"abcdef"[:length]),
        [finished(out=4)],
        durable(changes.OutputDone(one(1, 0, 1), [2], [4], [0])),
    ),
    "a segment that is left out": (
        Follow(),
        [durable(n=1), durable(n=2), Follows("f", 1, 1, False)],
        Told("f", durable(n=2).part),
    ),
    "a segment that is told twice": (
        Follow(),
        [durable(n=1), durable(n=2), Follows("f", 1, 1, False), Told("f", durable(n=1).part)],
        Told("f", durable(n=1).part),
    ),
    "a follower moved on in silence": (Follow(), [durable(n=1)], Follows("f", 1, 5, False)),
    "an end that is taken back": (
        Lives(20),
        [durable(BODY, submitted(), placed(), ended())],
        durable(placed(2), n=2),
    ),
    "an attempt number used again": (
        Lives(20),
        [durable(BODY, submitted(), placed(), ended(then=State.waiting))],
        durable(placed(1), n=2),
    ),
    "another attempt that nobody pays for": (
        Lives(0),
        [durable(BODY, submitted(), placed())],
        durable(ended(then=State.waiting), n=2),
    ),
    "one key, two submissions": (Idempotence(), [durable(submitted())], durable(submitted(2, 2), n=2)),
    "one key, two answers": (
        Idempotence(),
        [Heard(0, "c", SUBMIT, ACCEPTED)],
        Heard(1, "c", SUBMIT, Accepted("s-2", ["j-2"], ["a"])),
    ),
    "a success that was none": (Results(frozenset()), [finished(exit_=3)], durable(ended())),
}


def show(checker: object, sights: Iterable[Sight]) -> None:
    for sight in sights:
        see = checker.sees.get(type(sight))  # type: ignore[attr-defined]
        if see is not None:
            see(sight)


@pytest.mark.parametrize("name", CASES)
def test_a_broken_history_is_seen_to_be_broken(name: str) -> None:
    checker, good, bad = CASES[name]
    show(checker, good)
    with pytest.raises(Broken):
        show(checker, [bad])


def test_output_that_is_whole_is_believed() -> None:
    from fairlead.sim.checkers.sights import Stored

    checker = WholeOutput(lambda key, stream, length: b"abc"[:length])
    show(checker, [finished(out=3), Stored(BLOCK)])
    show(checker, [durable(changes.OutputDone(one(1, 0, 1), [2], [3], [0]))])
