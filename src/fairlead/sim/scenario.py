"""A run as text: the shape of the world, its weather, and a list of things that happen at given times.

`draw` makes one from a seed: which features and faults are on, and how often, differs by seed. Whatever else a
run draws comes from the same seed, so the text is all that is needed to run it again; lines may be left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from fairlead.base.dice import Dice


class Item(Struct, frozen=True, gc=False):
    """Something that happens: work that comes in, or a fault that begins (and ends after `ms`)."""

    at: int
    kind: str
    args: dict[str, int]

    def text(self) -> str:
        """One line."""
        return " ".join([str(self.at), self.kind, *(f"{name}={value}" for name, value in self.args.items())])


class Scenario(Struct, frozen=True, gc=False):
    """Everything that a run is made of, but for the code."""

    seed: int
    world: dict[str, int]
    items: list[Item]

    def text(self) -> str:
        """What `read_scenario` reads."""
        lines = [f"seed {self.seed}", *(f"{name} {value}" for name, value in self.world.items())]
        return "\n".join([*lines, "", *(item.text() for item in self.items)]) + "\n"


def read_scenario(text: str) -> Scenario:
    """A scenario from its text; what it leaves out is as in `CALM`."""
    head, _, rest = text.partition("\n\n")
    world = dict(CALM)
    seed = 0
    for line in head.splitlines():
        name, _, value = line.partition(" ")
        if name == "seed":
            seed = int(value)
        elif name in CALM:
            world[name] = int(value)
        else:
            raise ValueError(f"a world has no {name}")
    return Scenario(seed, world, [_read_item(line) for line in rest.splitlines() if line.strip()])


def _read_item(line: str) -> Item:
    at, kind, *args = line.split()
    pairs = (arg.partition("=") for arg in args)
    return Item(int(at), kind, {name: int(value) for name, _, value in pairs})


# A world in which nothing goes wrong by itself.
CALM: dict[str, int] = {
    "servers": 1,
    "agents": 3,
    "hollow": 0,
    "cpus": 4,
    # When faults stop; nothing new comes in afterwards.
    "faults_ms": 60_000,
    # A server that never comes back, from 1; 0: all do.
    "dead_server": 0,
    "lost_after_ms": 10_000,
    "lease_ms": 30_000,
    "leader_ms": 3_000,
    # The plane's limits; 0: as they are.
    "segment_bytes": 0,
    "round_bytes": 0,
    "piece_bytes": 0,
    "follow_bytes": 0,
    "step_rows": 0,
    "report_rows": 0,
    "frame_rows": 0,
    "most_free": 0,
    # The network, in thousandths of messages, and milliseconds.
    "drop": 0,
    "repeat": 0,
    "swap": 0,
    "most_ms": 3,
    "tail": 0,
    "tail_ms": 2_000,
    # The store, in thousandths of its ops; and what it takes more of time.
    "store_lost": 0,
    "store_answer_lost": 0,
    "store_delayed": 0,
    "store_slow_ms": 0,
    # Puts of output whose outcome is unknown, in thousandths.
    "put_unknown": 0,
    "drift": 0,
}


def draw(seed: int) -> Scenario:
    """A scenario for a seed."""
    dice = Dice(seed * 2 + 1)
    shape, work, faults = dice.child(), dice.child(), dice.child()
    world = _world(shape)
    items = [*_work(work, world), *_faults(faults, world)]
    return Scenario(seed, world, sorted(items, key=lambda item: item.at))


def _some(dice: Dice, per_mille: int, low: int, high: int) -> int:
    """A number, in so many of a thousand worlds; else 0."""
    return dice.between(low, high) if dice.chance(per_mille) else 0


def _world(dice: Dice) -> dict[str, int]:
    world = dict(CALM)
    world["servers"] = dice.pick((1, 2, 3, 3))
    world["agents"] = dice.between(1, 7)
    world["hollow"] = _some(dice, 150, 1, 3)
    world["cpus"] = dice.between(1, 8)
    world["faults_ms"] = dice.between(40, 160) * 1_000
    world["dead_server"] = _some(dice, 400, 1, world["servers"]) if world["servers"] > 1 else 0
    world["lost_after_ms"] = dice.pick((3_000, 6_000, 10_000, 20_000))
    world["lease_ms"] = dice.pick((5_000, 30_000, 60_000))
    world["leader_ms"] = dice.pick((1_500, 3_000, 5_000))
    world["segment_bytes"] = _some(dice, 600, 200, 3_000)
    world["round_bytes"] = _some(dice, 700, 200, 6_000)
    world["piece_bytes"] = _some(dice, 500, 200, 8_000)
    world["follow_bytes"] = _some(dice, 600, 200, 3_000)
    world["step_rows"] = _some(dice, 200, 1, 20)
    world["report_rows"] = _some(dice, 400, 1, 5)
    world["frame_rows"] = _some(dice, 400, 1, 8)
    world["most_free"] = _some(dice, 600, 1, 3)
    # What a network does badly it does together: a late frame is of the session before only after a gap.
    rough = 800 if dice.chance(300) else 150
    world["drop"] = _some(dice, rough, 1, 20)
    world["repeat"] = _some(dice, rough, 1, 40)
    world["swap"] = _some(dice, rough, 1, 20)
    world["most_ms"] = dice.pick((1, 3, 10, 60))
    world["tail"] = _some(dice, rough, 1, 60)
    world["store_lost"] = _some(dice, 500, 5, 120)
    world["store_answer_lost"] = _some(dice, 500, 5, 100)
    world["store_delayed"] = _some(dice, 300, 5, 40)
    world["store_slow_ms"] = _some(dice, 300, 10, 120)
    world["put_unknown"] = _some(dice, 400, 10, 300)
    world["drift"] = _some(dice, 300, 1, 500)
    # Longer than three beats of a nervous site: the stream is left, and what was on it comes late.
    world["tail_ms"] = dice.pick((2_000, 8_000))
    return world


# Work.


def _work(dice: Dice, world: dict[str, int]) -> Iterator[Item]:
    """What clients do; each kind is on in some worlds only."""
    arrays, exclusive, failing = dice.chance(600), dice.chance(600), dice.chance(500)
    needs, loud, stubborn = dice.chance(400), dice.chance(600), dice.chance(300)
    picky, cancels = dice.chance(350), dice.chance(500)
    number = dice.between(4, 22)
    longest = dice.pick((500, 4_000, 20_000, 40_000, 100_000))
    infra = dice.pick((0, 1, 3, 3, 3))
    for n in range(1, number + 1):
        args = {"n": n, "client": dice.between(1, 3), "ms": dice.between(0, longest)}
        args["count"] = dice.between(2, 30) if arrays and dice.chance(300) else 1
        if args["count"] > 1:
            # One machine may have to run them all, after each other and again.
            args["ms"] = min(args["ms"], 30_000)
            if dice.chance(300):
                args["parallel"] = dice.between(1, 4)
        args["cpu"] = dice.pick((100, 500, 1_000, 1_000, 2_000))
        args["infra"] = infra
        if exclusive and dice.chance(500):
            args["exclusive"] = 1
        if failing and dice.chance(400):
            args |= {
                "exit": dice.pick((1, 7, -9)),
                "retry": dice.between(0, 2),
                "good_from": dice.between(1, 3),
            }
            if dice.chance(100):
                args["missing"] = 1
        if loud:
            args |= {"out": dice.pick((0, 10, 3_000, 90_000)), "err": dice.pick((0, 0, 200))}
        if stubborn and dice.chance(400):
            args["term"] = dice.between(100, 8_000)
        if needs and n > 1 and dice.chance(400):
            args |= {"needs": dice.between(0, 2) + 1}
        args |= _picky(dice, world) if picky and dice.chance(400) else {}
        if dice.chance(250):
            args["again"] = dice.between(1, 20_000)
        at = dice.between(0, world["faults_ms"] * 3 // 4)
        yield Item(at, "submit", args)
        if cancels and dice.chance(250):
            yield Item(at + dice.between(1, 15_000), "cancel", {"n": n, "client": args["client"]})
    for _ in range(dice.between(0, 12)):
        args = {"client": dice.between(1, 3), "what": dice.below(4)}
        yield Item(dice.between(0, world["faults_ms"]), "look", args)


def _picky(dice: Dice, world: dict[str, int]) -> dict[str, int]:
    kind = dice.below(5)
    if kind == 0:
        return {"refuse": 1}
    if kind == 1:
        return {"pending": dice.between(1_000, 30_000)}
    if kind == 2:
        return {"run": dice.between(200, 5_000)}
    if kind == 3:
        return {"cpu": (world["cpus"] + 1) * 1_000}  # fits nowhere
    return {"where": 1}  # no agent is like that


# Faults.

# kind: (in so many of a thousand worlds, at most how often, what is drawn of it)
FAULTS: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "kill_server": (600, 6, ("server", "ms", "silent")),
    "pause_server": (350, 4, ("server", "ms")),
    "wall_server": (250, 2, ("server", "error")),
    "kill_agent": (500, 6, ("agent", "ms")),
    "pause_agent": (300, 4, ("agent", "ms")),
    "reboot": (350, 3, ("agent", "ms", "keep")),
    "keeper_crash": (250, 3, ("agent", "ms")),
    "keeper_away": (250, 2, ("agent", "long")),
    "clone": (350, 3, ("agent", "ms")),
    "leave": (250, 2, ("agent", "ms", "keep")),
    "cordon": (200, 2, ("agent", "ms")),
    "kill_front": (350, 4, ("server", "ms")),
    "cut": (500, 8, ("server", "agent", "way", "ms", "lossy")),
    "cut_output": (250, 4, ("server", "agent", "way", "ms", "lossy")),
    "cut_client": (350, 5, ("server", "client", "way", "ms", "lossy")),
    "cut_store": (450, 4, ("server", "ms")),
    "store_away": (350, 4, ("ms",)),
    "store_full": (250, 2, ("ms",)),
    "end_lease": (400, 5, ()),
    "deliver": (300, 6, ()),
    "blobs_away": (200, 2, ("ms",)),
    "half_batch": (600, 4, ("ms", "silent", "part")),
    "late_start": (700, 8, ("agent", "long", "late")),
}


def _faults(dice: Dice, world: dict[str, int]) -> Iterator[Item]:
    for kind, (worlds, most, draws) in FAULTS.items():
        times = dice.between(1, most) if dice.chance(worlds) else 0
        for _ in range(times):
            args = {name: _draw(dice, name, world) for name in draws}
            yield Item(dice.between(0, world["faults_ms"]), kind, args)


def _draw(dice: Dice, name: str, world: dict[str, int]) -> int:
    if name == "server":
        return dice.between(1, world["servers"])
    if name == "agent":
        # 0: all of them, as when a switch dies.
        return dice.between(1, world["agents"]) if dice.chance(850) else 0
    if name == "client":
        return dice.between(1, 5)  # three that ask, two that follow
    if name == "late":
        # Longer than an agent waits for a word of control.
        return world["lost_after_ms"] * dice.between(15, 50) // 10
    if name == "part":
        return dice.between(1, 3)
    if name == "way":
        return dice.below(3)  # up, down, both
    if name == "ms":
        return dice.pick((50, 700, 3_000, 9_000, 25_000, 60_000)) * dice.between(5, 15) // 10
    if name == "long":
        return dice.between(1_000, 120_000)
    if name == "error":
        return dice.between(-3_600_000, 3_600_000)
    return dice.below(2)
