"""Steps an agent's core: whatever happens is put in, whatever comes out is done by the port it belongs to.

A port is a table from kinds of effects to functions, and posts events; the loop knows neither control nor
keeper. A fault in any task of a port ends the loop with that fault: an agent restarts, it does not limp.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from fairlead.agent.words import Effect, Event, Exit, Outcome

Handlers = Mapping[type, Callable[[Any], object]]


class Core(Protocol):
    """What is stepped: a real agent or a hollow one."""

    def step(self, events: Sequence[Event], now: int, wall: int) -> Outcome: ...


def boot_ms() -> int:
    """The clock of deadlines: since the machine's boot, sleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def wall_ms() -> int:
    """The clock of stamps."""
    return time.time_ns() // 1_000_000


class AgentLoop:
    """One core, stepped as soon as something is posted, and at its deadline."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._handlers: dict[type, list[Callable[[Any], object]]] = {Exit: [self._exit]}
        self._inbox: list[Event] = []
        self._woken = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._fault: BaseException | None = None
        self._over = False

    def serve(self, handlers: Handlers) -> None:
        """Let a port do these effects; what several ports know, each does its part of."""
        for kind, handler in handlers.items():
            self._handlers.setdefault(kind, []).append(handler)

    def post(self, event: Event) -> None:
        """Something happened."""
        self._inbox.append(event)
        self._woken.set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task of a port; it is ended with the loop, and its fault is the loop's."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def run(self) -> None:
        """Until the core says that nothing is left to do."""
        try:
            while not self._over:
                if self._fault is not None:
                    raise self._fault
                await self._turn()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _turn(self) -> None:
        self._woken.clear()
        events, self._inbox = self._inbox, []
        outcome = self._core.step(events, boot_ms(), wall_ms())
        for effect in outcome.effects:
            self._do(effect)
        if self._over or self._inbox:
            return
        timer = None
        if outcome.deadline is not None:
            delay = (outcome.deadline - boot_ms()) / 1000
            timer = asyncio.get_running_loop().call_later(max(0.0, delay) + 0.0005, self._woken.set)
        await self._woken.wait()
        if timer is not None:
            timer.cancel()

    def _do(self, effect: Effect) -> None:
        for handler in self._handlers[type(effect)]:
            handler(effect)

    def _exit(self, effect: Exit) -> None:
        self._over = True

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._fault = fault
            self._woken.set()
