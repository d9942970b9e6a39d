"""The simulated world's clock and its events: what happens next, and what was seen to happen.

Decides only the order of things: by time, then by the order in which they were planned. Nothing here reads a
real clock; a run is its scenario and the code, whatever the machine. What cores put out goes into a digest, so
that two runs can be told to be equal.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from hashlib import sha256

import msgspec

from fairlead.sim.checkers.sights import Sight

Act = Callable[[], None]
See = Callable[[Sight], None]

_encode = msgspec.msgpack.Encoder().encode


class World:
    """Virtual milliseconds, a heap of what is planned, and those who watch."""

    def __init__(self) -> None:
        self.now = 0
        self.events = 0
        self._heap: list[tuple[int, int, Act]] = []
        self._planned = 0
        self._numbers = 0
        self._digest = sha256()
        self._watchers: dict[type, list[See]] = {}

    def number(self) -> int:
        """A number that nothing else in this world bears."""
        self._numbers += 1
        return self._numbers

    def after(self, delay: int, act: Act) -> None:
        """Plan something; what is planned for one instant happens in the order of planning."""
        self._planned += 1
        heapq.heappush(self._heap, (self.now + max(delay, 0), self._planned, act))

    def run_until(self, end: int) -> None:
        """Let everything happen that is planned up to then."""
        while self._heap and self._heap[0][0] <= end:
            self.now, _, act = heapq.heappop(self._heap)
            self.events += 1
            act()
        self.now = max(self.now, end)

    def watch(self, sights: dict[type, See]) -> None:
        """From now on these are called with every sight of their type."""
        for kind, see in sights.items():
            self._watchers.setdefault(kind, []).append(see)

    def tell(self, sight: Sight) -> None:
        """Something was seen; a watcher that must not have seen it raises."""
        for see in self._watchers.get(type(sight), ()):
            see(sight)

    def note(self, who: str, what: object) -> None:
        """Let a value into the digest of the run."""
        self._digest.update(_encode((self.now, who, type(what).__name__, what)))

    def digest(self) -> str:
        """Equal for equal runs."""
        return self._digest.hexdigest()


class Runner:
    """A process that steps a core: alive or not, stopped or not, with an inbox while it cannot take more."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = False
        self.paused = False
        # Which life this is: what was planned for an earlier one does not happen.
        self.life = 0
        self.inbox: list[object] = []
        self._step_at: int | None = None

    def begin(self) -> None:
        """A new life, with an empty memory."""
        self.alive, self.paused = True, False
        self.life += 1
        self.inbox = []
        self._step_at = None
        self.plan(0)

    def die(self) -> None:
        """As by SIGKILL."""
        self.alive = self.paused = False
        self.inbox = []
        self._step_at = None

    def pause(self) -> None:
        """As by SIGSTOP: what arrives waits."""
        self.paused = self.alive

    def resume(self) -> None:
        """As by SIGCONT."""
        if self.paused:
            self.paused = False
            self.plan(0)

    def give(self, event: object) -> None:
        """Something for the core; a dead one gets nothing."""
        if self.alive:
            self.inbox.append(event)
            self.plan(0)

    def later(self, delay: int, act: Act) -> None:
        """Plan something that happens only in this life."""
        life = self.life

        def happen() -> None:
            if self.alive and self.life == life:
                act()

        self.world.after(delay, happen)

    def plan(self, delay: int) -> None:
        """Step after so many milliseconds, or sooner."""
        at = self.world.now + max(delay, 0)
        if self._step_at is None or at < self._step_at:
            self._step_at = at
            life = self.life
            self.world.after(at - self.world.now, lambda: self._fire(at, life))

    def _fire(self, at: int, life: int) -> None:
        if self.life != life or self._step_at != at:
            return
        self._step_at = None
        if self.alive and not self.paused:
            self.step()

    def step(self) -> None:
        """Step the core once with what is in the inbox."""
        raise NotImplementedError
