"""A machine: the real agent core over a simulated disk and keeper, beside servers and fronts it dials.

The disk keeps the fence, the addresses and who this machine is; the keeper keeps processes and their output.
An agent may crash, be stopped, or leave; its machine may reboot; a copy of the folder may come to life elsewhere.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256

from fairlead.agent import words
from fairlead.agent.core import Agent
from fairlead.agent.hollow import HollowAgent
from fairlead.base.dice import Dice
from fairlead.model.blocks import Row
from fairlead.model.orders import Frame, Hello, Welcome
from fairlead.model.storage import Fence
from fairlead.sim.checkers.sights import Joined, Obeys
from fairlead.sim.keepers import Keeper, written
from fairlead.sim.network import DOWN, UP, Connection, Network
from fairlead.sim.servers import EPOCH
from fairlead.sim.world import Runner, World


class Machine(Runner):
    """One machine with one identity."""

    def __init__(
        self, world: World, net: Network, place: str, agent: int, control: list[str], totals: dict[str, int],
        dice: Dice, hollow: bool = False, mark: str = "",
    ) -> None:  # fmt: skip
        super().__init__(world, place)
        self.net = net
        self.agent = agent
        self.control = control
        self.totals = totals
        self.dice = dice
        self.hollow = hollow
        self.mark = mark or f"mark of {place}"
        self.boots = 1
        self.wall_error = 0
        self.core: Agent | HollowAgent | None = None
        self.keeper = Keeper(world, place, agent, self.wall)
        # The disk.
        self.fence: Fence | None = None
        self.addresses: tuple[list[str], list[str]] = (list(control), [])
        self._sessions: dict[int, Connection] = {}
        self._welcome: Fence | None = None
        self._links: dict[int, Connection] = {}
        self.gone = False
        world.tell(Joined(place, agent, totals))

    def wall(self) -> int:
        """The machine's own idea of the time."""
        return EPOCH + self.world.now + self.wall_error

    # Lives.

    def begin(self) -> None:
        """Start the agent."""
        control, output = self.addresses
        settings = words.Settings(
            name=self.name,
            boot=f"{self.mark} boot {self.boots}",
            mark=self.mark,
            names=list(self.totals),
            totals=list(self.totals.values()),
            labels=["kind=simulated"],
            control=control,
            output=output,
            fence=self.fence,
            seed=self.dice.bits(),
        )
        self.core = HollowAgent(settings) if self.hollow else Agent(settings)
        self._sessions, self._links = {}, {}
        super().begin()
        if not self.hollow:
            self.later(self.dice.between(1, 20), self._connect_keeper)

    def die(self, silent: bool = False) -> None:
        """The agent is gone; its keeper and its work are not."""
        for connection in [*self._sessions.values(), *self._links.values()]:
            connection.close(UP, silent)
        super().die()
        self.keeper.disconnect()

    def reboot(self, keep_disk: bool) -> None:
        """Everything on it ends at once, and nobody is told."""
        self.die(silent=True)
        self.keeper.reboot(keep_disk)
        self.boots += 1

    def lose_keeper(self) -> None:
        """The line to the keeper is cut, or the keeper is dead."""
        self.keeper.disconnect()
        self.give(words.KeeperLost())

    def _connect_keeper(self) -> None:
        life, keeper_life = self.life, self.keeper.life
        arrives = self.world.now

        def line(event: object) -> None:
            nonlocal arrives
            arrives = max(arrives, self.world.now + self.dice.between(0, 3))

            def arrive() -> None:
                if self.life == life and self.keeper.line is line and self.keeper.life == keeper_life:
                    self.give(event)

            self.world.after(arrives - self.world.now, arrive)

        self.keeper.connect(line)

    def find_keeper(self) -> None:
        """Connect to it again, if nobody has."""
        if self.alive and not self.hollow and self.keeper.line is None:
            self._connect_keeper()

    # The loop.

    def step(self) -> None:
        """What the process around the core does."""
        assert self.core is not None
        events, self.inbox = self.inbox, []
        clock = self.keeper.clock()
        outcome = self.core.step(events, clock, self.wall())  # type: ignore[arg-type]
        for effect in outcome.effects:
            self.world.note(self.name, effect)
            self._perform(effect)
            if not self.alive:
                return
        if outcome.deadline is not None:
            self.plan(max(outcome.deadline - clock, 1))

    def _perform(self, effect: words.Effect) -> None:
        if isinstance(effect, words.Say):
            self._say(effect)
        elif isinstance(effect, words.Dial):
            self._dial(effect)
        elif isinstance(effect, words.HangUp):
            self._hang_up(effect.session)
        elif isinstance(effect, words.KeepFence):
            self.later(self.dice.between(1, 20), partial(self._keep_fence, effect.fence))
        elif isinstance(effect, words.KeepAddresses):
            self.addresses = (effect.control, effect.output)
        elif isinstance(effect, words.DialOutput):
            self._dial_output(effect)
        elif isinstance(effect, words.HangUpOutput):
            link = self._links.pop(effect.link, None)
            if link is not None:
                link.close(UP)
        elif isinstance(effect, words.ReadOutput):
            self._read_output(effect)
        elif isinstance(effect, words.Exit):
            self.gone = True
            self.die()
        elif not isinstance(effect, words.LeaveKeeper) and self.keeper.line is not None:
            self.keeper.obey(effect)

    def _keep_fence(self, fence: Fence) -> None:
        self.fence = fence if self.fence is None else max(self.fence, fence)
        self.give(words.FenceKept(fence))

    # Control.

    def _dial(self, effect: words.Dial) -> None:
        session = effect.session

        def stands(connection: Connection) -> None:
            if not self.alive or self.life != life:
                connection.close(UP)
                return
            # A socket that lingers dies with its process: the next one counts its sessions anew.
            connection.heard[0] = lambda frame: self._hear(session, frame) if self.life == life else None
            connection.ended[0] = lambda: self._dropped(session)
            self._sessions[session] = connection
            self.give(words.Dialled(session))

        life = self.life
        who = (self.agent, self.name)
        fails = partial(self._failed, life, words.Dropped(session))
        self.net.dial(self.name, effect.address, who, stands, fails, lossy=True)

    def _failed(self, life: int, event: object) -> None:
        if self.life == life:
            self.give(event)

    def _hear(self, session: int, frame: object) -> None:
        assert isinstance(frame, Frame)
        if frame.body and isinstance(frame.body[0], Welcome):
            self._welcome = frame.body[0].fence
        self.give(words.Heard(session, frame))

    def _hang_up(self, session: int) -> None:
        """Not always at once: what was read from the old socket by then may still reach the core."""
        connection = self._sessions.pop(session, None)
        if connection is None:
            return
        connection.ended[0] = lambda: None
        stalled = connection.stalled_for(DOWN)
        if stalled:
            self.world.after(stalled + 1, lambda: connection.close(UP))
        elif self.dice.chance(500):
            connection.close(UP)
        else:
            self.world.after(self.dice.between(1, 40_000), lambda: connection.close(UP))

    def _dropped(self, session: int) -> None:
        if self._sessions.pop(session, None) is not None:
            self.give(words.Dropped(session))

    def _say(self, effect: words.Say) -> None:
        connection = self._sessions.get(effect.session)
        if connection is None:
            return
        if self._welcome is not None and not isinstance(effect.frame.body[0], Hello):
            self.world.tell(Obeys(self.name, self._welcome, self.fence))
        connection.say(UP, effect.frame)

    # Output.

    def _dial_output(self, effect: words.DialOutput) -> None:
        number = effect.link
        life = self.life

        def stands(connection: Connection) -> None:
            if not self.alive or self.life != life:
                connection.close(UP)
                return
            connection.heard[0] = lambda said: self.give(said) if self.life == life else None
            connection.ended[0] = lambda: self._output_dropped(number)
            self._links[number] = connection
            self.give(words.OutputDialled(number))

        fails = partial(self._failed, life, words.OutputDropped(number))
        self.net.dial(self.name, effect.address, "output", stands, fails)

    def _output_dropped(self, number: int) -> None:
        if self._links.pop(number, None) is not None:
            self.give(words.OutputDropped(number))

    def _read_output(self, effect: words.ReadOutput) -> None:
        link = self._links.get(effect.link)
        if link is None:
            return
        rows: list[Row] = []
        columns = (effect.key, effect.stream, effect.offset, effect.length, effect.end)
        for key, stream, offset, length, end in zip(*columns, strict=True):
            process = self.keeper.processes.get(key)
            if process is None or process.length[stream] < offset + length:
                self.give(words.OutputUnreadable([key], [stream]))
                continue
            note = process.note
            whole = written(key, stream, offset + length)
            name = (note.job, note.index, note.number, note.term, stream)
            rows.append(Row(*name, offset, whole[offset:], bool(end), sha256(whole).digest() if end else b""))
        link.say(UP, rows)
