"""One plane, one store, and agents that are told what to say: for tests that speak both sides by hand."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.model import orders
from fairlead.model.jobs import JobSpec, encode_spec
from fairlead.model.keys import Keys
from fairlead.model.lifecycles import Outcome as Ending
from fairlead.model.lifecycles import Stage
from fairlead.model.limits import Settings
from fairlead.model.reasons import Reason
from fairlead.model.requests import AddToken, Admit, Ask, Look, Reply, Seen, Submit
from fairlead.model.session import Line
from fairlead.model.storage import Fence, LogOp, Op
from fairlead.plane.plane import Plane
from fairlead.plane.words import (
    Answered,
    Answering,
    Asked,
    Closed,
    Effect,
    HangUp,
    Opened,
    Received,
    Send,
    Telling,
    ToLease,
    ToLog,
)
from fairlead.sim.storage import Fate, Handle, Truth

SETTINGS = Settings(lost_after_ms=30_000, lease_ms=600_000, leader_ms=5_000)
LINK = 1


class Agent:
    """One agent's end of a session, as a test plays it."""

    def __init__(self, talk: Conversation, number: int, session: int) -> None:
        self.talk = talk
        self.number = number
        self.session = session
        self.line = Line(talk.now)
        self.heard: list[object] = []
        self.hung_up = False

    def say(self, *words: orders.Word) -> list[Effect]:
        """A frame up."""
        return self.talk.step(Received(self.session, self.line.say(list(words), self.talk.now)))

    def hello(self, cpus: int = 4, boot: str = "boot-1", mark: str = "", fence: Fence | None = None) -> Agent:
        """The first frame of every session."""
        mark = mark or f"mark-{self.number}"
        labels = ["arch=x86_64"]
        self.say(orders.Hello(boot, mark, fence, ["cpu"], [cpus * 1000], labels, []))
        return self

    def ready(self, cpus: int = 4, boot: str = "boot-1") -> Agent:
        """Hello, and a report of nothing."""
        self.hello(cpus, boot)
        self.say(orders.Reported(0))
        return self

    def report(self, keys: Keys, stage: Stage = Stage.running, term: int = 1) -> None:
        """All that it holds."""
        rows = len(keys)
        self.say(
            orders.Report(keys, [term] * rows, [int(stage)] * rows, [""] * rows),
            orders.Reported(keys.total()),
        )

    def end(self, keys: Keys, exit: int = 0, term: int = 1, output: int = 0) -> list[Effect]:
        """These are over."""
        rows = len(keys)
        outcome = Ending.succeeded if exit == 0 else Ending.failed
        return self.say(
            orders.Ended(
                keys,
                [term] * rows,
                [int(outcome)] * rows,
                [int(Reason.exited)] * rows,
                [exit] * rows,
                [self.talk.now] * rows,
                [self.talk.now] * rows,
                [output] * rows,
            )
        )

    def of(self, kind: type) -> list[object]:
        """What was heard of a kind."""
        return [word for word in self.heard if isinstance(word, kind)]

    def started(self) -> list[tuple[int, int, int, int]]:
        """The spans of all start orders."""
        return [span for word in self.of(orders.Start) for span in word.keys.spans()]  # type: ignore[attr-defined]


