"""A front as far as output and addresses go: it follows the log, stores rows, and acknowledges what is stored.

One put is in flight, the next takes what arrived meanwhile. A put whose answer was lost is repeated under its
key until it is answered; only then are its rows acknowledged, each on the link it came by.
"""

from __future__ import annotations

from functools import partial

from fairlead.agent.words import OutputStored, key_of
from fairlead.base.dice import Dice
from fairlead.model.blob_keys import fresh
from fairlead.model.blocks import Row, fill, pack
from fairlead.sim.blobs import MemoryBlobs
from fairlead.sim.checkers.sights import Stored
from fairlead.sim.network import DOWN, Connection, Network
from fairlead.sim.talkers import Talker
from fairlead.sim.world import World


class Front:
    """One server's front."""

    def __init__(
        self, world: World, net: Network, server: str, control: list[str], blobs: MemoryBlobs, dice: Dice
    ) -> None:
        self.world = world
        self.net = net
        self.name = f"front-{server}"
        self.server = server
        self.address = f"{server}:7412"
        self.control = control
        self.blobs = blobs
        self.dice = dice
        self.alive = False
        self.life = 0
        # In thousandths, and whether nothing can be stored.
        self.unknown = 0
        self.away = 0
        self.talker: Talker | None = None
        self._links: dict[int, Connection] = {}
        self._waiting: list[tuple[int, Row]] = []
        self._putting = False
        self._puts = 0
        net.doors[self.address] = (self.name, self._accept)

    def begin(self) -> None:
        """A new life."""
        self.alive = True
        self.life += 1
        self._links, self._waiting, self._putting, self._puts = {}, [], False, 0
        name = f"{self.name}.{self.life}"
        self.talker = Talker(self.world, self.net, name, self.control, self.dice.child())
        self.talker.start_following(f"{self.server}:7411", self.address)

    def die(self) -> None:
        """What was not stored is gone."""
        self.alive = False
        for link in self._links.values():
            link.close(DOWN)
        if self.talker is not None:
            self.talker.stop()

    def _accept(self, link: Connection, who: object) -> bool:
        if not self.alive or who != "output":
            return False
        number, life = link.number, self.life
        self._links[number] = link
        link.heard[1] = lambda rows: self._take(life, number, rows)
        link.ended[1] = partial(self._forget, number)
        return True

    def _forget(self, link: int) -> None:
        self._links.pop(link, None)

    def _take(self, life: int, link: int, rows: object) -> None:
        assert isinstance(rows, list)
        if self.alive and self.life == life:
            self._waiting.extend((link, row) for row in rows)
            self._put()

    def _put(self) -> None:
        if self._putting or not self._waiting:
            return
        self._putting = True
        rows, self._waiting = self._waiting, []
        body = b"".join(pack(*block) for block in fill(row for _, row in rows))
        self._puts += 1
        key = fresh(f"{self.server}-{self.life}", self._puts)
        self.world.after(self.dice.between(1, 15), partial(self._try, self.life, key, body, rows))

    def _try(self, life: int, key: str, body: bytes, rows: list[tuple[int, Row]]) -> None:
        """A put that is on its way may arrive even if its front is dead."""
        unknown = self.away or self.dice.chance(self.unknown)
        if not (unknown and self.dice.chance(500)) and self.blobs.put(key, body):
            self.world.tell(Stored(body))
        if unknown:
            again = partial(self._try, life, key, body, rows)
            if self.alive and self.life == life:
                self.world.after(self.dice.between(100, 1_000), again)
        else:
            self.world.after(self.dice.between(0, 3), partial(self._stored, life, rows))

    def _stored(self, life: int, rows: list[tuple[int, Row]]) -> None:
        if not self.alive or self.life != life:
            return
        for number, row in rows:
            link = self._links.get(number)
            if link is not None:
                name = key_of(row.job, row.index, row.attempt, row.term)
                link.say(DOWN, OutputStored([name], [row.stream], [row.stop + row.end]))
        self._putting = False
        self._put()
