"""What must go on once nothing fails any more: a leader, placements, results, and work behind a poisoned record.

Each bound is simulated time since the healing, or since the thing became possible.
"""

from __future__ import annotations

from fairlead.controllers.work import shape_of
from fairlead.model.lifecycles import Presence, State
from fairlead.placement.place import room
from fairlead.plane.core import Core
from fairlead.sim.checkers.sights import Broken, Finished
from fairlead.sim.cluster import Cluster

# How long a placement, or a result, may take once it is possible.
PROMPT_MS = 5_000
# How long the output of an ended attempt may take: a front that stalls is left after a minute.
OUTPUT_MS = 150_000
# An agent's longest wait between two dials, a dial that is never answered, and three silent beats before.
BACK_MS = 10_000 + 10_000


class Liveness:
    """Looks every simulated second after the healing."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.healed = -1
        self._placeable: dict[int, int] = {}
        self._pending: dict[int, int] = {}
        self._contact: dict[int, int] = {}
        self._finished: dict[tuple[int, int, int], tuple[int, int]] = {}
        cluster.world.watch({Finished: self._finish})
        settings = cluster.settings
        self.back_ms = 2 * settings.leader_ms + BACK_MS + 3 * max(settings.beat_ms, 3_000)

    def heal(self) -> None:
        """From now on the bounds hold."""
        self.healed = self.cluster.world.now

    def _finish(self, sight: object) -> None:
        assert isinstance(sight, Finished)
        agent = int(sight.place[1:]) if sight.place[1:].isdigit() else 0
        if agent:
            self._finished[sight.job, sight.index, sight.attempt] = (sight.at, agent)

    def look(self) -> None:
        """Raise when something is late."""
        now, core = self.cluster.world.now, self.cluster.leader()
        since = now - self.healed
        if core is None:
            if since > 2 * self.cluster.settings.leader_ms + 2_000:
                raise Broken("L1 leader", f"nobody leads {since} ms after all is well")
            return
        self._contacts(core, now)
        if since > self.back_ms:
            away = [one.agent for one in self.cluster.machines if one.agent not in self._contact]
            # Where a clone took over, the first machine waits until the clone's leases have run out.
            if since < self.back_ms + self.cluster.settings.lease_ms * 11 // 10 + 90_000:
                cloned = {clone.agent for clone in self.cluster.clones}
                away = [agent for agent in away if agent not in cloned]
            if away:
                raise Broken("L3 contact", f"agents {away} are not back {since} ms after all is well")
        self._placements(core, now)
        self._results(now)
        self._output(now)

    def _contacts(self, core: Core, now: int) -> None:
        ready = [
            number
            for number, contact in core.agents.roster.contacts.items()
            if contact.session and contact.presence is Presence.ready
        ]
        self._contact = {number: self._contact.get(number, now) for number in ready}

    def _placements(self, core: Core, now: int) -> None:
        """Whoever is first in a line and fits somewhere is placed soon."""
        scheduler = core.scheduler
        table = scheduler.table
        found: dict[int, int] = {}
        for number in sorted(core.ledger.open):
            job = core.ledger.jobs[number]
            if not job.states.get(State.waiting) or job.cancelled or self.cluster.never_runs(job):
                continue
            if core.work._needs_met(job) is not True:
                continue
            if job.spec.parallel and job.states.get(State.active, 0) >= job.spec.parallel:
                continue
            shape = table.intern(shape_of(job))
            fits = room(table, shape) * table.open[: len(table)] * table.meets(shape)
            for agent in scheduler.resting(shape, core.now):
                fits[table.rows[agent]] = 0
            if fits.any():
                found[number] = self._placeable.get(number, now)
        self._placeable = found
        for number, at in found.items():
            if now - at > PROMPT_MS:
                raise Broken("L2 placement", f"job {number} fits somewhere since {now - at} ms")

    def _output(self, now: int) -> None:
        """What was written is stored, and said to be, or known not to be."""
        jobs = self.cluster.record.ledger.jobs
        pending = [number for number, job in jobs.items() if job.pending_output]
        self._pending = {number: self._pending.get(number, now) for number in pending}
        for number, at in self._pending.items():
            if now - max(at, self.healed + self.back_ms) > OUTPUT_MS:
                raise Broken("L3 output", f"job {number} waits for output since {now - at} ms")

    def _results(self, now: int) -> None:
        """An end is in the log soon after its agent is in contact."""
        jobs = self.cluster.record.ledger.jobs
        for key, (at, agent) in list(self._finished.items()):
            number, index, attempt = key
            job = jobs.get(number)
            page = job.pages.pages.get(index // 4096) if job else None
            row = index % 4096
            still_open = (
                page is not None
                and page.state[row] == State.active
                and page.attempt[row] == attempt
                and page.agent[row] == agent
            )
            if not still_open:
                del self._finished[key]
            elif agent in self._contact and now - max(at, self._contact[agent], self.healed) > PROMPT_MS:
                raise Broken("L3 result", f"{number}/{index} attempt {attempt} ended {now - at} ms ago")
