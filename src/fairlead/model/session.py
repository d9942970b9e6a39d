"""One connection between control and an agent, from either end: numbers, duplicates, gaps, contact.

A session ends at the first sign that a frame was lost; nothing is repaired inside it. The next one starts
from state. Contact means that the other end confirmed a frame of ours: hearing it talk proves only one way.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from .orders import Frame, Order, Word


class Heard(IntEnum):
    """What to do with a received frame."""

    take = 1
    duplicate = 2
    gap = 3


class Line:
    """The state of one end of one session."""

    __slots__ = ("confirmed_at", "heard", "heard_at", "sent", "unconfirmed")

    def __init__(self, now: int) -> None:
        self.sent = 0
        self.heard = 0
        self.heard_at = now
        # When the last of our frames was sent that the other end has confirmed.
        self.confirmed_at = now
        # (number, sent at) of frames that await their confirmation, oldest first.
        self.unconfirmed: list[tuple[int, int]] = []

    def say(self, body: Sequence[Order | Word], now: int) -> Frame:
        """The next frame down this line."""
        self.sent += 1
        self.unconfirmed.append((self.sent, now))
        return Frame(self.sent, self.heard, list(body))

    def hear(self, frame: Frame, now: int) -> Heard:
        """Take note of a frame's numbers; only a `take` may be acted on."""
        if frame.number <= self.heard:
            return Heard.duplicate
        if frame.number != self.heard + 1:
            return Heard.gap
        self.heard = frame.number
        self.heard_at = now
        while self.unconfirmed and self.unconfirmed[0][0] <= frame.seen:
            self.confirmed_at = self.unconfirmed.pop(0)[1]
        return Heard.take

    def waits_since(self) -> int | None:
        """When the oldest unconfirmed frame was sent."""
        return self.unconfirmed[0][1] if self.unconfirmed else None
