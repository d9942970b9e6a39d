"""Connections between the parts: streams that are slow, cut one way, half open, or lossy when they may be.

Decides when and whether what one end says reaches the other. A connection's two directions are ordered like
TCP; those of agents may also lose, repeat and swap frames, because the session above them claims to notice.
While a cable is cut, what travels on it is lost or held until it heals, as the cut says.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from fairlead.base.dice import Dice
from fairlead.sim.world import World

UP, DOWN = 0, 1
# Streams of links and of output are pinged from the client's end, as gRPC does it; an answer takes no longer.
PING_MS = 5_000
PING, PONG = "ping", "pong"


class Weather(Struct):
    """How bad the network is, in thousandths of all messages, and how slow in milliseconds."""

    drop: int = 0
    repeat: int = 0
    swap: int = 0
    least_ms: int = 0
    most_ms: int = 3
    tail: int = 0
    tail_ms: int = 2_000


class Cable:
    """What lies between two parts, each way."""

    def __init__(self) -> None:
        # Per direction: how many cuts are on it, and whether the newest one loses what is on its way.
        self.cuts = [0, 0]
        self.lossy = [False, False]
        self.held: list[list[Callable[[], None]]] = [[], []]


class Connection:
    """One stream; `client` dialled, `server` accepted. Either end learns of the other's end by the wire."""

    def __init__(self, net: Network, number: int, cable: Cable, lossy: bool) -> None:
        self.net = net
        self.number = number
        self.cable = cable
        self.lossy = lossy
        self.open = [True, True]  # the client's end, the server's end
        self._last = [0, 0]
        self._pinged = False
        self._stalled = [0, 0]
        # A stream that lost something delivers nothing after it.
        self._torn = [False, False]
        # What an end does with a message, and when it learns that the other end is gone.
        self.heard: list[Callable[[object], None]] = [lambda _: None, lambda _: None]
        self.ended: list[Callable[[], None]] = [lambda: None, lambda: None]

    def first_words(self) -> int:
        """How long the answer to a dial takes; nothing overtakes it."""
        wait = self.net.latency()
        self._last[DOWN] = self.net.world.now + wait
        return wait

    def say(self, direction: int, message: object) -> None:
        """UP: from the client to the server."""
        dice, weather = self.net.dice, self.net.weather
        if not self.open[direction]:
            return
        if self.lossy and weather.drop and dice.chance(weather.drop):
            return
        self._send(direction, message)
        if self.lossy and weather.repeat and dice.chance(weather.repeat):
            self._send(direction, message)

    def close(self, direction: int, silent: bool = False) -> None:
        """The sending end of this direction is gone; silent: the other is not told."""
        if self.open[direction]:
            self.open[direction] = False
            if not silent:
                self._send(direction, None)

    def stall(self, direction: int, ms: int) -> None:
        """Nothing arrives for so long."""
        self._last[direction] = self._stalled[direction] = max(self._last[direction], self.net.world.now + ms)

    def stalled_for(self, direction: int) -> int:
        """How long nothing arrives yet."""
        return max(self._stalled[direction] - self.net.world.now, 0)

    def ping(self) -> None:
        """Ask for a sign of life now and then; without one the client takes the stream for dead."""
        if not self.open[UP]:
            return
        if self._pinged:
            self.open[UP] = False
            self.ended[UP]()
            return
        self._pinged = True
        self._send(UP, PING)
        self.net.world.after(PING_MS, self.ping)

    def _send(self, direction: int, message: object) -> None:
        net = self.net
        at = net.world.now + net.latency()
        swaps = self.lossy and net.weather.swap and net.dice.chance(net.weather.swap)
        if not swaps:
            at = self._last[direction] = max(at, self._last[direction])
        net.world.after(at - net.world.now, lambda: self._arrive(direction, message))

    def _arrive(self, direction: int, message: object) -> None:
        cable = self.cable
        if self._torn[direction]:
            return
        if cable.cuts[direction]:
            if cable.lossy[direction]:
                self._torn[direction] = not self.lossy
            else:
                cable.held[direction].append(lambda: self._arrive(direction, message))
            return
        other = 1 - direction
        if not self.open[other]:
            if message is not None:
                self._send(other, None)  # reset by peer
            return
        if message is None:
            self.open[other] = False
            self.ended[other]()
        elif message is PING:
            self._send(other, PONG)
        elif message is PONG:
            self._pinged = False
        else:
            self.heard[other](message)


class Network:
    """All cables, by the names of the parts at their ends."""

    def __init__(self, world: World, dice: Dice) -> None:
        self.world = world
        self.dice = dice
        self.weather = Weather()
        self.cables: dict[tuple[str, str], Cable] = {}
        # Who accepts connections, by address: its name, and what it does with one.
        self.doors: dict[str, tuple[str, Callable[[Connection, object], bool]]] = {}

    def latency(self) -> int:
        """How long one message takes."""
        weather = self.weather
        if weather.tail and self.dice.chance(weather.tail):
            return self.dice.between(weather.most_ms, weather.tail_ms)
        return self.dice.between(weather.least_ms, weather.most_ms)

    def cable(self, client: str, server: str) -> Cable:
        """What lies between these two."""
        return self.cables.setdefault((client, server), Cable())

    def cut(self, client: str, server: str, directions: list[int], lossy: bool) -> Callable[[], None]:
        """Cut a cable; the answer heals this cut."""
        cable = self.cable(client, server)
        for direction in directions:
            cable.cuts[direction] += 1
            cable.lossy[direction] = lossy

        def heal() -> None:
            for direction in directions:
                cable.cuts[direction] -= 1
                if not cable.cuts[direction]:
                    held, cable.held[direction] = cable.held[direction], []
                    for arrive in held:
                        arrive()

        return heal

    def dial(
        self,
        client: str,
        address: str,
        who: object,
        stands: Callable[[Connection], None],
        fails: Callable[[], None],
        lossy: bool = False,
    ) -> None:
        """Connect: `stands`, or `fails`, or nothing at all when a cable is cut."""
        door = self.doors.get(address)
        if door is None:
            self.world.after(self.latency(), fails)
            return
        server, accept = door
        cable = self.cable(client, server)

        def arrive() -> None:
            if any(cable.cuts):
                return
            connection = Connection(self, self.world.number(), cable, lossy)
            wait = connection.first_words()
            if accept(connection, who):
                self.world.after(wait, lambda: stands(connection))
                if not lossy:
                    self.world.after(wait + PING_MS, connection.ping)
            else:
                self.world.after(wait, fails)

        self.world.after(self.latency(), arrive)
