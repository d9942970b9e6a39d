"""An agent's way to control: whom to dial and when, which leader to obey, when a session is dead.

A leader is obeyed only after its fence is kept on disk; one with a lower fence, or of another site, is left
at once. Contact is the sending time of the last of our frames that control confirmed: leases count from it.
"""

from __future__ import annotations

from fairlead.agent.words import Dial, Effect, HangUp, KeepAddresses, KeepFence, Say, Settings
from fairlead.base.dice import Dice
from fairlead.model.orders import (
    Frame,
    Hello,
    Load,
    Moved,
    Order,
    Servers,
    Welcome,
    Word,
)
from fairlead.model.session import Heard as Verdict
from fairlead.model.session import Line
from fairlead.model.storage import Fence

# Until a Welcome says how often to beat.
FIRST_BEAT_MS = 3_000
# This many beats without a confirmation end a session.
MISSED_BEATS = 3
# A dial that was not answered by then is given up.
DIAL_MS = 10_000
# The first wait after a failed dial; it doubles up to the last.
FIRST_WAIT_MS = 250
LONGEST_WAIT_MS = 10_000
# An agent is lost after this many longest waits, so that a failover costs it some of them and not its work.
WAITS_TO_LOSS = 4
# Followers may name each other for a moment: after so many hops without a leader there is a wait.
MOST_HOPS = 2
MOST_ADDRESSES = 32


