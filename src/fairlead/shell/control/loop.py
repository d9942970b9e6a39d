"""The loop that steps the plane: gathers what happened, steps, performs what came out. No decision of its own.

Everything waits in one queue, so the plane sees one order. The lease is renewed by the step itself: a loop
that stalls stops leading.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from fairlead.model.orders import Frame
from fairlead.model.requests import Answer as Reply
from fairlead.model.requests import Told
from fairlead.model.storage import Answer, Op
from fairlead.plane.plane import Plane
from fairlead.plane.words import (
    Answered,
    Answering,
    Event,
    HangUp,
    Outcome,
    Send,
    Telling,
    ToLease,
    ToLog,
)

LOG = logging.getLogger(__name__)
# With nothing to do the plane is stepped this often all the same.
IDLE_S = 1.0


class Store(Protocol):
    """What keeps the log and the lease."""

    async def perform(self, op: Op) -> Answer:
        """Do one op; what it may answer is said beside the ops."""
        ...


class Valve(Protocol):
    """Holds back what comes in while too much waits."""

    def hold(self) -> None:
        """Take nothing more for now."""
        ...

    def release(self) -> None:
        """Go on."""
        ...


class Agents(Protocol):
    """The door for agents."""

    @property
    def gate(self) -> Valve:
        """Holds back what comes in."""
        ...

    def send(self, session: int, frame: Frame) -> None:
        """A frame down a session."""
        ...

    def hang_up(self, session: int) -> None:
        """End a session."""
        ...


class Fronts(Protocol):
    """The door for fronts."""

    @property
    def gate(self) -> Valve:
        """Holds back what comes in."""
        ...

    def answer(self, link: int, answer: Reply) -> None:
        """The reply to an ask."""
        ...

    def tell(self, link: int, told: Told) -> None:
        """A segment for who follows."""
        ...


class Clock:
    """Wall time at the start, then only forward, in milliseconds."""

    def __init__(self) -> None:
        self._start = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self._start + time.monotonic_ns() // 1_000_000


class ControlLoop:
    """One server's control at work."""

    def __init__(self, plane: Plane, store: Store) -> None:
        self._plane = plane
        self._store = store
        self._clock = Clock()
        self._events: list[Event] = []
        self._waiter: asyncio.Future[None] | None = None
        self._stopped = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._agents: Agents | None = None
        self._fronts: Fronts | None = None
        self._fault: BaseException | None = None
        self.steps = 0
        self._perform: dict[type, Callable[[Any], None]] = {
            ToLog: self._ask_store,
            ToLease: self._ask_store,
        }

    def attach(self, agents: Agents, fronts: Fronts) -> None:
        """The doors through which effects leave."""
        self._agents, self._fronts = agents, fronts
        self._perform |= {
            Send: lambda effect: agents.send(effect.session, effect.frame),
            HangUp: lambda effect: agents.hang_up(effect.session),
            Answering: lambda effect: fronts.answer(effect.link, effect.reply),
            Telling: lambda effect: fronts.tell(effect.link, effect.told),
        }

    def take(self, event: Event) -> None:
        """Something happened."""
        self._events.append(event)
        self._wake()

    def stop(self) -> None:
        """Step no more."""
        self._stopped = True
        self._wake()

    async def run(self) -> None:
        """Step until told to stop; a fault of the store's that is a bug ends it with that fault."""
        try:
            while not self._stopped:
                outcome = self._step()
                await self._rest(outcome.deadline)
                if self._fault is not None:
                    raise self._fault
        finally:
            for task in self._tasks:
                task.cancel()

    def _step(self) -> Outcome:
        events, self._events = self._events, []
        outcome = self._plane.step(events, self._clock.now())
        self.steps += 1
        for effect in outcome.effects:
            self._perform[type(effect)](effect)
        for door in (self._agents, self._fronts):
            if door is not None:
                (door.gate.hold if outcome.congested else door.gate.release)()
        return outcome

    async def _rest(self, deadline: int | None) -> None:
        """Let the doors take in what came, then sleep until there is something to do."""
        await asyncio.sleep(0)
        if self._events or self._stopped:
            return
        loop = asyncio.get_running_loop()
        seconds = IDLE_S if deadline is None else min(max(deadline - self._clock.now(), 0) / 1000, IDLE_S)
        self._waiter = loop.create_future()
        timer = loop.call_later(seconds, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _ask_store(self, effect: ToLog | ToLease) -> None:
        task = asyncio.get_running_loop().create_task(self._perform_op(effect.op))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _perform_op(self, op: Op) -> None:
        try:
            answer = await self._store.perform(op)
        except Exception as fault:
            LOG.exception("the store failed in a way that it never should")
            self._fault = fault
            self._wake()
            return
        self.take(Answered(op, answer))
