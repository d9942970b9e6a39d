"""Somebody who asks control: finds the leader from any address, asks again what was not answered, follows.

A request is repeated, the same bytes, until a leader answered it; a follower goes on from the segment after the
last it was told. Clients and fronts both talk so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fairlead.base.dice import Dice
from fairlead.model.requests import Answer, Ask, Elsewhere, Follow, Following, Reply, Request, Told
from fairlead.sim.checkers.sights import Asked, Follows, Heard
from fairlead.sim.checkers.sights import Told as ToldSight
from fairlead.sim.network import UP, Connection, Network
from fairlead.sim.world import World

PATIENCE_MS = 4_000
PAUSE_MS = (20, 400)

Then = Callable[[Reply], None]


class Talker:
    """One link, at any time, to one server."""

    def __init__(self, world: World, net: Network, name: str, addresses: list[str], dice: Dice) -> None:
        self.world = world
        self.net = net
        self.name = name
        self.addresses = addresses
        self.dice = dice
        self.alive = True
        self._asks: dict[int, tuple[Ask, Then | None]] = {}
        self._link: Connection | None = None
        self._attempt = 0
        self._last = 0
        self._moved_at = 0
        self._standing = False
        # Following: the next segment wanted; -1: from now on.
        self.follow: Follow | None = None
        self.token = -1

    def ask(self, request: Request, then: Then | None = None) -> None:
        """Ask until it is answered."""
        self._last += 1
        ask = Ask(self._last, request)
        self._asks[ask.id] = (ask, then)
        self.world.tell(Asked(self.world.now, self.name, ask.id, request))
        self._need()
        if self._standing and self._link is not None:
            self._say(ask)

    def start_following(self, control: str = "", output: str = "") -> None:
        """From now on every segment is wanted; on a new link from where it stopped."""
        self.follow = Follow(self.token, control, output)
        self._need()

    def stop(self) -> None:
        """It is gone, and asks nothing any more."""
        self.alive = False
        self._asks.clear()
        self._leave()

    def _need(self) -> None:
        if self._link is None and not self._standing and self.alive:
            self._dial("")

    # The link.

    def _dial(self, address: str) -> None:
        self._attempt += 1
        attempt = self._attempt
        if not address:
            address = self.dice.pick(self.addresses)
        fails = partial(self._again, attempt, "")
        self._standing = True
        self.net.dial(self.name, address, "link", partial(self._stands, attempt), fails)
        self.world.after(PATIENCE_MS, partial(self._look, attempt))

    def _stands(self, attempt: int, link: Connection) -> None:
        if attempt != self._attempt or not self.alive:
            link.close(UP)
            return
        self._link = link
        self._moved_at = self.world.now
        link.heard[0] = partial(self._hear, attempt)
        link.ended[0] = partial(self._again, attempt, "")
        for ask, _ in list(self._asks.values()):
            self._say(ask)
        if self.follow is not None:
            self._last += 1
            self._follow_id = self._last
            self._following = False
            self._say(Ask(self._last, Follow(self.token, self.follow.control, self.follow.output)))

    def _say(self, ask: Ask) -> None:
        if self._link is not None:
            self._link.say(UP, ask)

    def _look(self, attempt: int) -> None:
        """A link that answers nothing is left."""
        if attempt != self._attempt or not self.alive:
            return
        waits = self._link is None or self._asks or (self.follow is not None and not self._following)
        if waits and self.world.now - self._moved_at >= PATIENCE_MS:
            self._again(attempt, "")
        else:
            if not waits:
                self._moved_at = self.world.now
            self.world.after(PATIENCE_MS // 2, partial(self._look, attempt))

    def _leave(self) -> None:
        self._attempt += 1
        if self._link is not None:
            self._link.close(UP)
        self._link = None
        self._standing = False

    def _again(self, attempt: int, leader: str) -> None:
        """This link is of no use: try the leader, or anybody."""
        if attempt != self._attempt:
            return
        self._leave()
        if not self.alive or not (self._asks or self.follow):
            return
        self._standing = True
        attempt = self._attempt

        def dial() -> None:
            if self._attempt == attempt and self.alive:
                self._moved_at = self.world.now
                self._dial(leader)

        self.world.after(self.dice.between(*PAUSE_MS), dial)

    # What is heard.

    def _hear(self, attempt: int, message: object) -> None:
        if attempt != self._attempt:
            return
        self._moved_at = self.world.now
        if isinstance(message, Told):
            self.world.tell(ToldSight(self.name, message.part))
            self.token = message.part.n + 1
            return
        assert isinstance(message, Answer)
        if isinstance(message.reply, Elsewhere):
            self._again(attempt, message.reply.leader)
        elif isinstance(message.reply, Following):
            self._following = True
            said = message.reply
            self.world.tell(Follows(self.name, self.token, said.since, said.resync))
            self.token = said.since
        else:
            ask, then = self._asks.pop(message.id, (None, None))
            if ask is not None:
                self.world.tell(Heard(self.world.now, self.name, ask.request, message.reply))
                if then is not None:
                    then(message.reply)

    _follow_id = 0
    _following = False
