"""A conversation with an agent's core: the test plays control, keeper, disk and front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from fairlead.agent.core import Agent
from fairlead.agent.hollow import HollowAgent
from fairlead.agent.words import (
    Dial,
    Dialled,
    Effect,
    Event,
    FenceKept,
    Heard,
    KeeperEnded,
    KeeperFailed,
    KeeperListed,
    KeeperStarted,
    KeepFence,
    Say,
    Settings,
    Spawn,
    Why,
)
from fairlead.model.jobs import JobSpec, encode_spec
from fairlead.model.keys import Keys, one
from fairlead.model.orders import Order, Servers, Specs, Start, Welcome, Word
from fairlead.model.reasons import Reason
from fairlead.model.session import Line
from fairlead.model.storage import Fence

T = TypeVar("T")
BEAT = 1_000
WALL = 1_700_000_000_000
FENCE = Fence("site", 1, 5)
NONE = KeeperEnded([], [], [], [], [], [], [], [])
NOTHING = KeeperListed({}, KeeperStarted([], []), NONE, KeeperFailed([], []))


def settings(**changes: object) -> Settings:
    """A small machine; the changes are fields of `Settings`."""
    fields: dict[str, object] = {
        "name": "one",
        "boot": "b",
        "mark": "m",
        "names": ["cpu", "memory"],
        "totals": [4_000, 8 << 30],
        "labels": ["os=linux"],
        "control": ["c1:1", "c2:1"],
        "environment": {"PATH": "/bin"},
    }
    return Settings(**{**fields, **changes})  # type: ignore[arg-type]


class Talk:
    """One core and all that surrounds it."""

    def __init__(self, core: Agent | HollowAgent | None = None) -> None:
        self.core = core or Agent(settings())
        self.now = 10_000
        self.deadline: int | None = None
        self.session = 0
        self.line = Line(0)
        # Everything since the last `clear`.
        self.effects: list[Effect] = []
        self.keeps_fences = True

    def step(self, *events: Event) -> list[Effect]:
        """One step; fences are kept at once unless the test says otherwise."""
        outcome = self.core.step(events, self.now, WALL + self.now)
        self.deadline = outcome.deadline
        effects = list(outcome.effects)
        self.effects += effects
        for effect in effects:
            if isinstance(effect, Dial):
                self.session = effect.session
                self.line = Line(self.now)
            elif isinstance(effect, Say) and effect.session == self.session:
                self.line.hear(effect.frame, self.now)
        if self.keeps_fences:
            for effect in effects:
                if isinstance(effect, KeepFence):
                    effects += self.step(FenceKept(effect.fence))
        return effects

    def later(self, ms: int) -> list[Effect]:
        """Time passes; the core is stepped whenever it asked for it."""
        until = self.now + ms
        effects: list[Effect] = []
        while self.deadline is not None and self.deadline <= until:
            self.now = max(self.now, self.deadline)
            effects += self.step()
        self.now = until
        return effects + self.step()

    def say(self, *orders: Order) -> list[Effect]:
        """Control says something on the session."""
        return self.step(Heard(self.session, self.line.say(orders, self.now)))

    def meet(self, fence: Fence = FENCE, listed: KeeperListed = NOTHING) -> None:
        """From nothing to an agent that obeys a leader."""
        self.step(listed)
        self.greet(fence)

    def greet(self, fence: Fence = FENCE) -> None:
        """The dial that the agent asked for stands, and a leader welcomes it."""
        self.step(Dialled(self.session))
        self.say(Welcome(fence, BEAT, 3 * BEAT, True), Servers(["c1:1", "c2:1"], ["f1:1", "f2:1"]))

    def all(self, kind: type[T]) -> list[T]:
        """Every effect of a kind since the last `clear`."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def said(self, kind: type[T]) -> list[T]:
        """Every word of a kind since the last `clear`."""
        words: list[Word | Order] = [word for say in self.all(Say) for word in say.frame.body]
        return [word for word in words if isinstance(word, kind)]

    def clear(self) -> None:
        """Forget what was done so far."""
        self.effects.clear()

    def start(self, keys: Keys, lease_ms: int = 0, **fields: object) -> list[Spawn]:
        """Control starts these; the processes that the agent wants for it."""
        name, body = spec(**fields)
        rows = len(keys)
        effects = self.say(Specs([name], [body]), Start(keys, [name] * rows, [lease_ms] * rows))
        return [effect for effect in effects if isinstance(effect, Spawn)]

    def run(self, index: int = 0, number: int = 1, lease_ms: int = 0, **fields: object) -> str:
        """One attempt of job 7 that runs; its key."""
        (spawn,) = self.start(one(7, index, number), lease_ms, **fields)
        self.step(KeeperStarted(spawn.key, [WALL + self.now]))
        return spawn.key[0]


def spec(**fields: object) -> tuple[str, bytes]:
    """A name and a body for a spec with these fields."""
    made = JobSpec(**{"name": "job", "command": ["true"], **fields})  # type: ignore[arg-type]
    return f"hash-{sorted(fields.items())}", encode_spec(made)


def ended(
    keys: Sequence[str],
    exit_: int = 0,
    signal: int = 0,
    why: Why = Why.itself,
    out: int = 0,
    err: int = 0,
) -> KeeperEnded:
    """The keeper saw these end, all alike."""
    n = len(keys)
    return KeeperEnded(
        list(keys), [exit_] * n, [signal] * n, [why] * n, [WALL] * n, [WALL + 1] * n, [out] * n, [err] * n
    )


def listed(
    running: Sequence[str], over: KeeperEnded, meta: Sequence[str], failed: Sequence[str] = ()
) -> KeeperListed:
    """A keeper that holds these; `meta` in the order running, ended, failed."""
    keys = [*running, *over.key, *failed]
    return KeeperListed(
        dict(zip(keys, meta, strict=True)),
        KeeperStarted(list(running), [WALL] * len(running)),
        over,
        KeeperFailed(list(failed), [Reason.not_found] * len(failed)),
    )
