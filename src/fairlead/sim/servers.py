"""A server: the real plane, stepped as its process would, over a store that may leave it guessing.

Effects are carried out in their order. What the store answers comes back as events; a store op is on its way
for a while, and what becomes of it is drawn. A dead server's memory is gone, a stopped one's inbox waits.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from fairlead.base.dice import Dice
from fairlead.model.limits import Settings
from fairlead.model.orders import Frame, Moved, Start, Welcome
from fairlead.model.requests import Ask, Follow
from fairlead.model.storage import Answer, Done, Op, Put, Unanswered
from fairlead.plane import words
from fairlead.plane.plane import Plane
from fairlead.sim.checkers.sights import Broken, Contact, Ordered, Replied
from fairlead.sim.durable import Record
from fairlead.sim.network import DOWN, Connection, Network
from fairlead.sim.storage import Fate, Handle, Sent
from fairlead.sim.world import Runner, World

# Wall clocks begin here, so that no time is 0 and none is negative after a step back.
EPOCH = 1_600_000_000_000
TIMEOUT_MS = (300, 2_000)


class Trouble(Struct):
    """What becomes of store ops, in thousandths, and for whom the store is away."""

    lost: int = 0
    answer_lost: int = 0
    delayed: int = 0
    full: bool = False
    away: int = 0  # how many faults keep the store from answering anybody
    slow_ms: int = 0
    # By agent: how late the next frame with a start order is, and all behind it.
    late_start: dict[int, int] = {}


class StoreLine:
    """One of a server's two lines to the store: one op at a time."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.out: Op | None = None

    def give(self, op: Op) -> None:
        """Send it; a second one while one is out breaks the plane's word."""
        if self.out is not None:
            raise Broken(
                "one op out", f"{self.server.name} {self.name}: {type(op).__name__} while one is out"
            )
        self.out = op
        server = self.server
        delay = server.dice.between(1, 4 + server.trouble.slow_ms)
        handle = server.handle
        assert handle is not None
        # A request that is on its way arrives even if who sent it dies.
        server.world.after(delay, partial(self._arrive, handle.send(op), handle, server.life))

    def _arrive(self, sent: Sent, handle: Handle, life: int) -> None:
        server = self.server
        op = sent.op
        if (not server.alive or server.life != life) and server.dice.chance(500):
            return
        answer = handle.arrive(sent, server.world.now, self._fate())
        server.record.observe()
        if isinstance(op, Put) and isinstance(answer, Done):
            server.record.put(op)
        wait = (
            server.dice.between(*TIMEOUT_MS) if isinstance(answer, Unanswered) else server.dice.between(0, 2)
        )
        if isinstance(answer, Unanswered) and answer.why == "nospace":
            wait = 1
        server.world.after(wait, partial(self._answered, op, answer, life))

    def _fate(self) -> Fate:
        trouble, dice = self.server.trouble, self.server.dice
        if trouble.away or self.server.store_cut:
            return Fate.LOST if dice.chance(600) else Fate.ANSWER_LOST
        if trouble.full:
            return Fate.NO_SPACE
        draw = dice.below(1000)
        for share, fate in (
            (trouble.lost, Fate.LOST),
            (trouble.answer_lost, Fate.ANSWER_LOST),
            (trouble.delayed, Fate.DELAYED),
        ):
            if draw < share:
                return fate
            draw -= share
        return Fate.ANSWERED

    def _answered(self, op: Op, answer: Answer, life: int) -> None:
        server = self.server
        if server.alive and server.life == life:
            self.out = None
            server.give(words.Answered(op, answer))


