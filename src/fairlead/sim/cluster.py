"""A whole simulated site: store, servers, fronts, machines, clients, and who watches them."""

from __future__ import annotations

from fairlead.base.dice import Dice
from fairlead.base.ids import job_id
from fairlead.controllers.ledger import Job
from fairlead.model.limits import Settings
from fairlead.model.requests import AddToken, Admit, Reply, Request
from fairlead.plane.core import Core
from fairlead.sim.blobs import MemoryBlobs
from fairlead.sim.durable import Record
from fairlead.sim.fronts import Front
from fairlead.sim.machines import Machine
from fairlead.sim.network import Network, Weather
from fairlead.sim.scenario import Scenario
from fairlead.sim.servers import Server, Trouble
from fairlead.sim.storage import Truth
from fairlead.sim.talkers import Talker
from fairlead.sim.world import World

CLIENTS = 3
FOLLOWERS = 2


class Cluster:
    """Everything of one run but the faults."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        shape = scenario.world
        self.dice = Dice(scenario.seed * 2 + 2)
        self.world = World()
        self.net = Network(self.world, self.dice.child())
        self.truth = Truth("site")
        self.record = Record(self.world, self.truth)
        self.trouble = Trouble()
        self.blobs = MemoryBlobs()
        self.settings = Settings(shape["lost_after_ms"], shape["lease_ms"], shape["leader_ms"])
        names = [f"c{n}" for n in range(1, shape["servers"] + 1)]
        self.control = [f"{name}:7411" for name in names]
        self.servers = [self._server(name) for name in names]
        self.fronts = [
            Front(self.world, self.net, name, self.control, self.blobs, self.dice.child()) for name in names
        ]
        self.machines: list[Machine] = []
        self.clones: list[Machine] = []
        self.clients = [self._talker(f"client-{n}") for n in range(1, CLIENTS + 1)]
        self.followers = [self._talker(f"follower-{n}") for n in range(1, FOLLOWERS + 1)]
        self.dead = shape["dead_server"]

    def _server(self, name: str) -> Server:
        dice = self.dice.child()
        server = Server(self.world, self.net, self.record, self.trouble, self.settings, name, dice)
        drift = self.scenario.world["drift"]
        server.drift = dice.between(-drift, drift)
        return server

    def _talker(self, name: str) -> Talker:
        return Talker(self.world, self.net, name, self.control, self.dice.child())

    # The first minute: nothing fails before every machine has its number.

    def begin(self) -> None:
        """Start everything; returns when all machines are in contact, or raises when they never are."""
        for server in self.servers:
            server.begin()
        for front in self.fronts:
            front.begin()
        shape = self.scenario.world
        self._await(self.clients[0], AddToken("join", "digest", "agent", "default", -1, 0))
        for number in range(1, shape["agents"] + shape["hollow"] + 1):
            self._await(self.clients[0], Admit("join", "digest", "agent", f"a{number}"))
            self._add_machine(number, number > shape["agents"])
        for follower in self.followers:
            follower.start_following()
        self.world.run_until(self.world.now + 5_000)

    def _await(self, talker: Talker, request: Request) -> None:
        replies: list[Reply] = []
        talker.ask(request, replies.append)
        while not replies:
            self.world.run_until(self.world.now + 50)

    def _add_machine(self, number: int, hollow: bool) -> None:
        shape = self.scenario.world
        totals = {"cpu": shape["cpus"] * 1_000}
        machine = Machine(
            self.world, self.net, f"a{number}", number, self.control, totals, self.dice.child(), hollow
        )
        self.machines.append(machine)
        machine.begin()

    def set_weather(self, bad: bool) -> None:
        """As the scenario says, or calm."""
        shape = self.scenario.world
        names = ("drop", "repeat", "swap", "most_ms", "tail", "tail_ms")
        self.net.weather = Weather(**{name: shape[name] for name in names}) if bad else Weather()
        trouble = self.trouble
        for name in ("lost", "answer_lost", "delayed", "slow_ms"):
            setattr(trouble, name, shape[f"store_{name}"] if bad else 0)
        for front in self.fronts:
            front.unknown = shape["put_unknown"] if bad else 0

    # Looking.

    def leader(self) -> Core | None:
        """The core of the server that leads, if one does by the store's word."""
        lead = self.truth.lead
        for server in self.servers:
            core = server.plane.core
            if server.alive and core is not None and lead is not None and server.term == lead.term:
                return core
        return None

    def leading(self) -> Server | None:
        """That server."""
        core = self.leader()
        return next((server for server in self.servers if core and server.plane.core is core), None)

    def never_runs(self, job: Job) -> bool:
        """No machine of this site could run it, or something that it needs."""
        most = self.scenario.world["cpus"] * 1_000
        if job.spec.ask.get("cpu", 0) > most or job.spec.where:
            return True
        needed = [self.record.ledger.jobs[number] for number, _ in job.needs]
        return any(not need.is_closed and self.never_runs(need) for need in needed)

    def unfinished(self) -> dict[str, str]:
        """Jobs that are not over and should be, by id."""
        jobs = self.record.ledger.jobs
        return {
            job_id(number): job.state()
            for number, job in jobs.items()
            if not job.is_closed and not self.never_runs(job)
        }

    def left(self) -> list[str]:
        """What is still held somewhere."""
        found: list[str] = []
        for machine in [*self.machines, *self.clones]:
            found += [f"{machine.name}'s keeper keeps {key}" for key in machine.keeper.processes]
            found += [f"{machine.name}'s keeper keeps {key}" for key in machine.keeper.failed]
            core = machine.core
            if not machine.hollow and machine.alive and core is not None:
                found += [f"{machine.name} holds {one.key}" for one in core._attempts]  # type: ignore[union-attr]
            if machine.hollow and machine.alive and core is not None and core._held:  # type: ignore[union-attr]
                found.append(f"{machine.name} holds ends")
        lead = self.leader()
        if lead is None:
            found.append("nobody leads")
        else:
            found += [
                f"agent {agent} is reserved for {jobs}" for agent, jobs in lead.scheduler.kept.holds.items()
            ]
        for number, job in self.record.ledger.jobs.items():
            if job.pending_output:
                found.append(f"{job_id(number)} waits for the output of {job.pending_output}")
        return found
