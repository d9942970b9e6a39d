"""One run: a site begins, work comes in and faults happen, faults stop, everything must converge, nothing is left."""

from __future__ import annotations

from msgspec import Struct

from fairlead.model import retries
from fairlead.model.storage import Load, Loaded, WrongHead
from fairlead.sim.checkers.capacity import Capacity
from fairlead.sim.checkers.derived import check_core, check_store
from fairlead.sim.checkers.durable_first import DurableFirst
from fairlead.sim.checkers.fencing import Fencing
from fairlead.sim.checkers.history import Follow
from fairlead.sim.checkers.idempotence import Idempotence
from fairlead.sim.checkers.lives import Lives
from fairlead.sim.checkers.no_lost_job import NoLostJob
from fairlead.sim.checkers.no_orphans import NoOrphans
from fairlead.sim.checkers.one_process import OneProcess
from fairlead.sim.checkers.output import WholeOutput
from fairlead.sim.checkers.results import Results
from fairlead.sim.checkers.sights import Broken, Healed, Settled, Tick
from fairlead.sim.cluster import Cluster
from fairlead.sim.faults import Faults
from fairlead.sim.keepers import written
from fairlead.sim.limits import PLACES, scaled
from fairlead.sim.liveness import Liveness
from fairlead.sim.scenario import Item, Scenario
from fairlead.sim.workload import Workload

TICK_MS = 1_000
# The store is compared with memory this often; the leader's own sums at every tick.
COMPARE_TICKS = 15
# Leases, brakes and rests run out within it.
CONVERGE_MS = 30 * 60_000


class Result(Struct, frozen=True):
    """What became of a run; `broken` is empty when every invariant held."""

    seed: int
    broken: str
    at: int
    simulated_ms: int
    faults: int
    events: int
    digest: str


class Run:
    """A scenario in motion."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.cluster = Cluster(scenario)
        self.workload = Workload(self.cluster)
        self.faults = Faults(self.cluster, self.workload)
        self.liveness = Liveness(self.cluster)
        # Beside what leases and brakes take: all the work, after each other on one machine, and again.
        self._patience_ms = CONVERGE_MS + sum(map(_work_ms, scenario.items))
        self._ticks = 0
        self._compared = 0
        shape = scenario.world
        blind = frozenset(range(shape["agents"] + 1, shape["agents"] + shape["hollow"] + 1))
        for checker in (
            NoLostJob(self.cluster.unfinished),
            OneProcess(shape["lost_after_ms"], self.liveness.back_ms),
            Capacity(),
            Fencing(),
            DurableFirst(),
            NoOrphans(self.cluster.left),
            WholeOutput(written),
            Follow(),
            Lives(retries.MOST_FREE),
            Idempotence(),
            Results(blind),
        ):
            self.cluster.world.watch(checker.sees)  # type: ignore[arg-type]

    def go(self) -> None:
        """Both phases; raises what is broken."""
        cluster, world = self.cluster, self.cluster.world
        cluster.begin()
        cluster.set_weather(True)
        for item in self.scenario.items:
            (self.workload if item.kind in self.workload.kinds else self.faults).plan(item)
        end = world.now + self.scenario.world["faults_ms"]
        while world.now < end:
            self._tick(end)
        self.faults.heal()
        self.liveness.heal()
        world.tell(Healed(world.now))
        self._converge("work is over")
        self.workload.cancel_all()
        self._converge("what cannot run is cancelled", cancelled=True)
        self._compare()
        world.tell(Settled(world.now))

    def _tick(self, end: int) -> None:
        world = self.cluster.world
        world.run_until(min(world.now + TICK_MS, end))
        self._ticks += 1
        world.tell(Tick(world.now))
        core = self.cluster.leader()
        if core is not None:
            check_core(core)
        # What a successor finds is looked at before it writes on.
        term = self.cluster.truth.term
        if self._ticks % COMPARE_TICKS == 0 or term != self._compared:
            self._compared = term
            self._compare()

    def _compare(self) -> None:
        cluster = self.cluster
        if not cluster.truth.segments and not cluster.truth.values:
            return
        loaded = cluster.truth.handle().perform(Load(), cluster.world.now)
        assert isinstance(loaded, Loaded)
        core = cluster.leader()
        idle = core is not None and core.journal.idle
        check_store(loaded, cluster.record.ledger, core.ledger if core is not None and idle else None)

    def _converge(self, what: str, cancelled: bool = False) -> None:
        cluster, world = self.cluster, self.cluster.world
        end = world.now + self._patience_ms
        while world.now < end:
            self._tick(end)
            self.liveness.look()
            if self._is_calm(cancelled):
                return
        found = [*cluster.unfinished().items()][:3] or cluster.left()[:3]
        raise Broken(
            "L4 convergence",
            f"{self._patience_ms // 60_000} minutes after the faults: {found}, before {what}",
        )

    def _is_calm(self, cancelled: bool) -> bool:
        cluster = self.cluster
        core = cluster.leader()
        if core is None or not core.journal.idle or cluster.unfinished() or cluster.left():
            return False
        return not (cancelled and cluster.record.ledger.open) and self.cluster.world.now > (
            self.liveness.healed + self.liveness.back_ms
        )


def _work_ms(item: Item) -> int:
    args = item.args
    return (
        args.get("ms", 0) * args.get("count", 1) * (1 + args.get("retry", 0)) if item.kind == "submit" else 0
    )


def simulate(scenario: Scenario) -> Result:
    """Run a scenario to its end, or to the first thing that is broken."""
    with scaled({name: scenario.world[name] for name in PLACES}):
        run = Run(scenario)
        world = run.cluster.world
        broken = ""
        try:
            run.go()
        except Broken as fault:
            broken = str(fault)
        except WrongHead as fault:
            broken = f"store contract: {fault}"
        except (AssertionError, LookupError, ValueError, TypeError, AttributeError) as fault:
            broken = f"a core raised {type(fault).__name__}: {fault} {_place(fault)}"
    return Result(scenario.seed, broken, world.now, world.now, run.faults.begun, world.events, world.digest())


def _place(fault: BaseException) -> str:
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    code = trace.tb_frame.f_code
    return f"in {code.co_filename.rpartition('fairlead/')[2]}:{trace.tb_lineno} {code.co_name}"