class Server(Runner):
    """One control, as a process on a machine of its own."""

    def __init__(
        self,
        world: World,
        net: Network,
        record: Record,
        trouble: Trouble,
        settings: Settings,
        name: str,
        dice: Dice,
    ) -> None:
        super().__init__(world, name)
        self.net = net
        self.record = record
        self.trouble = trouble
        self.settings = settings
        self.dice = dice
        self.address = f"{name}:7411"
        self.plane = Plane(self.address, settings)
        self.handle: Handle | None = None
        # Its wall clock's error, read once a life; its crystal's, in millionths.
        self.wall_error = 0
        self.drift = 0
        self.store_cut = 0
        self._base = self._began = 0
        self.sessions: dict[int, Connection] = {}
        self.agents: dict[int, tuple[int, str]] = {}
        self.links: dict[int, Connection] = {}
        self.asked: dict[tuple[int, int], Ask] = {}
        self.lines: dict[str, StoreLine] = {}
        net.doors[self.address] = (name, self._accept)

    def begin(self) -> None:
        """Start the process."""
        self.plane = Plane(self.address, self.settings)
        self.handle = self.record.truth.handle()
        self._base, self._began = EPOCH + self.world.now + self.wall_error, self.world.now
        self.sessions, self.links, self.asked, self.agents = {}, {}, {}, {}
        self.lines = {name: StoreLine(self, name) for name in ("log", "lease")}
        super().begin()

    def die(self, silent: bool = False) -> None:
        """The process is gone; silent: its machine too, so nobody is told."""
        for connection in [*self.sessions.values(), *self.links.values()]:
            connection.close(DOWN, silent)
        super().die()

    def clock(self) -> int:
        """Monotonic since its start, from the wall clock of then."""
        passed = self.world.now - self._began
        return self._base + passed + passed * self.drift // 1_000_000

    @property
    def term(self) -> int:
        """The term it believes it leads, or 0."""
        fence = self.plane.leadership.fence
        return fence.term if fence is not None and self.plane.core is not None else 0

    def _accept(self, connection: Connection, who: object) -> bool:
        if not self.alive:
            return False
        number = connection.number
        if isinstance(who, tuple):
            agent, place = who
            self.sessions[number] = connection
            self.agents[number] = (agent, place)
            connection.heard[1] = lambda frame: self._frame(number, frame)
            connection.ended[1] = lambda: self._session_over(number)
            self.give(words.Opened(number, agent))
        else:
            self.links[number] = connection
            connection.heard[1] = lambda ask: self._ask(number, ask)
            connection.ended[1] = lambda: self._link_over(number)
        return True

    def _frame(self, session: int, frame: object) -> None:
        assert isinstance(frame, Frame)
        self.give(words.Received(session, frame))

    def _ask(self, link: int, ask: object) -> None:
        assert isinstance(ask, Ask)
        self.asked[link, ask.id] = ask
        self.give(words.Asked(link, ask))

    def _session_over(self, session: int) -> None:
        self.sessions.pop(session, None)
        self.give(words.Closed(session))

    def _link_over(self, link: int) -> None:
        if self.links.pop(link, None) is not None:
            self.asked = {key: ask for key, ask in self.asked.items() if key[0] != link}
            self.give(words.Unlinked(link))

    # The loop.

    def step(self) -> None:
        """What the process around the plane does: step it, carry out its effects, sleep until its deadline."""
        events, self.inbox = self.inbox, []
        outcome = self.plane.step(events, self.clock())  # type: ignore[arg-type]
        self._seen(events)
        for effect in outcome.effects:
            self.world.note(self.name, effect)
            self._perform(effect)
        if outcome.deadline is not None:
            self.plan(max(outcome.deadline - self.clock(), 1))

    def _seen(self, events: list[object]) -> None:
        if not self.term:
            return
        core = self.plane.core
        for event in events:
            if isinstance(event, words.Received) and event.session in self.agents and core is not None:
                agent, place = self.agents[event.session]
                if event.session in core.agents.roster.by_session:
                    self.world.tell(Contact(self.world.now, agent, place))

    def _perform(self, effect: words.Effect) -> None:
        if isinstance(effect, words.ToLog):
            self.lines["log"].give(effect.op)
        elif isinstance(effect, words.ToLease):
            self.lines["lease"].give(effect.op)
        elif isinstance(effect, words.Send):
            self._send(effect)
        elif isinstance(effect, words.HangUp):
            self._hang_up(effect.session)
        elif isinstance(effect, words.Answering):
            self._answer(effect)
        else:
            connection = self.links.get(effect.link)
            if connection is not None:
                connection.say(DOWN, effect.told)

    def _send(self, effect: words.Send) -> None:
        connection = self.sessions.get(effect.session)
        if connection is None:
            return
        orders = [order for order in effect.frame.body if not isinstance(order, Moved)]
        if orders:
            agent, _ = self.agents[effect.session]
            first = orders[0]
            term = first.fence.term if isinstance(first, Welcome) else self.term
            if agent in self.trouble.late_start and any(isinstance(order, Start) for order in orders):
                connection.stall(DOWN, self.trouble.late_start.pop(agent))
            self.world.tell(Ordered(self.world.now, agent, term, orders))  # type: ignore[arg-type]
        connection.say(DOWN, effect.frame)

    def _hang_up(self, session: int) -> None:
        connection = self.sessions.pop(session, None)
        if connection is not None:
            connection.close(DOWN)
            self.give(words.Closed(session))

    def _answer(self, effect: words.Answering) -> None:
        connection = self.links.get(effect.link)
        if connection is None:
            return
        asked = self.asked.get((effect.link, effect.reply.id))
        if asked is not None:
            if not isinstance(asked.request, Follow):
                del self.asked[effect.link, effect.reply.id]
            self.world.tell(Replied(self.world.now, asked.request, effect.reply.reply))
        connection.say(DOWN, effect.reply)
