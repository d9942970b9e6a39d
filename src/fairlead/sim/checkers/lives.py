"""Lives as the log tells them: legal steps only, attempts counted without a gap, nothing after an end.

An instance's next attempt is its closed ones plus one; its end belongs to the attempt that is open; no instance
is repeated beyond what its budgets and the bound of free reruns allow.
"""

from __future__ import annotations

from fairlead.model import changes
from fairlead.model.jobs import decode_spec
from fairlead.model.lifecycles import CLOSED, STATES, State
from fairlead.sim.checkers.sights import Broken, Durable


class Life:
    """One instance."""

    __slots__ = ("again", "agent", "attempt", "state")

    def __init__(self) -> None:
        # How often it ran again, by who paid: nobody, the infrastructure budget, the job's.
        self.again = [0, 0, 0]
        self.state = State.waiting
        self.attempt = 0
        self.agent = 0


class Lives:
    """All instances that the log speaks of; `free` is how many reruns nobody pays for."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.most: dict[int, tuple[int, int, int]] = {}
        self.bodies: dict[str, bytes] = {}
        self.lives: dict[tuple[int, int], Life] = {}
        self.sees = {Durable: self.durable}

    def durable(self, sight: Durable) -> None:
        """One part after the other."""
        for change in sight.part.changes:
            if isinstance(change, changes.SpecsAdded):
                self.bodies |= dict(zip(change.hashes, change.bodies, strict=True))
            elif isinstance(change, changes.Submitted):
                self._submitted(change)
            elif isinstance(change, changes.Placed):
                for (job, first, count, attempt), agent in zip(
                    change.keys.spans(), change.agent, strict=True
                ):
                    for index in range(first, first + count):
                        self._placed((job, index), attempt, agent)
            elif isinstance(change, changes.Ended):
                for row, (job, first, count, attempt) in enumerate(change.keys.spans()):
                    for index in range(first, first + count):
                        self._ended((job, index), attempt, change.agent[row], State(change.then[row]))
                        if change.then[row] == State.waiting:
                            self._again((job, index), change.charge[row])
            elif isinstance(change, changes.Closed):
                for row, (job, first, count, _) in enumerate(change.keys.spans()):
                    for index in range(first, first + count):
                        self._step((job, index), State(change.state[row]), State.waiting)

    def _submitted(self, change: changes.Submitted) -> None:
        for number, digest in zip(change.job, change.spec, strict=True):
            if number in self.most:
                raise Broken("lives", f"job {number} is submitted twice")
            if digest not in self.bodies:
                raise Broken("lives", f"job {number} names a body that the log does not have")
            spec = decode_spec(self.bodies[digest])
            self.most[number] = (self.free, spec.retry_infrastructure, spec.retry_job)
            for index in range(spec.count):
                self.lives[number, index] = Life()

    def _placed(self, key: tuple[int, int], attempt: int, agent: int) -> None:
        life = self._step(key, State.active, State.waiting)
        if attempt != life.attempt + 1:
            raise Broken("attempts", f"{key} goes from attempt {life.attempt} to {attempt}")
        life.attempt, life.agent = attempt, agent

    def _ended(self, key: tuple[int, int], attempt: int, agent: int, then: State) -> None:
        life = self._step(key, then, State.active)
        if (attempt, agent) != (life.attempt, life.agent):
            said = f"attempt {attempt} on agent {agent}"
            raise Broken("lives", f"{key}: {said} ends while {life.attempt} on {life.agent} is open")

    def _again(self, key: tuple[int, int], charge: int) -> None:
        again = self.lives[key].again
        again[charge] += 1
        if again[charge] > self.most[key[0]][charge]:
            who = ("nobody", "the infrastructure", "the job")[charge]
            most = self.most[key[0]][charge]
            raise Broken("budgets", f"{key} runs again {again[charge]} times, {who} pays for {most}")

    def _step(self, key: tuple[int, int], state: State, before: State) -> Life:
        life = self.lives.get(key)
        if life is None:
            raise Broken("lives", f"{key} was never submitted")
        if life.state in CLOSED:
            raise Broken("I8 terminal", f"{key} is {life.state.name} and becomes {state.name}")
        if life.state is not before or state not in STATES[life.state]:
            raise Broken("lives", f"{key} goes from {life.state.name} to {state.name}")
        life.state = state
        return life
