"""How an agent leaves: at once with its work running on, or when its work is over and known to be."""

from __future__ import annotations

from fairlead.model.orders import Leaving

# By then an agent that left its work running is back, or counts as silent.
BACK_WITHIN_MS = 600_000
# How long the confirmation of the goodbye is waited for, and how long the last acknowledgements are.
GOODBYE_MS = 2_000
DRAINED_MS = 10_000


class Goodbye:
    """Whether the agent was asked to stop, and since when nothing but waiting is left."""

    def __init__(self) -> None:
        self.asked = False
        self.keep = False
        self._gone = False
        self._since = 0

    def ask(self, keep: bool, now: int) -> None:
        """Stop; asked again, the later wish holds."""
        self.asked = True
        self.keep = keep
        self._since = now

    def word(self) -> Leaving:
        """What control is told."""
        return Leaving(self.keep, BACK_WITHIN_MS if self.keep else 0)

    def is_due(self, now: int, confirmed: bool, live: int, held: int) -> bool:
        """True once: nothing is left to wait for, or it was waited for long enough."""
        if not self.asked or self._gone:
            return False
        if live and not self.keep:
            self._since = now
            return False
        arrived = confirmed and (self.keep or not held)
        self._gone = arrived or now >= self._since + self._patience
        return self._gone

    def deadline(self, live: int) -> int | None:
        """When the waiting is over."""
        if not self.asked or self._gone or (live and not self.keep):
            return None
        return self._since + self._patience

    @property
    def _patience(self) -> int:
        return GOODBYE_MS if self.keep else DRAINED_MS
