"""An agent that ends whatever it is given at once, with exit 0, in the spans it was given: for measuring.

It speaks to control exactly as a real one does and holds every end until it is acknowledged, but nothing in
it is per instance: what it holds are the records it said, and an acknowledgement usually names one of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import islice

from fairlead.agent.contact import Contact
from fairlead.agent.leaving import BACK_WITHIN_MS
from fairlead.agent.sound import is_sound
from fairlead.agent.words import (
    Dialled,
    Dropped,
    Effect,
    Event,
    Exit,
    FenceKept,
    Heard,
    Measured,
    Outcome,
    Settings,
    StopAsked,
)
from fairlead.model.keys import Keys
from fairlead.model.lifecycles import Outcome as Ending
from fairlead.model.lifecycles import Stage
from fairlead.model.orders import (
    Ack,
    Ended,
    Leaving,
    Load,
    Order,
    Report,
    Reported,
    Retract,
    Retracted,
    Start,
    Welcome,
    What,
    Word,
)

# Job and attempt number; and which indices, as (first, behind the last).
Line = tuple[int, int]
Stretch = tuple[int, int]


class HollowAgent:
    """The same door as the real agent's, without a keeper and without output."""

    def __init__(self, settings: Settings) -> None:
        self._effects: list[Effect] = []
        self._contact = Contact(settings, self._effects)
        self._held: deque[tuple[Ended, list[str]]] = deque()
        self._words: list[Word] = []
        self._leaving = False
        self._now = self._wall = 0

    def step(self, events: Sequence[Event], now: int, wall: int) -> Outcome:
        """Take events in, give effects out; call again at the deadline at the latest."""
        self._now, self._wall = now, wall
        self._contact.start(now)
        for event in events:
            self._take(event)
        self._contact.run(now)
        if self._contact.open and self._words:
            self._contact.say(self._words, now)
        self._words = []
        if self._leaving and self._contact.confirmed:
            self._effects.append(Exit())
        effects = list(self._effects)
        self._effects.clear()
        return Outcome(effects, self._contact.deadline())

    def _take(self, event: Event) -> None:
        contact, now = self._contact, self._now
        if isinstance(event, Heard):
            self._act(contact.heard(event.session, event.frame, now))
        elif isinstance(event, Dialled):
            contact.dialled(event.session, now)
        elif isinstance(event, Dropped):
            contact.dropped(event.session, now)
        elif isinstance(event, FenceKept):
            self._act(contact.fence_kept(event.fence, now))
        elif isinstance(event, Measured):
            contact.load = Load(event.cpu, event.memory)
        elif isinstance(event, StopAsked):
            self._leaving = True
            self._words.append(Leaving(event.keep, BACK_WITHIN_MS if event.keep else 0))

    def _act(self, orders: list[Order]) -> None:
        for order in orders:
            if not is_sound(order):
                self._contact.hang_up(self._now)
                return
            if isinstance(order, Start):
                self._start(order)
            elif isinstance(order, Ack):
                if order.what == What.end:
                    self._acknowledged(order.keys)
            elif isinstance(order, Welcome):
                self._report()
            elif isinstance(order, Retract):
                self._words.append(Retracted(order.keys, [0] * len(order.keys)))

    def _start(self, order: Start) -> None:
        """What is started is over."""
        rows, wall = len(order.keys), [self._wall] * len(order.keys)
        nought = [0] * rows
        term, outcome = [self._contact.term] * rows, [int(Ending.succeeded)] * rows
        ended = Ended(order.keys, term, outcome, nought, nought, wall, wall, nought)
        self._held.append((ended, order.spec))
        self._words.append(ended)

    def _acknowledged(self, keys: Keys) -> None:
        if self._held and self._held[0][0].keys == keys:
            self._held.popleft()
            return
        acked: dict[Line, list[Stretch]] = {}
        for job, first, count, number in keys.spans():
            acked.setdefault((job, number), []).append((first, first + count))
        for stretches in acked.values():
            stretches.sort()
        left = keys.total()
        kept: list[tuple[Ended, list[str]]] = []
        while self._held and left > 0:
            ended, spec = self._held.popleft()
            before = ended.keys.total()
            rest = _without(ended, spec, acked)
            left -= before - rest[0].keys.total()
            if len(rest[1]):
                kept.append(rest)
        self._held.extendleft(reversed(kept))

    def _report(self) -> None:
        """All that is held, a frame for each record; what was about to be said is in it."""
        self._words = []
        total = 0
        for ended, spec in self._held:
            total += ended.keys.total()
            stage = [int(Stage.ended)] * len(spec)
            self._contact.say([Report(ended.keys, ended.term, stage, spec), ended], self._now)
        self._words.append(Reported(total))


def _without(ended: Ended, spec: list[str], acked: dict[Line, list[Stretch]]) -> tuple[Ended, list[str]]:
    """The record without what is acknowledged."""
    if not any(line in acked for line in zip(ended.keys.job, ended.keys.attempt, strict=True)):
        return ended, spec
    job: list[int] = []
    first: list[int] = []
    count: list[int] = []
    number: list[int] = []
    rows: list[int] = []
    for row, span in enumerate(ended.keys.spans()):
        for start, stop in _subtract((span[1], span[1] + span[2]), acked.get((span[0], span[3]), [])):
            job.append(span[0])
            first.append(start)
            count.append(stop - start)
            number.append(span[3])
            rows.append(row)
    columns = (
        [column[row] for row in rows]
        for column in (
            *(ended.term, ended.outcome, ended.reason, ended.exit),
            *(ended.started, ended.ended, ended.output),
        )
    )
    return Ended(Keys(job, first, count, number), *columns), [spec[row] for row in rows]


def _subtract(stretch: Stretch, gone: list[Stretch]) -> list[Stretch]:
    """What is left of a stretch without those in a sorted list."""
    at, stop = stretch
    left: list[Stretch] = []
    for low, high in islice(gone, max(0, bisect_right(gone, (at, stop)) - 1), None):
        if low >= stop:
            break
        if low > at:
            left.append((at, low))
        at = max(at, high)
    if at < stop:
        left.append((at, stop))
    return left
