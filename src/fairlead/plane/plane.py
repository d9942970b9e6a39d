"""The plane: one server's control, from the store's answers to the last effect. Pure.

`step(events, now)` is the only door. It decides whether this server leads, rebuilds its core from the store
when it begins to, steps the core, and lets effects leave when they may. Losing the lead throws the core away;
nothing else does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial

from fairlead.model import requests
from fairlead.model.changes import encode
from fairlead.model.keys import Keys
from fairlead.model.limits import FOLLOW_BYTES, STEP_ROWS, Settings
from fairlead.model.orders import Frame, Moved, Servers
from fairlead.model.session import Line
from fairlead.model.storage import (
    Answer,
    Campaign,
    Commit,
    Committed,
    Deposed,
    Done,
    Load,
    Loaded,
    Put,
    Renew,
    Resign,
    Trim,
    Unanswered,
)
from fairlead.plane.checkpoints import Checkpoints, load_ledger
from fairlead.plane.core import Core
from fairlead.plane.followers import Followers
from fairlead.plane.journal import Journal, ToSession
from fairlead.plane.leadership import Leadership, News, Role
from fairlead.plane.words import (
    Answered,
    Answering,
    Asked,
    Closed,
    Effect,
    Event,
    HangUp,
    Opened,
    Outcome,
    Received,
    Send,
    Telling,
    ToLease,
    ToLog,
    Unlinked,
)

LOAD_RETRY_MS = 200
MOST_BACKLOG = 10_000


class Plane:
    """One server's control."""

    def __init__(self, address: str, settings: Settings) -> None:
        self.settings = settings
        self.leadership = Leadership(address, settings.leader_ms)
        self.core: Core | None = None
        self.journal: Journal | None = None
        self.checkpoints: Checkpoints | None = None
        self.followers = Followers(FOLLOW_BYTES)
        self.backlog: deque[Event] = deque()
        self.sessions: dict[int, int] = {}
        # Asks that were not answered yet, so that a deposed leader can send them elsewhere.
        self.asks: dict[tuple[int, int], None] = {}
        self.log_asked = False
        # What is out was asked under a lead that is lost: its answer means nothing any more.
        self.log_stale = False
        self.load_at: int | None = None
        # Durable segments that may not be told before the lease is renewed.
        self.untold: list[Telling] = []
        self.out: list[Effect] = []

    def step(self, events: Iterable[Event], now: int) -> Outcome:
        """Take what happened, decide, and say what may be done now."""
        self.out = []
        for event in events:
            if isinstance(event, Answered):
                self._answered(event, now)
            else:
                self.backlog.append(event)
        wake = self._take_backlog(now)
        self._ask_store(now)
        if self.journal is not None and self.leadership.may_act(now):
            self.out.extend(self.untold)
            self.untold = []
            self._release(self.journal, now)
        return Outcome(self.out, self._deadline(wake, now), self._congested())

    # Input.

    def _take_backlog(self, now: int) -> int | None:
        if self.leadership.role is Role.following:
            while self.backlog:
                self._turn_away(self.backlog.popleft(), now)
            return None
        if self.core is None or (self.journal is not None and self.journal.congested):
            return None
        self.core.now = now
        rows = 0
        while self.backlog and rows < STEP_ROWS:
            event = self.backlog.popleft()
            rows += _rows_of(event)
            self._take(self.core, event, now)
        looked = self.core.settle(now)
        return now if self.backlog else looked

    def _take(self, core: Core, event: Event, now: int) -> None:
        match event:
            case Received(session, frame):
                core.hear(session, frame)
            case Opened(session, agent):
                self.sessions[session] = agent
                core.agents.open(session, agent, now)
            case Closed(session):
                self.sessions.pop(session, None)
                core.agents.close(session)
            case Asked(link, ask):
                self._ask(core, link, ask)
            case Unlinked(link):
                self._unlink(link)

    def _ask(self, core: Core, link: int, ask: requests.Ask) -> None:
        self.asks[link, ask.id] = None
        if isinstance(ask.request, requests.Follow):
            reply: requests.Reply = self.followers.add(link, ask.id, ask.request)
            core.agents.tell_servers(self._servers())
        else:
            reply = core.answer(ask.request)
        core.journal.hold(Answering(link, requests.Answer(ask.id, reply)))

    def _unlink(self, link: int) -> None:
        self.followers.remove(link)
        for key in [key for key in self.asks if key[0] == link]:
            del self.asks[key]
        if self.core is not None:
            self.core.agents.tell_servers(self._servers())

    def _servers(self) -> Servers:
        control, output = self.followers.addresses()
        return Servers(sorted({self.leadership.address, *control}), output)

    def _turn_away(self, event: Event, now: int) -> None:
        """Who does not lead says who does."""
        leader = self.leadership.leader
        match event:
            case Opened(session, _):
                self.out.append(Send(session, Line(now).say([Moved(leader)], now)))
                self.out.append(HangUp(session))
            case Asked(link, ask):
                self.out.append(Answering(link, requests.Answer(ask.id, requests.Elsewhere(leader))))
            case Unlinked(link):
                self.followers.remove(link)

    def _congested(self) -> bool:
        return len(self.backlog) > MOST_BACKLOG or (self.journal is not None and self.journal.congested)

    # The store.

    def _answered(self, event: Answered, now: int) -> None:
        if isinstance(event.op, Campaign | Renew | Resign):
            news = self.leadership.answered(event.answer, now)
            if news is News.elected:
                self.load_at = now
            elif news is News.deposed:
                self._depose(now)
            return
        self.log_asked = False
        if self.log_stale:
            self.log_stale = False
        elif isinstance(event.answer, Deposed):
            self._depose(now)
        elif isinstance(event.op, Load):
            self._loaded(event.answer, now)
        elif self.journal is not None:
            self._written(self.journal, event.op, event.answer, now)

    def _loaded(self, answer: Answer, now: int) -> None:
        fence = self.leadership.fence
        if self.leadership.role is not Role.loading or fence is None:
            return
        if not isinstance(answer, Loaded):
            self.load_at = now + LOAD_RETRY_MS
            return
        ledger, segments = load_ledger(answer)
        self.journal = Journal(answer.head, fence.term)
        self.checkpoints = Checkpoints(ledger, answer)
        self.followers.begin(segments, answer.head)
        servers = partial(self.followers.show, self.leadership.address, fence.term)
        self.core = Core(ledger, self.journal, fence, self.settings, now, servers)
        self.core.agents.servers = self._servers()
        self.leadership.role = Role.leading

    def _written(self, journal: Journal, op: object, answer: Answer, now: int) -> None:
        assert self.checkpoints is not None
        match op, answer:
            case Commit(), Committed(n):
                for part in journal.committed(n):
                    segment, told = encode(part), requests.Told(part)
                    self.checkpoints.committed(len(segment))
                    following = self.followers.tell(part.n, segment)
                    self.untold.extend(Telling(link, told) for link in following)
            case Commit(), Unanswered():
                journal.unanswered(now)
            case ((Put() | Trim()), Done()):
                self.checkpoints.done()
            case ((Put() | Trim()), Unanswered()):
                self.checkpoints.unanswered(now)

    def _ask_store(self, now: int) -> None:
        lease = self.leadership.next_op(now)
        if lease is not None:
            self.out.append(ToLease(lease))
        if self.log_asked:
            return
        if self.leadership.role is Role.loading:
            if self.load_at is not None and now >= self.load_at:
                self.load_at = None
                self._log(Load())
        elif self.journal is not None and self.checkpoints is not None:
            op = self.checkpoints.next_op(self.journal, now) or self.journal.next_commit(now)
            if op is not None:
                self._log(op)
            self.checkpoints.capture(self.journal)

    def _log(self, op: Load | Commit | Put | Trim) -> None:
        self.log_asked = True
        self.out.append(ToLog(op))

    def _depose(self, now: int) -> None:
        """Throw the core away: what it had not made durable never happened, what it had is loaded again."""
        self.leadership.step_down(now)
        for session in self.sessions:
            line = self.core.agents.line(session) if self.core else None
            if line is not None:
                self.out.append(Send(session, line.say([Moved("")], now)))
            self.out.append(HangUp(session))
        for link, number in self.asks:
            self.out.append(Answering(link, requests.Answer(number, requests.Elsewhere(""))))
        self.sessions.clear()
        self.asks.clear()
        self.followers.end()
        self.untold = []
        self.core = self.journal = self.checkpoints = None
        self.log_stale = self.log_asked
        self.load_at = None

    # Output.

    def _release(self, journal: Journal, now: int) -> None:
        merged: dict[int, list[object]] = {}
        for effect in journal.release():
            if isinstance(effect, ToSession):
                merged.setdefault(effect.session, []).extend(effect.orders)
                continue
            if isinstance(effect, HangUp):
                self._say(effect.session, merged.pop(effect.session, []), now)
                self.sessions.pop(effect.session, None)
            if isinstance(effect, Answering):
                self._answer_ask(effect)
            else:
                self.out.append(effect)
        for session, orders in merged.items():
            self._say(session, orders, now)

    def _answer_ask(self, effect: Answering) -> None:
        """An ask is answered once; a follower's stays open and is told on until it goes."""
        link, ask = effect.link, effect.reply.id
        if not isinstance(effect.reply.reply, requests.Following):
            self.asks.pop((link, ask), None)
            self.out.append(effect)
            return
        following, parts = self.followers.begin_telling(link, effect.reply.reply)
        self.out.append(Answering(link, requests.Answer(ask, following)))
        self.out.extend(Telling(link, requests.Told(part)) for part in parts)

    def _say(self, session: int, orders: list[object], now: int) -> None:
        line = self.core.agents.line(session) if self.core and orders else None
        if line is not None:
            frame: Frame = line.say(orders, now)  # type: ignore[arg-type]
            self.out.append(Send(session, frame))

    def _deadline(self, wake: int | None, now: int) -> int | None:
        times: Iterator[int | None] = iter(
            (
                wake,
                self.load_at if not self.log_asked else None,
                self.leadership.next_at if self.leadership.asked is None else None,
                self.journal.retry_at if self.journal and not self.log_asked else None,
                self.checkpoints.retry_at if self.checkpoints and not self.log_asked else None,
            )
        )
        known = [time for time in times if time is not None]
        return max(min(known), now) if known else None


def _rows_of(event: Event) -> int:
    """How much work an event is."""
    if not isinstance(event, Received):
        return 1
    rows = 1
    for word in event.frame.body:
        keys = getattr(word, "keys", None)
        rows += len(keys) if isinstance(keys, Keys) else 1
    return rows
