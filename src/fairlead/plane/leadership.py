"""Whether this server leads: campaign, renewal, and how long what it decided may still leave.

Effects may leave for two thirds of the lease after the last successful renewal was sent: the successor can
begin only after the whole of it, so nothing that leaves is late by more than a clock's drift.
"""

from __future__ import annotations

from enum import Enum

from fairlead.model.storage import (
    Answer,
    Campaign,
    Deposed,
    Elected,
    Fence,
    Follower,
    LeaseOp,
    Renew,
    Renewed,
)

# Followers ask this often within a lease: what they wait longer is time without a leader.
CAMPAIGN_SHARE = 10
RETRY_MS = 100


class Role(Enum):
    """What this server is at the moment."""

    following = "following"
    loading = "loading"
    leading = "leading"


class News(Enum):
    """What an answer of the lease line changed."""

    nothing = 0
    elected = 1
    deposed = 2


class Leadership:
    """The lease, as far as this server knows it."""

    def __init__(self, address: str, lease_ms: int) -> None:
        self.address = address
        self.lease_ms = lease_ms
        self.role = Role.following
        self.leader = ""
        self.fence: Fence | None = None
        self.asked: LeaseOp | None = None
        self.asked_at = 0
        self.next_at = 0
        self.may_act_until = 0

    def next_op(self, now: int) -> LeaseOp | None:
        """What to ask the store now, if anything."""
        if self.asked is not None or now < self.next_at:
            return None
        following = self.role is Role.following
        self.asked = Campaign(self.address, self.lease_ms) if following else Renew()
        self.asked_at = now
        return self.asked

    def answered(self, answer: Answer, now: int) -> News:
        """The store's word on what was asked."""
        self.asked = None
        if isinstance(answer, Elected):
            self.role = Role.loading
            self.fence = answer.fence
            self.leader = self.address
            self._renewed()
            return News.elected
        if isinstance(answer, Renewed):
            self._renewed()
        elif isinstance(answer, Follower):
            self.leader = answer.leader
            self.next_at = now + self.lease_ms // CAMPAIGN_SHARE
        elif isinstance(answer, Deposed):
            return News.deposed
        else:
            self.next_at = now + RETRY_MS
        return News.nothing

    def _renewed(self) -> None:
        self.may_act_until = self.asked_at + self.lease_ms * 2 // 3
        self.next_at = self.asked_at + self.lease_ms // 3

    def step_down(self, now: int) -> None:
        """The lead is lost; who has it is not known yet."""
        self.role = Role.following
        self.leader = ""
        self.fence = None
        self.next_at = now

    def may_act(self, now: int) -> bool:
        """Whether effects may leave."""
        return now < self.may_act_until
