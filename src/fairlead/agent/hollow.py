"""An agent that ends whatever it is given at once, with exit 0, in the spans it was given: for measuring.

It speaks to control exactly as a real one does and holds every end until it is acknowledged, but nothing in
it is per instance: what it holds are the records it said, and an acknowledgement usually names one of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from fairlead.agent.contact import Contact
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
    AskReport,
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

BACK_WITHIN_MS = 600_000


class Held(list[tuple[Ended, list[str]]]):
    """What is not acknowledged, as it was said, oldest first, with the specs for a report."""


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