class Contact:
    """The one session an agent has, or the way to the next one."""

    def __init__(self, settings: Settings, effects: list[Effect]) -> None:
        self._settings = settings
        self._effects = effects
        self._dice = Dice(settings.seed)
        self.addresses = list(settings.control)
        self.output = list(settings.output)
        self._at = 0
        self._sessions = 0
        self._failures = 0
        self._hops = 0
        self._longest_wait = LONGEST_WAIT_MS
        self._dial_at: int | None = None
        self._dialled_at = 0
        self.session = 0
        self._line: Line | None = None
        self.welcome: Welcome | None = None
        self.fence = settings.fence
        # The highest fence kept or on its way to the disk; orders wait in the inbox until it is there.
        self._highest = settings.fence
        self._inbox: list[Order] = []
        self._beat_at = 0
        self.load = Load(0, 0)

    @property
    def open(self) -> bool:
        """A leader is obeyed: what is said now reaches it, or the session ends."""
        return self._line is not None and self.welcome is not None

    @property
    def confirmed(self) -> bool:
        """Everything said so far has arrived."""
        return self._line is None or not self._line.unconfirmed

    @property
    def contact_at(self) -> int:
        """When the last frame was sent of which control is known to have heard."""
        return self._line.confirmed_at if self._line is not None else 0

    @property
    def term(self) -> int:
        """The term whose orders are obeyed."""
        return self.fence.term if self.fence is not None else 0

    def start(self, now: int) -> None:
        """From now on there may be a session."""
        if not self.session and self._dial_at is None:
            self._dial_at = now

    def dialled(self, session: int, now: int) -> None:
        """A stream stands: say who we are."""
        if session != self.session or self._line is not None:
            return
        self._line = Line(now)
        self._beat_at = now + FIRST_BEAT_MS
        known = self._settings
        self.say(
            [Hello(known.boot, known.mark, self.fence, known.names, known.totals, known.labels, ["columns"])],
            now,
        )

    def dropped(self, session: int, now: int) -> None:
        """A session is over without our doing."""
        if session == self.session and session:
            self._end(now)

    def heard(self, session: int, frame: Frame, now: int) -> list[Order]:
        """The orders of a frame that may be acted on, in order."""
        if session != self.session or self._line is None:
            return []
        verdict = self._line.hear(frame, now)
        if verdict is Verdict.gap:
            self.hang_up(now)
        if verdict is not Verdict.take:
            return []
        self._inbox.extend(order for order in frame.body if isinstance(order, Order))
        return self._drain(now)

    def fence_kept(self, fence: Fence, now: int) -> list[Order]:
        """A fence is on disk; what waited for it may be acted on."""
        if self.fence is None or fence > self.fence:
            self.fence = fence
        return self._drain(now)

    def say(self, words: list[Word], now: int) -> None:
        """One frame up the session."""
        if self._line is not None:
            self._effects.append(Say(self.session, self._line.say(words, now)))

    def hang_up(self, now: int) -> None:
        """End the session, and look for another leader."""
        if self.session:
            self._effects.append(HangUp(self.session))
            self._end(now)

    def run(self, now: int) -> None:
        """Whatever is due: a beat, the end of a dead session, a dial."""
        if self._line is not None:
            waits = self._line.waits_since()
            if waits is not None and now - waits >= MISSED_BEATS * self._beat_ms():
                self.hang_up(now)
            elif self.open and now >= self._beat_at:
                self._failures = 0
                self._beat_at = now + self._beat_ms()
                self.say([self.load], now)
        elif self.session and now - self._dialled_at >= DIAL_MS:
            self.hang_up(now)
        if not self.session and self._dial_at is not None and now >= self._dial_at:
            self._dial(now)

    def deadline(self) -> int | None:
        """When `run` has something to do again."""
        if self._line is not None:
            waits = self._line.waits_since()
            dead = None if waits is None else waits + MISSED_BEATS * self._beat_ms()
            due = [self._beat_at if self.open else None, dead]
            return min((at for at in due if at is not None), default=None)
        return self._dialled_at + DIAL_MS if self.session else self._dial_at

    def _drain(self, now: int) -> list[Order]:
        ready: list[Order] = []
        while self._inbox:
            order = self._inbox[0]
            if isinstance(order, Welcome):
                if not self._obeys(order.fence):
                    self.hang_up(now)
                    break
                if self.fence != order.fence:
                    break
            self._inbox.pop(0)
            self._take(order, ready, now)
        return ready

    def _take(self, order: Order, ready: list[Order], now: int) -> None:
        """One order, its fence kept."""
        if isinstance(order, Welcome) == (self.welcome is not None) and not isinstance(order, Moved):
            # A second Welcome, or anything before the first.
            self.hang_up(now)
        elif isinstance(order, Welcome):
            self.welcome = order
            self._hops = 0
            self._longest_wait = min(
                LONGEST_WAIT_MS, max(FIRST_WAIT_MS, order.lost_after_ms // WAITS_TO_LOSS)
            )
            self._beat_at = now + self._beat_ms()
            ready.append(order)
        elif isinstance(order, Servers):
            self._remember(order)
        elif isinstance(order, Moved):
            self._move(order.leader, now)
        else:
            ready.append(order)

    def _obeys(self, fence: Fence) -> bool:
        """True when that leader may be obeyed, now or once its fence is kept."""
        highest = self._highest
        if highest is not None and (fence.site != highest.site or fence < highest):
            return False
        if highest is None or fence > highest:
            self._highest = fence
            self._effects.append(KeepFence(fence))
        return True

    def _remember(self, servers: Servers) -> None:
        """What a leader names comes first. It may not know of all others yet, so those known stay behind."""
        here = self.addresses[self._at % len(self.addresses)] if self.addresses else ""
        known = [*servers.control, *(one for one in self.addresses if one not in servers.control)]
        self.addresses = known[:MOST_ADDRESSES]
        self._at = self.addresses.index(here) if here in self.addresses else 0
        self.output = list(servers.output or self.output)
        self._effects.append(KeepAddresses(self.addresses, self.output))

    def _move(self, leader: str, now: int) -> None:
        jitter = self._dice.between(0, self._beat_ms() // 20)
        self.hang_up(now)
        if not leader:
            return
        if leader not in self.addresses:
            self.addresses = [leader, *self.addresses[: MOST_ADDRESSES - 1]]
        self._at = self.addresses.index(leader)
        self._hops += 1
        if self._hops <= MOST_HOPS:
            self._dial_at = now + jitter
        else:
            self._hops = 0

    def _dial(self, now: int) -> None:
        if not self.addresses:
            self._dial_at = None
            return
        self._sessions += 1
        self.session = self._sessions
        self._dialled_at = now
        self._dial_at = None
        self._effects.append(Dial(self.session, self.addresses[self._at % len(self.addresses)]))

    def _end(self, now: int) -> None:
        """No session any more: the next address, after a wait that grows until a session lasts."""
        if self.welcome is not None and not self._failures:
            wait = self._dice.between(0, self._beat_ms() // 10)
        else:
            longest = min(FIRST_WAIT_MS << min(self._failures, 10), self._longest_wait)
            wait = self._dice.between(longest // 2, longest)
        self._failures += 1
        self._at += 1
        self._dial_at = now + wait
        self.session = 0
        self._line = None
        self.welcome = None
        self._inbox.clear()

    def _beat_ms(self) -> int:
        return max(1, self.welcome.beat_ms) if self.welcome is not None else FIRST_BEAT_MS