class Conversation:
    """A plane over a store, both in memory."""

    def __init__(self, truth: Truth | None = None, now: int = 1_000_000) -> None:
        self.truth = truth or Truth("site")
        self.handle: Handle = self.truth.handle()
        self.plane = Plane("127.0.0.1:1", SETTINGS)
        self.now = now
        self.agents: dict[int, Agent] = {}
        self.replies: list[Reply] = []
        self.told: list[Telling] = []
        # Ops that the test answers itself.
        self.holds: Callable[[Op], bool] = lambda op: False
        self.held: list[Op] = []
        self._asks = 0
        self._sessions = 0
        self.step()

    def step(self, *events: object) -> list[Effect]:
        """Step until nothing more comes by itself; all effects that left."""
        waiting = list(events)
        seen: list[Effect] = []
        while True:
            outcome = self.plane.step(waiting, self.now)  # type: ignore[arg-type]
            waiting = []
            for effect in outcome.effects:
                seen.append(effect)
                waiting += self._perform(effect)
            soon = outcome.deadline is not None and outcome.deadline <= self.now
            if not waiting and not soon:
                return seen

    def _perform(self, effect: Effect) -> list[object]:
        match effect:
            case ToLog(op) | ToLease(op):
                if self.holds(op):
                    self.held.append(op)
                    return []
                return [Answered(op, self.handle.perform(op, self.now))]
            case Send(session, frame):
                agent = self.agents.get(session)
                if agent is not None:
                    agent.line.hear(frame, self.now)
                    agent.heard += frame.body
            case HangUp(session):
                if session in self.agents:
                    self.agents[session].hung_up = True
                return [Closed(session)]
            case Answering(_, reply):
                self.replies.append(reply.reply)
            case Telling():
                self.told.append(effect)
        return []

    def pass_time(self, ms: int, every: int = 500) -> None:
        """Let time go by, stepping on the way."""
        end = self.now + ms
        while self.now < end:
            self.now = min(self.now + every, end)
            self.step()

    def answer_held(self, fate: Fate = Fate.ANSWERED) -> list[Effect]:
        """Let the store answer the oldest op that was held."""
        op = self.held.pop(0)
        return self.step(Answered(op, self.handle.perform(op, self.now, fate)))

    def ask(self, request: object) -> Reply:
        """Ask as a front does; the newest reply."""
        self._asks += 1
        before = len(self.replies)
        self.step(Asked(LINK, Ask(self._asks, request)))  # type: ignore[arg-type]
        assert len(self.replies) == before + 1, "no reply left"
        return self.replies[-1]

    def ask_only(self, request: object) -> list[Effect]:
        """Ask, whether or not a reply leaves now."""
        self._asks += 1
        return self.step(Asked(LINK, Ask(self._asks, request)))  # type: ignore[arg-type]

    def submit(self, key: str = "k", **fields: object) -> Reply:
        """One job."""
        return self.ask(submission(key, **fields))

    def job(self, name: str = "job") -> dict[str, object]:
        """A job as people see it."""
        reply = self.ask(Look("jobs", "default", name))
        assert isinstance(reply, Seen), reply
        return reply.items[0]

    def instance(self, index: int = 0, name: str = "job") -> dict[str, object]:
        """An instance as people see it."""
        reply = self.ask(Look("instances", "default", f"{name}/{index}"))
        assert isinstance(reply, Seen), reply
        return reply.items[0]

    def join(self, name: str = "a") -> int:
        """A machine joins; its number."""
        self.ask(AddToken(f"t-{name}", "digest", "agent", "default", 1, 0))
        admitted = self.ask(Admit(f"t-{name}", "digest", "agent", name))
        return admitted.number  # type: ignore[union-attr]

    def connect(self, number: int) -> Agent:
        """A stream of this agent stands."""
        self._sessions += 1
        session = self._sessions * 1000 + number
        agent = self.agents[session] = Agent(self, number, session)
        self.step(Opened(session, number))
        return agent

    def cut(self, agent: Agent) -> None:
        """The stream is over."""
        self.step(Closed(agent.session))

    def successor(self) -> Conversation:
        """Another server takes over the same store once the lease has ended."""
        self.truth.end_lease()
        return Conversation(self.truth, self.now + 1)

    def log_ops(self, effects: list[Effect]) -> list[LogOp]:
        """What was asked of the log line."""
        return [effect.op for effect in effects if isinstance(effect, ToLog)]


def submission(key: str = "k", name: str = "job", **fields: object) -> Submit:
    """A submission of one job."""
    spec = JobSpec(name=name, command=["true"], **fields)  # type: ignore[arg-type]
    return Submit(key, f"digest of {name} {sorted(fields.items())}", "", "default", "me", [encode_spec(spec)])
