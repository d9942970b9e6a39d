"""Whatever comes from outside, in whatever order: the core never raises and keeps its few promises."""

from __future__ import annotations

import pytest
from tests.unit.agent.talk import NONE, WALL, ended, settings, spec

from fairlead.agent.core import Agent
from fairlead.agent.words import (
    Dial,
    Dialled,
    DialOutput,
    Dropped,
    Event,
    Exit,
    FenceKept,
    Forget,
    Grew,
    Heard,
    KeeperFailed,
    KeeperListed,
    KeeperLost,
    KeeperStarted,
    KeepFence,
    OutputDialled,
    OutputDropped,
    OutputStored,
    OutputUnreadable,
    ReadOutput,
    Say,
    Spawn,
    StopAsked,
    Why,
)
from fairlead.base.dice import Dice
from fairlead.model.keys import Keys
from fairlead.model.lifecycles import Stage
from fairlead.model.orders import (
    Ack,
    Beat,
    Frame,
    How,
    Moved,
    Order,
    Report,
    Reported,
    Retract,
    Servers,
    Specs,
    Start,
    Stop,
    Welcome,
    What,
)
from fairlead.model.reasons import Reason
from fairlead.model.storage import Fence

STEPS = 400
NAME, BODY = spec(ask={"cpu": 1_000})


class World:
    """Everything around one agent, with dice: a keeper, a front and a control that no rule binds."""

    def __init__(self, seed: int, spool_bytes: int) -> None:
        self.dice = Dice(seed)
        self.core = Agent(settings(totals=[8_000, 8 << 30], spool_bytes=spool_bytes))
        self.now = 1_000
        self.session = self.link = 0
        self.number = self.seen = 0
        self.meta: dict[str, str] = {}
        self.running: list[str] = []
        self.over: list[str] = []
        self.spawned: list[str] = []
        self.lengths: dict[tuple[str, int], int] = {}
        self.sent: dict[tuple[str, int], int] = {}
        self.gone = False

    def keys(self) -> Keys:
        dice = self.dice
        rows = dice.between(1, 3)
        return Keys(
            [dice.between(1, 2) for _ in range(rows)],
            [dice.between(0, 6) for _ in range(rows)],
            [dice.pick([1, 2, 5, 10_000_000]) for _ in range(rows)],
            [dice.between(1, 3) for _ in range(rows)],
        )

    def order(self) -> Order:
        dice, keys = self.dice, self.keys()
        rows = len(keys)
        fence = Fence("site", 1, dice.between(4, 7))
        orders: list[Order] = [
            Welcome(fence, 500, 1_500, True, dice.pick(["", "", "", "a clone"])),
            Servers(["c1:1"], dice.pick([[], ["f1:1"], ["f1:1", "f2:1"]])),
            *[Start(keys, [dice.pick([NAME, "unknown"]) for _ in range(rows)], [0] * rows)] * 4,
            Start(keys, [NAME] * rows, [dice.pick([0, 5_000])] * rows),
            Start(keys, [NAME] * dice.between(0, 2), [0]),
            Stop(keys, dice.pick([How.stop, How.kill]), dice.pick([10, 11, 9_999])),
            Retract(keys),
            *[Ack(keys, dice.pick([What.end, What.output]))] * 3,
            Specs([NAME, "odd"], [BODY, b"\xc1"]),
            Beat(dice.pick([None, keys])),
            Moved(dice.pick(["", "c7:1"])),
        ]
        return dice.pick(orders)

    def heard(self) -> Event:
        dice = self.dice
        self.number += 0 if dice.chance(20) else dice.pick([1] * 40 + [2])
        if self.number == 1:
            welcome = Welcome(Fence("site", 1, 7), 500, 1_500, True)
            return Heard(self.session, Frame(1, self.seen, [welcome, Specs([NAME], [BODY])]))
        seen = self.seen if dice.chance(800) else dice.between(0, self.seen)
        return Heard(
            self.session, Frame(self.number, seen, [self.order() for _ in range(dice.between(1, 3))])
        )

    def listed(self) -> Event:
        if self.dice.chance(100):
            # It died: what ran is gone.
            self.running.clear()
        return KeeperListed(
            {key: self.meta[key] for key in (*self.running, *self.over)},
            KeeperStarted(list(self.running), [WALL] * len(self.running)),
            ended(self.over, exit_=1) if self.over else NONE,
            KeeperFailed([], []),
        )

    def keeper(self) -> Event:
        dice = self.dice
        if not self.running or dice.chance(30):
            return dice.pick([KeeperLost(), self.listed()])
        key = dice.pick(self.running)
        if dice.chance(400):
            return KeeperStarted([key], [WALL])
        if dice.chance(100):
            self.running.remove(key)
            return KeeperFailed([key], [dice.pick([Reason.not_found, Reason.no_such_dir])])
        self.running.remove(key)
        self.over.append(key)
        out, err = (self.lengths.get((key, stream), 0) for stream in (0, 1))
        return ended([key], exit_=dice.between(0, 1), why=dice.pick(list(Why)), out=out, err=err)

    def output(self) -> Event:
        dice = self.dice
        if self.running and dice.chance(500):
            key, stream = dice.pick(self.running), dice.between(0, 1)
            self.lengths[key, stream] = self.lengths.get((key, stream), 0) + dice.between(1, 20_000)
            return Grew([key], [stream], [self.lengths[key, stream]])
        if self.sent and dice.chance(800):
            (key, stream), upto = dice.pick(sorted(self.sent.items()))
            return OutputStored([key], [stream], [dice.between(0, upto)] if dice.chance(300) else [upto])
        if self.spawned and dice.chance(20):
            return OutputUnreadable([dice.pick(self.spawned)], [dice.between(0, 2)])
        return dice.pick([OutputDialled(self.link)] * 9 + [OutputDropped(self.link)])

    def event(self) -> Event:
        dice = self.dice
        if dice.chance(2):
            return StopAsked(dice.chance(500))
        if dice.chance(10):
            return Dropped(self.session)
        if self.number == 0 and dice.chance(500):
            return Dialled(self.session)
        make = dice.pick([self.heard, self.heard, self.heard, self.keeper, self.keeper, self.output])
        return make()

    def step(self, *events: Event) -> None:
        self.now += self.dice.pick([0, 1, 10, 100, 1_000])
        outcome = self.core.step(events, self.now, WALL + self.now)
        for effect in outcome.effects:
            if isinstance(effect, Dial):
                self.session, self.number, self.seen = effect.session, 0, 0
            elif isinstance(effect, DialOutput):
                self.link = effect.link
            elif isinstance(effect, Say):
                self.seen = effect.frame.number
            elif isinstance(effect, Spawn):
                assert not set(effect.key) & {*self.running, *self.over}, "spawned while the keeper holds it"
                self.spawned += effect.key
                self.running += effect.key
                self.meta.update(zip(effect.key, effect.meta, strict=True))
            elif isinstance(effect, Forget):
                self.over = [key for key in self.over if key not in effect.key]
            elif isinstance(effect, ReadOutput):
                columns = (effect.key, effect.stream, effect.offset, effect.length, effect.end)
                for key, stream, offset, length, end in zip(*columns, strict=True):
                    self.sent[key, stream] = offset + length + end
            self.gone = self.gone or isinstance(effect, Exit)
        for effect in outcome.effects:
            if isinstance(effect, KeepFence):
                self.step(FenceKept(effect.fence))


