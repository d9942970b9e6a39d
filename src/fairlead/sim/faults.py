"""What goes wrong, and how it is put right again: one entry a kind of fault.

A fault begins at its time and is undone after its `ms`; whatever is not undone when faults stop is undone then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from fairlead.agent.words import StopAsked
from fairlead.model.lifecycles import Wanted
from fairlead.sim.cluster import Cluster
from fairlead.sim.machines import Machine
from fairlead.sim.network import DOWN, UP
from fairlead.sim.scenario import Item
from fairlead.sim.servers import Server
from fairlead.sim.workload import Workload

Undo = Callable[[], None]


class Faults:
    """Plans faults into a cluster, and heals it."""

    def __init__(self, cluster: Cluster, workload: Workload) -> None:
        self.cluster = cluster
        self.workload = workload
        self.begun = 0
        self._undo: dict[int, Undo] = {}
        self._over = False
        self.kinds: dict[str, Callable[[dict[str, int]], Undo | None]] = {
            "kill_server": self._kill_server,
            "pause_server": self._pause_server,
            "wall_server": self._wall_server,
            "kill_agent": self._kill_agent,
            "pause_agent": self._pause_agent,
            "reboot": self._reboot,
            "keeper_crash": self._keeper_crash,
            "keeper_away": self._keeper_away,
            "clone": self._clone,
            "leave": self._leave,
            "cordon": self._cordon,
            "kill_front": self._kill_front,
            "cut": self._cut,
            "cut_output": self._cut_output,
            "cut_client": self._cut_client,
            "cut_store": self._cut_store,
            "store_away": self._store_away,
            "store_full": self._store_full,
            "end_lease": self._end_lease,
            "deliver": self._deliver,
            "blobs_away": self._blobs_away,
            "half_batch": self._half_batch,
            "late_start": self._late_start,
        }

    def plan(self, item: Item) -> None:
        """Let it begin at its time."""
        self.cluster.world.after(item.at, partial(self._begin, item))

    def _begin(self, item: Item) -> None:
        if self._over:
            return
        self.begun += 1
        undo = self.kinds[item.kind](item.args)
        if undo is None:
            return
        number = self.begun
        self._undo[number] = undo
        wait = item.args.get("ms", item.args.get("long", 0))
        self.cluster.world.after(wait, partial(self._end, number))

    def _end(self, number: int) -> None:
        undo = self._undo.pop(number, None)
        if undo is not None:
            undo()

    def heal(self) -> None:
        """No more faults; all is well again, but for a server that stays dead."""
        cluster = self.cluster
        self._over = True
        cluster.set_weather(False)
        for number in list(self._undo):
            self._end(number)
        while cluster.truth.delayed:
            self._deliver({})
        for clone in cluster.clones:
            clone.die()
            clone.keeper.reboot(False)
        if cluster.dead and len(cluster.servers) > 1:
            cluster.servers[cluster.dead - 1].die()
            cluster.fronts[cluster.dead - 1].die()

    # Servers and fronts.

    def _kill_server(self, args: dict[str, int]) -> Undo | None:
        server = self.cluster.servers[args["server"] - 1]
        if not server.alive:
            return None
        server.die(silent=bool(args["silent"]))
        return server.begin

    def _half_batch(self, args: dict[str, int]) -> Undo:
        """Whoever leads dies as soon as some parts of a batch are stored, and more are to come."""
        killed: list[Server] = []

        def kill() -> None:
            server = self.cluster.leading()
            if server is not None:
                server.die(silent=bool(args["silent"]))
                killed.append(server)

        def undo() -> None:
            if half in self.cluster.record.halves:
                self.cluster.record.halves.remove(half)
            for server in killed:
                server.begin()

        half = (args["part"], kill)
        self.cluster.record.halves.append(half)
        return undo

    def _pause_server(self, args: dict[str, int]) -> Undo:
        server = self.cluster.servers[args["server"] - 1]
        server.pause()
        return server.resume

    def _wall_server(self, args: dict[str, int]) -> Undo | None:
        self.cluster.servers[args["server"] - 1].wall_error = args["error"]
        return None

    def _kill_front(self, args: dict[str, int]) -> Undo | None:
        front = self.cluster.fronts[args["server"] - 1]
        if not front.alive:
            return None
        front.die()
        return front.begin

    # Machines.

    def _machines(self, args: dict[str, int]) -> Iterator[Machine]:
        machines = self.cluster.machines
        yield from machines if not args["agent"] else [machines[args["agent"] - 1]]

    def _kill_agent(self, args: dict[str, int]) -> Undo | None:
        killed = [machine for machine in self._machines(args) if machine.alive]
        for machine in killed:
            machine.die()
        return partial(self._start, killed)

    @staticmethod
    def _start(machines: list[Machine]) -> None:
        for machine in machines:
            if not machine.alive:
                machine.gone = False
                machine.begin()

    def _pause_agent(self, args: dict[str, int]) -> Undo:
        paused = list(self._machines(args))
        for machine in paused:
            machine.pause()

        def resume() -> None:
            for machine in paused:
                machine.resume()

        return resume

    def _reboot(self, args: dict[str, int]) -> Undo:
        down = list(self._machines(args))
        for machine in down:
            machine.reboot(bool(args["keep"]))
        return partial(self._start, down)

    def _keeper_crash(self, args: dict[str, int]) -> Undo:
        hit = [machine for machine in self._machines(args) if not machine.hollow]
        for machine in hit:
            machine.keeper.crash()
            machine.lose_keeper()
        return partial(self._find_keepers, hit)

    def _keeper_away(self, args: dict[str, int]) -> Undo:
        hit = [machine for machine in self._machines(args) if not machine.hollow and machine.alive]
        for machine in hit:
            machine.lose_keeper()
        return partial(self._find_keepers, hit)

    @staticmethod
    def _find_keepers(machines: list[Machine]) -> None:
        for machine in machines:
            machine.find_keeper()

    def _clone(self, args: dict[str, int]) -> Undo | None:
        cluster = self.cluster
        first = next(iter(self._machines(args)))
        if first.hollow:
            return None
        name = f"{first.name}-clone{len(cluster.clones) + 1}"
        clone = Machine(
            cluster.world, cluster.net, name, first.agent, cluster.control, first.totals, cluster.dice.child()
        )
        clone.fence, clone.addresses = first.fence, first.addresses
        cluster.clones.append(clone)
        clone.begin()

        def end() -> None:
            clone.die()
            clone.keeper.reboot(False)

        return end

    def _leave(self, args: dict[str, int]) -> Undo:
        leaving = [machine for machine in self._machines(args) if machine.alive]
        for machine in leaving:
            machine.give(StopAsked(bool(args["keep"])))

        def come_back() -> None:
            for machine in leaving:
                if machine.alive and not machine.gone:
                    machine.die()
            self._start(leaving)

        return come_back

    def _cordon(self, args: dict[str, int]) -> Undo:
        agents = [machine.agent for machine in self._machines(args)]
        for agent in agents:
            self.workload.want(agent, Wanted.cordoned)

        def reopen() -> None:
            for agent in agents:
                self.workload.want(agent, Wanted.open)

        return reopen

    # Network.

    @staticmethod
    def _ways(way: int) -> list[int]:
        return [[UP], [DOWN], [UP, DOWN]][way]

    def _cut(self, args: dict[str, int]) -> Undo:
        return self._cut_all([f"c{args['server']}"], args)

    def _cut_output(self, args: dict[str, int]) -> Undo:
        return self._cut_all([f"front-c{args['server']}"], args)

    def _cut_all(self, ends: list[str], args: dict[str, int]) -> Undo:
        net, ways = self.cluster.net, self._ways(args["way"])
        places = [machine.name for machine in self._machines(args)]
        cuts = [net.cut(place, end, ways, bool(args["lossy"])) for place in places for end in ends]

        def heal() -> None:
            for cut in cuts:
                cut()

        return heal

    def _late_start(self, args: dict[str, int]) -> Undo:
        """The stream on which the next start is ordered stalls; a new one is as quick as ever."""
        late = self.cluster.trouble.late_start
        agents = [machine.agent for machine in self._machines(args)]
        late.update(dict.fromkeys(agents, args["late"]))

        def heal() -> None:
            for agent in agents:
                late.pop(agent, None)

        return heal

    def _cut_client(self, args: dict[str, int]) -> Undo:
        cluster = self.cluster
        client = [*cluster.clients, *cluster.followers][args["client"] - 1].name
        ways = self._ways(args["way"])
        return cluster.net.cut(client, f"c{args['server']}", ways, bool(args["lossy"]))

    # Store and blobs.

    def _cut_store(self, args: dict[str, int]) -> Undo:
        server = self.cluster.servers[args["server"] - 1]
        server.store_cut += 1

        def heal() -> None:
            server.store_cut -= 1

        return heal

    def _store_away(self, args: dict[str, int]) -> Undo:
        trouble = self.cluster.trouble
        trouble.away += 1

        def heal() -> None:
            trouble.away -= 1

        return heal

    def _store_full(self, args: dict[str, int]) -> Undo:
        trouble = self.cluster.trouble
        trouble.full = True

        def heal() -> None:
            trouble.full = False

        return heal

    def _end_lease(self, args: dict[str, int]) -> None:
        self.cluster.record.end_lease()

    def _deliver(self, args: dict[str, int]) -> None:
        cluster = self.cluster
        if cluster.truth.delayed:
            at = cluster.dice.below(len(cluster.truth.delayed))
            cluster.truth.deliver(at, cluster.world.now)
            cluster.record.observe()

    def _blobs_away(self, args: dict[str, int]) -> Undo:
        for front in self.cluster.fronts:
            front.away += 1

        def heal() -> None:
            for front in self.cluster.fronts:
                front.away -= 1

        return heal
