"""Which agents are in contact, and when silence becomes a loss.

Silence is not death. An agent without a session is suspect at once: nothing new goes there. Its attempts are
given up only after `lost_after` without a word (later, if they are exclusive), never while so many agents are
silent together that the fault is more likely ours.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.model.lifecycles import PRESENCES, Presence, Wanted
from fairlead.model.limits import (
    BRAKE_AGENTS,
    BRAKE_ENDS_SHARE,
    BRAKE_MS,
    BRAKE_SHARE,
    RETURN_MS_PER_AGENT,
    Settings,
)
from fairlead.model.session import Line


class Contact:
    """One agent of the roster: what people want of it, and how it is in touch."""

    __slots__ = (
        "boot",
        "gone",
        "heard_at",
        "labels",
        "leaving",
        "line",
        "mark",
        "name",
        "number",
        "presence",
        "reported",
        "session",
        "told",
        "totals",
        "wanted",
    )

    def __init__(self, number: int, now: int) -> None:
        self.number = number
        self.name = ""
        self.wanted = Wanted.open
        self.boot = ""
        self.mark = ""
        self.presence = Presence.suspect
        self.session = 0
        self.line: Line | None = None
        # Rows told in the report that is coming in.
        self.reported = 0
        # Bodies sent on this session.
        self.told: set[str] = set()
        self.heard_at = now
        self.leaving = False
        # Controllers were told that it fell silent for good.
        self.gone = False
        self.totals: Mapping[str, int] = {}
        self.labels: Mapping[str, str] = {}

    def become(self, presence: Presence) -> None:
        """Go on along the table; to stay is always legal."""
        if presence is not self.presence:
            assert presence in PRESENCES[self.presence], (self.presence, presence)
            self.presence = presence

    @property
    def takes_work(self) -> bool:
        """Whether new work may be placed there."""
        return self.presence is Presence.ready and self.wanted is Wanted.open and not self.leaving


class Roster:
    """All contacts, and the brake."""

    def __init__(self, settings: Settings, now: int) -> None:
        self.settings = settings
        self.started_at = now
        self.contacts: dict[int, Contact] = {}
        self.by_session: dict[int, Contact] = {}
        self.braked_at: int | None = None

    def know(self, number: int) -> Contact:
        """The agent's contact, made when the roster first names it."""
        contact = self.contacts.get(number)
        if contact is None:
            grace = RETURN_MS_PER_AGENT * len(self.contacts)
            contact = self.contacts[number] = Contact(number, self.started_at + grace)
        return contact

    def attach(self, contact: Contact, session: int, line: Line, now: int) -> int:
        """A session speaks for this agent now; the one before it, or 0, is returned."""
        before = contact.session
        self.detach(before)
        contact.session = session
        contact.line = line
        contact.heard_at = now
        contact.reported = 0
        contact.told = set()
        contact.leaving = contact.gone = False
        contact.become(Presence.joining)
        self.by_session[session] = contact
        return before

    def detach(self, session: int) -> Contact | None:
        """A session is over; its agent is suspect at once."""
        contact = self.by_session.pop(session, None)
        if contact is None:
            return None
        contact.session = 0
        contact.line = None
        if contact.presence in (Presence.joining, Presence.ready):
            contact.become(Presence.left if contact.leaving else Presence.suspect)
        return contact

    def silent_since(self, contact: Contact, now: int) -> int:
        """For how many milliseconds nothing was heard."""
        return max(now - contact.heard_at, 0)

    def brakes(self, counted: list[Contact], now: int) -> bool:
        """Whether losses by silence are held back, because too many fell silent together."""
        limit = self.settings.lost_after_ms
        silent = [contact for contact in counted if self.silent_since(contact, now) >= limit]
        if self.braked_at is None:
            too_many = len(silent) * 100 > len(counted) * BRAKE_SHARE and len(silent) > BRAKE_AGENTS
            self.braked_at = now if too_many else None
            return too_many
        healed = len(silent) * 100 < max(len(counted), 1) * BRAKE_ENDS_SHARE
        if healed or now - self.braked_at >= BRAKE_MS:
            self.braked_at = None
            for contact in silent:
                contact.heard_at = now
        return self.braked_at is not None
