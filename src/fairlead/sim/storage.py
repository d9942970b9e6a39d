"""The simulator's store: one truth, a handle a server, and every way in which a store can leave one guessing.

Decides what a store would answer: leadership with a lease on the virtual clock, terms, the head of the log,
and what becomes of a write whose answer was lost. It is kept honest by the contract suite that SQLite and etcd
pass too. Deliberately absent: chance and time. The caller passes `now`, and picks the `Fate` of each op.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from fairlead.model.storage import (
    Answer,
    Campaign,
    Commit,
    Committed,
    Deposed,
    Done,
    Elected,
    Fence,
    Follower,
    Load,
    Loaded,
    Op,
    Put,
    Renew,
    Renewed,
    Resign,
    Trim,
    Unanswered,
    WrongHead,
    check_size,
)


class Fate(Enum):
    """What becomes of one op on its way to the store and back."""

    ANSWERED = "answered"
    ANSWER_LOST = "answer lost"  # it took effect; nobody is told
    LOST = "lost"  # it never takes effect
    DELAYED = "delayed"  # it waits in `Truth.delayed` until it is delivered
    NO_SPACE = "no space"  # it reaches a store that takes nothing that makes it grow


class Sent(Struct, frozen=True, gc=False):
    """One op on its way, with the conditions it was sent under."""

    op: Op
    owner: int
    """The handle that sent it."""
    term: int
    """The term its handle had won, 0 for none: the leader key it is conditional on."""
    number: int
    """Its place among all ops sent: a Put takes effect only after older ones, so it never undoes a newer one."""
    campaign: int
    """Which Campaign of its handle it is or follows: a newer one gave up the lease of this one."""


class Lead(Struct):
    """The leader key, bound to a lease that ends at `until`."""

    owner: int
    term: int
    address: str
    lease_ms: int
    until: int


class Truth:
    """What the store holds, whatever its handles believe."""

    def __init__(self, site: str, generation: int = 1) -> None:
        self.site = site
        self.generation = generation
        self.values: dict[str, bytes] = {}
        self.segments: dict[int, bytes] = {}
        self.head = 0
        self.term = 0
        self.sent = 0
        self.last_put = 0
        self.lead: Lead | None = None
        self.delayed: list[Sent] = []
        self.campaigns: list[int] = []

    def handle(self) -> Handle:
        """One more server's way to this store."""
        self.campaigns.append(0)
        return Handle(self, len(self.campaigns) - 1)

    def end_lease(self) -> None:
        """The lease ends before its time: a stalled or reelected store may do that."""
        self.lead = None

    def deliver(self, index: int, now: int) -> None:
        """A delayed op reaches the store at last; its answer reaches nobody."""
        try:
            self.apply(self.delayed.pop(index), now)
        except WrongHead:
            pass  # an older try of a segment that a repeat has written since

    def apply(self, sent: Sent, now: int, room: bool = True) -> Answer:
        """Let one op take effect, if its conditions still hold and there is room for it."""
        if self.lead is not None and now >= self.lead.until:
            self.lead = None
        match sent.op:
            case Load():
                return Loaded(dict(self.values), sorted(self.segments.items()), self.head)
            case Campaign():
                return self._campaign(sent, sent.op, now, room)
        if self.lead is None or self.lead.term != sent.term:
            return Deposed()
        if isinstance(sent.op, Put | Commit) and not room:
            return Unanswered("nospace")
        return self._as_leader(sent, self.lead, now)

    def _campaign(self, sent: Sent, op: Campaign, now: int, room: bool) -> Answer:
        if self.campaigns[sent.owner] != sent.campaign:
            return Unanswered("its lease was given up")
        if self.lead is not None and self.lead.owner != sent.owner:
            return Follower(self.lead.address)
        self.lead = None
        if not room:
            return Unanswered("nospace")
        self.term += 1
        self.lead = Lead(sent.owner, self.term, op.address, op.lease_ms, now + op.lease_ms)
        return Elected(Fence(self.site, self.generation, self.term))

    def _as_leader(self, sent: Sent, lead: Lead, now: int) -> Answer:
        match sent.op:
            case Renew():
                lead.until = now + lead.lease_ms
                return Renewed()
            case Resign():
                self.lead = None
            case Put(values):
                self._put(values, sent.number)
            case Commit(n, segment):
                return self._commit(n, segment)
            case Trim(below):
                self.segments = {n: segment for n, segment in self.segments.items() if n >= below}
        return Done()

    def _put(self, values: dict[str, bytes | None], number: int) -> None:
        if number < self.last_put:
            return
        self.last_put = number
        for key, value in values.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value

    def _commit(self, n: int, segment: bytes) -> Answer:
        if self.head == n - 1:
            self.segments[n] = segment
            self.head = n
        elif self.head != n or self.segments.get(n) != segment:
            raise WrongHead(f"segment {n} does not follow head {self.head}")
        return Committed(n)


class Handle:
    """One server's store: what `perform` answers is all that its plane ever learns."""

    def __init__(self, truth: Truth, owner: int) -> None:
        self.truth = truth
        self.owner = owner
        self.term = 0

    def perform(self, op: Op, now: int, fate: Fate = Fate.ANSWERED) -> Answer:
        """Send one op to its fate; the answer is what the plane is told."""
        return self.arrive(self.send(op), now, fate)

    def arrive(self, sent: Sent, now: int, fate: Fate = Fate.ANSWERED) -> Answer:
        """What was sent meets its fate, under the lead it was sent under, whoever leads by now."""
        if fate is Fate.LOST:
            return Unanswered("lost")
        if fate is Fate.DELAYED:
            self.truth.delayed.append(sent)
            return Unanswered("delayed")
        answer = self.truth.apply(sent, now, room=fate is not Fate.NO_SPACE)
        if fate is Fate.ANSWER_LOST:
            return Unanswered("answer lost")
        if isinstance(answer, Elected):
            self.term = answer.fence.term
        return answer

    def send(self, op: Op) -> Sent:
        """An op on its way: its conditions are settled here, not when it arrives."""
        check_size(op)
        truth = self.truth
        if isinstance(op, Campaign):
            self.term = 0
            truth.campaigns[self.owner] += 1
        truth.sent += 1
        return Sent(op, self.owner, self.term, truth.sent, truth.campaigns[self.owner])