@pytest.mark.parametrize("seed", range(30))
def test_the_core_never_raises_and_spawns_nothing_that_its_keeper_holds(seed: int) -> None:
    world = World(seed, spool_bytes=100_000)
    world.step(world.listed())
    for _ in range(STEPS):
        if world.gone:
            break
        world.step(world.event())


@pytest.mark.parametrize("seed", range(30))
def test_when_all_is_quiet_the_report_and_the_room_are_exactly_what_is_held(seed: int) -> None:
    world = World(seed, spool_bytes=10 << 30)
    world.step(world.listed())
    for _ in range(STEPS):
        event = world.event()
        if not isinstance(event, StopAsked):
            world.step(event)
    world.step(Dropped(world.session))
    world.step(KeeperLost())
    world.step(world.listed())
    words = report(world)
    held = [span for word in words if isinstance(word, Report) for span in word.keys.spans()]
    assert [word for word in words if isinstance(word, Reported)] == [Reported(sum(n for _, _, n, _ in held))]
    stages = [
        stage
        for word in words
        if isinstance(word, Report)
        for count, stage in zip(word.keys.count, word.stage, strict=True)
        for _ in range(count)
    ]
    assert len([stage for stage in stages if stage != Stage.ended]) == len(world.running)
    # Room for exactly what does not run: eight cores, one each.
    free = 8 - len(world.running)
    before = len(world.spawned)
    world.number += 1
    keys = Keys([99], [0], [100], [1])
    world.step(Heard(world.session, Frame(world.number, world.seen, [Start(keys, [NAME], [0])])))
    assert len(world.spawned) - before == free


def report(world: World) -> list[object]:
    """What a new session is told."""
    said: list[object] = []
    for _ in range(200):
        world.now += 500
        outcome = world.core.step([], world.now, WALL)
        if any(isinstance(effect, Dial) for effect in outcome.effects):
            break
    (world.session,) = (effect.session for effect in outcome.effects if isinstance(effect, Dial))
    world.core.step([Dialled(world.session)], world.now, WALL)
    fence = Fence("site", 1, 8)
    welcome = Frame(1, 1, [Welcome(fence, 500, 1_500, True), Specs([NAME], [BODY])])
    world.core.step([Heard(world.session, welcome)], world.now, WALL)
    outcome = world.core.step([FenceKept(fence)], world.now, WALL)
    for effect in outcome.effects:
        if isinstance(effect, Say):
            said += effect.frame.body
            world.seen = effect.frame.number
    world.number = 1
    return said
