"""The engine's short ways give what the plain way gives: one instance after the other, every row looked at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.asks import Ask, Neighbours, Prefer, Spread, options
from fairlead.model.policies import FIRST_FIT, PACK, SPREAD, Policy
from fairlead.model.rules import Rule, matches, parse_rule
from fairlead.placement.place import explain, place
from fairlead.placement.table import AgentTable

FULL = 1 << 18


class Agent(NamedTuple):
    number: int
    totals: dict[str, int]
    labels: dict[str, str]
    taints: tuple[str, ...]


class World:
    """Agents and what runs where, kept as plainly as can be."""

    def __init__(self, agents: list[Agent], policy: Policy) -> None:
        self.agents = sorted(agents)
        self.policy = policy
        self.running: list[tuple[Ask, int]] = []
        # Per agent, what is left of each GPU.
        self.gpus = {agent.number: [1000] * (agent.totals.get("gpu", 0) // 1000) for agent in agents}

    def free(self, agent: Agent, name: str) -> int:
        used = sum(dict(ask.resources).get(name, 0) for ask, at in self.running if at == agent.number)
        return agent.totals.get(name, 0) - used

    def place(self, ask: Ask) -> int:
        """The best agent's number, or 0."""
        fitting = [(self.score(agent, ask), agent.number) for agent in self.agents if self.allows(agent, ask)]
        if not fitting:
            return 0
        _, best = min(fitting)
        self.running.append((ask, best))
        self.take_gpus(best, dict(ask.resources).get("gpu", 0))
        return best

    def take_gpus(self, number: int, amount: int) -> None:
        gpus = self.gpus[number]
        for _ in range(max(1, amount // 1000) if amount else 0):
            each = min(amount, 1000)
            _, at = min((left, at) for at, left in enumerate(gpus) if left >= each)
            gpus[at] -= each

    def score(self, agent: Agent, ask: Ask) -> int:
        weight = self.policy.weight("pack") - self.policy.weight("spread")
        score = 0
        for name in ("cpu", "memory", "gpu"):
            if total := agent.totals.get(name, 0):
                score += self.free(agent, name) * FULL // total * weight
                score -= dict(ask.resources).get(name, 0) * FULL // total * weight
        return score - sum(each.weight * FULL for each in ask.prefer if meets(each.rule, agent.labels))

    def allows(self, agent: Agent, ask: Ask) -> bool:
        return (
            all(meets(rule, agent.labels) for rule in ask.where)
            and all(taint in ask.tolerate for taint in agent.taints)
            and all(self.free(agent, name) >= amount for name, amount in ask.resources)
            and self.allows_gpu(agent, dict(ask.resources).get("gpu", 0))
            and all(self.is_near(agent, ask, term) for term in ask.near)
            and not any(self.seen(agent, term) for term in ask.apart)
            and not any(
                meets(term.jobs, dict(ask.labels)) and self.domain(agent, term.by) == self.domain_of(at, term.by) != ""
                for other, at in self.running
                for term in other.apart
            )
            and all(self.is_even(agent, ask, spread) for spread in ask.spread)
        )  # fmt: skip

    def allows_gpu(self, agent: Agent, amount: int) -> bool:
        if not amount:
            return True
        return sum(left >= min(amount, 1000) for left in self.gpus[agent.number]) >= max(1, amount // 1000)

    def domain(self, agent: Agent, key: str) -> str:
        return str(agent.number) if key == "host" else agent.labels.get(key, "")

    def domain_of(self, number: int, key: str) -> str:
        return self.domain(next(agent for agent in self.agents if agent.number == number), key)

    def seen(self, agent: Agent, term: Neighbours) -> int:
        domain = self.domain(agent, term.by)
        return sum(
            meets(term.jobs, dict(ask.labels)) and domain == self.domain_of(at, term.by) != ""
            for ask, at in self.running
        )

    def is_near(self, agent: Agent, ask: Ask, term: Neighbours) -> bool:
        if not self.domain(agent, term.by):
            return False
        anywhere = any(
            meets(term.jobs, dict(other.labels)) and self.domain_of(at, term.by) for other, at in self.running
        )
        return bool(self.seen(agent, term)) or (not anywhere and meets(term.jobs, dict(ask.labels)))

    def is_even(self, agent: Agent, ask: Ask, spread: Spread) -> bool:
        if not self.domain(agent, spread.over):
            return False
        keys = [each.over for each in ask.spread]
        counted = [
            each
            for each in self.agents
            if all(meets(rule, each.labels) for rule in ask.where)
            and all(self.domain(each, key) for key in keys)
        ]
        by_domain = {self.domain(each, spread.over): 0 for each in counted}
        for other, at in self.running:
            if meets(spread.jobs, dict(other.labels)) and at in {each.number for each in counted}:
                by_domain[self.domain_of(at, spread.over)] += 1
        if not by_domain:
            return False
        here = by_domain.get(self.domain(agent, spread.over), 0)
        lowest = min(by_domain.values()) if len(by_domain) >= spread.least_domains else 0
        return here + meets(spread.jobs, dict(ask.labels)) - lowest <= spread.max_skew


def meets(text: str, labels: dict[str, str]) -> bool:
    rule = parse_rule(text)
    assert isinstance(rule, Rule)
    return matches(rule, labels)


RULES = st.sampled_from(["zone == a", "zone != b", "not spot", "zone in (a, b)", "zone exists"])
MEANT = st.sampled_from(["app == x", "app == y", "app exists"])
KEYS = st.sampled_from(["host", "zone"])


@st.composite
def agents(draw: st.DrawFn) -> list[Agent]:
    count = draw(st.integers(1, 7))
    numbers = draw(st.permutations(range(1, count + 1)))
    found = []
    for number in numbers:
        totals = {
            "cpu": draw(st.sampled_from([1000, 4000, 6000])),
            "memory": draw(st.sampled_from([8, 64])) << 30,
        }
        if draw(st.booleans()):
            totals["gpu"] = draw(st.sampled_from([1000, 2000]))
        labels = {"zone": zone} if (zone := draw(st.sampled_from(["a", "b", "c", ""]))) else {}
        if draw(st.booleans()):
            labels["spot"] = "true"
        found.append(Agent(number, totals, labels, ("maintenance",) if draw(st.integers(0, 4)) == 0 else ()))
    return found


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    amounts = {
        "cpu": draw(st.sampled_from([0, 500, 900, 2000])),
        "memory": draw(st.sampled_from([0, 1 << 30, 3 << 30])),
    }
    if draw(st.integers(0, 3)) == 0:
        amounts["gpu"] = draw(st.sampled_from([300, 600, 1000, 2000]))
    rules = st.lists(RULES, max_size=1).map(tuple)
    neighbours = st.lists(st.builds(Neighbours, MEANT, KEYS), max_size=2).map(tuple)
    even = st.lists(st.builds(Spread, KEYS, MEANT, st.integers(1, 2)), max_size=2).map(tuple)
    social = draw(st.booleans())
    return Ask(
        tuple(sorted(amounts.items())),
        where=draw(rules),
        tolerate=draw(st.sampled_from([(), ("maintenance",)])),
        prefer=draw(st.lists(st.builds(Prefer, RULES, st.integers(-3, 3)), max_size=2).map(tuple)),
        near=draw(neighbours) if social and draw(st.booleans()) else (),
        apart=draw(neighbours) if social else (),
        spread=draw(even) if social else (),
        labels=(("app", draw(st.sampled_from(["x", "y"]))),) if social and draw(st.booleans()) else (),
    )  # fmt: skip


@given(
    agents(),
    st.lists(st.tuples(asks(), st.integers(1, 30)), max_size=6),
    st.sampled_from([PACK, SPREAD, FIRST_FIT]),
    st.randoms(),
)
@settings(max_examples=60, deadline=None)
def test_lots_land_where_one_instance_after_the_other_would(
    found: list[Agent], lots: list[tuple[Ask, int]], policy: Policy, dice: object
) -> None:
    world, table = World(found, policy), AgentTable(policy)
    for agent in found:
        table.set_agent(agent.number, agent.totals, agent.labels, agent.taints)
        table.set_open(agent.number, True)
    for ask, count in itertools.chain(lots, lots[:2]):
        expected = [at for _ in range(count) if (at := world.place(ask))]
        shape = table.intern(ask)
        placed = place(table, shape, count, 512)
        assert sorted(place_by_place(placed)) == sorted(expected), ask
        verdict = explain(table, shape, {})
        more = world.place(ask)
        assert bool(verdict.fits) == bool(more), (ask, verdict)
        if more:
            world.running.pop()
            world.gpus = regiven(world, found)
        for _ in range(dice.randint(0, 3)):  # type: ignore[attr-defined]
            give_one_back(world, table, found, dice)


def place_by_place(placed: list[tuple[int, int]]) -> Iterator[int]:
    for number, many in placed:
        yield from itertools.repeat(number, many)


def regiven(world: World, found: list[Agent]) -> dict[int, list[int]]:
    """GPUs as they are with what still runs, in the order in which it came."""
    fresh = World(found, world.policy)
    for ask, at in world.running:
        fresh.take_gpus(at, dict(ask.resources).get("gpu", 0))
    return fresh.gpus


def give_one_back(world: World, table: AgentTable, found: list[Agent], dice: object) -> None:
    plain = [at for at, (ask, _) in enumerate(world.running) if not dict(ask.resources).get("gpu", 0)]
    if plain:
        ask, number = world.running.pop(dice.choice(plain))  # type: ignore[attr-defined]
        table.give(table.intern(ask), number, 1)


def test_alternatives_are_laid_over_what_is_asked_in_any_case() -> None:
    ask = Ask((("cpu", 1000), ("memory", 5)), any_of=((("gpu", 1000),), (("cpu", 16000),)))
    assert options(ask) == [(("cpu", 1000), ("gpu", 1000), ("memory", 5)), (("cpu", 16000), ("memory", 5))]
