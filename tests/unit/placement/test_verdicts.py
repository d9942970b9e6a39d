"""Twenty situations: what a person is told, and that the change which is named does lift it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import pytest
from tests.unit.placement.worlds import GIB, asks, cluster

from fairlead.model.asks import Ask, Neighbours, Spread
from fairlead.model.reasons import Reason
from fairlead.model.verdict import Verdict, sentence
from fairlead.placement.alternatives import place_any
from fairlead.placement.order import Tenants, Waiting
from fairlead.placement.place import explain, place
from fairlead.placement.table import AgentTable

CPU = (("cpu", 1000),)


class Question(NamedTuple):
    """A lot before a cluster."""

    table: AgentTable
    ask: Ask
    states: dict[int, str] = {}
    resting: Collection[int] = ()
    among: Collection[int] | None = None
    now: int = 0

    def verdict(self) -> Verdict:
        shape = self.table.intern(self.ask)
        return explain(self.table, shape, self.states, self.resting, self.now, self.among)

    def placed(self) -> bool:
        shape = self.table.intern(self.ask)
        return bool(place(self.table, shape, 1, 1, self.resting, now=self.now, among=self.among))


Change = Callable[[Question], Question | None]


class Situation(NamedTuple):
    """What stands in the way, what is said, and what lifts it."""

    name: str
    make: Callable[[], Question]
    reason: Reason
    said: str
    lifts: str
    change: Change
    never: bool = False


def runs(table: AgentTable, ask: Ask, agent: int, count: int = 1) -> None:
    table.take(table.intern(ask), agent, count)


def ends(ask: Ask, agent: int, count: int = 1) -> Change:
    return lambda question: question.table.give(question.table.intern(ask), agent, count)


def joins(number: int, labels: dict[str, str] | None = None, **totals: int) -> Change:
    def join(question: Question) -> None:
        question.table.set_agent(number, totals, labels or {})
        question.table.set_open(number, True)

    return join


def zoned(*zones: str, cpu: int = 4000) -> AgentTable:
    table = AgentTable()
    for number, zone in enumerate(zones, 1):
        table.set_agent(number, {"cpu": cpu}, {"zone": zone})
        table.set_open(number, True)
    return table


def with_running(table: AgentTable, *running: tuple[Ask, int, int]) -> AgentTable:
    for ask, agent, count in running:
        runs(table, ask, agent, count)
    return table


def pooled(total: int, used: int = 0) -> AgentTable:
    table = cluster({"cpu": 64_000})
    table.set_pool("licence", total)
    return with_running(table, *([(LICENSED, 1, used)] if used else []))


def labelled(**labels: str) -> Change:
    return lambda question: question.table.set_agent(1, {"cpu": 4000}, labels)


LICENSED = asks(cpu=1000, licence=1000)
PORT = Ask(CPU, ports=("tcp/8080",))
DB = Ask(CPU, labels=(("app", "db"),))
ALONE = Ask(CPU, labels=(("app", "web"),), apart=(Neighbours("app == db"),))
SHY = Ask(CPU, apart=(Neighbours("app == web", "zone"),))
NOISY = Ask(CPU, interference="io-heavy")
QUIET = Ask(CPU, interference="latency-critical", avoid=("io-heavy",))
SPREAD = Ask(CPU, labels=(("app", "web"),), spread=(Spread("zone", "app == web"),))
SHARE = asks(cpu=100, gpu=600)

SITUATIONS = [
    Situation(
        "nobody has joined",
        lambda: Question(AgentTable(), asks(cpu=1000)),
        Reason.no_agents,
        "no agent has joined yet",
        "let an agent join",
        joins(1, cpu=1000),
    ),
    Situation(
        "every agent is too small",
        lambda: Question(cluster({"cpu": 4000}, {"cpu": 6000}), asks(cpu=8000)),
        Reason.too_little,
        "too little cpu",
        "2 more cpu on the nearest agent",
        joins(3, cpu=8000),
        never=True,
    ),
    Situation(
        "every agent is full",
        lambda: Question(with_running(cluster({"cpu": 4000}), (asks(cpu=1000), 1, 4)), asks(cpu=1000)),
        Reason.too_little,
        "too little cpu",
        "1 more cpu on the nearest agent",
        ends(asks(cpu=1000), 1),
    ),
    Situation(
        "memory is used up",
        lambda: Question(
            with_running(cluster({"cpu": 9000, "memory": GIB}), (asks(memory=GIB), 1, 1)), asks(memory=10)
        ),
        Reason.too_little,
        "too little memory",
        "10 B more memory on the nearest agent",
        ends(asks(memory=GIB), 1),
    ),
    Situation(
        "no label fits",
        lambda: Question(cluster({"cpu": 4000}), Ask(CPU, where=("region == eu",))),
        Reason.rule_not_met,
        "no match for region == eu",
        "an agent where region == eu",
        labelled(region="eu"),
        never=True,
    ),
    Situation(
        "a number on a label is too small",
        lambda: Question(cluster({"cpu": 4000}), Ask(CPU, where=("driver >= 550",))),
        Reason.rule_not_met,
        "no match for driver >= 550",
        "an agent where driver >= 550",
        labelled(driver="555"),
        never=True,
    ),
    Situation(
        "a taint is not tolerated",
        lambda: Question(tainted(), asks(cpu=1000)),
        Reason.tainted,
        "the agent is tainted maintenance",
        "tolerate maintenance, or an agent without it",
        lambda question: question._replace(ask=Ask(CPU, tolerate=("maintenance",))),
        never=True,
    ),
    Situation(
        "the agent is cordoned",
        lambda: Question(closed(), asks(cpu=1000), {1: "cordoned"}),
        Reason.agent_not_ready,
        "the agent is cordoned",
        "an agent that is ready",
        lambda question: question.table.set_open(1, True),
    ),
    Situation(
        "the agent just refused it",
        lambda: Question(cluster({"cpu": 4000}), asks(cpu=1000), resting=[1]),
        Reason.resting,
        "the agent refused it a moment ago",
        "it is tried again soon",
        lambda question: question._replace(resting=()),
    ),
    Situation(
        "all licences are used",
        lambda: Question(pooled(2000, 2), LICENSED),
        Reason.pool_empty,
        "the cluster has too little licence",
        "1 licence given back",
        ends(LICENSED, 1),
    ),
    Situation(
        "there are not so many licences",
        lambda: Question(pooled(500), LICENSED),
        Reason.pool_empty,
        "the cluster has too little licence",
        "a cluster with 1 licence",
        lambda question: question.table.set_pool("licence", 1000),
        never=True,
    ),
    Situation(
        "the port is taken",
        lambda: Question(with_running(cluster({"cpu": 4000}), (PORT, 1, 1)), PORT),
        Reason.port_taken,
        "port:tcp/8080 is taken",
        "tcp/8080 given back by who has it",
        ends(PORT, 1),
    ),
    Situation(
        "shares of GPUs are free, but no device has enough",
        lambda: Question(with_running(cluster({"cpu": 4000, "gpu": 2000}), (SHARE, 1, 2)), asks(gpu=800)),
        Reason.scattered,
        "enough gpu is free, but not on one device",
        "0.4 more gpu on one device on the nearest agent",
        ends(SHARE, 1),
    ),
    Situation(
        "no whole GPU is free",
        lambda: Question(with_running(cluster({"cpu": 4000, "gpu": 1000}), (SHARE, 1, 1)), asks(gpu=1000)),
        Reason.too_little,
        "too little gpu",
        "1 more gpu whole on the nearest agent",
        ends(SHARE, 1),
    ),
    Situation(
        "the agent ends too soon",
        lambda: Question(leaving(5000), Ask(CPU, run_ms=60_000), now=1000),
        Reason.ends_too_soon,
        "the agent ends before the run limit would",
        "a run limit of 4s, or an agent that stays longer",
        lambda question: question._replace(ask=Ask(CPU, run_ms=4000)),
    ),
    Situation(
        "the equipment is elsewhere",
        lambda: Question(cluster({"cpu": 4000}), asks(cpu=1000), among=[]),
        Reason.no_equipment,
        "the agent has none of the equipment claimed free",
        "a free unit of what is claimed, or an agent beside it",
        lambda question: question._replace(among=[1]),
    ),
    Situation(
        "nobody to be near runs",
        lambda: Question(zoned("a", "b"), Ask(CPU, near=(Neighbours("app == db", "zone"),))),
        Reason.not_near,
        "nobody it wants to be near is in the zone",
        "one of those it wants to be near, in a zone with room",
        lambda question: runs(question.table, DB, 2),
    ),
    Situation(
        "who it has to be apart from is everywhere",
        lambda: Question(with_running(zoned("a"), (DB, 1, 1)), ALONE),
        Reason.too_near,
        "somebody it has to be apart from is in the host",
        "a host without those it has to be apart from",
        ends(DB, 1),
    ),
    Situation(
        "others keep it away from their zone",
        lambda: Question(with_running(zoned("a", "a"), (SHY, 1, 1)), ALONE),
        Reason.too_near,
        "somebody it has to be apart from is in the zone",
        "a zone without those it has to be apart from",
        joins(3, {"zone": "b"}, cpu=4000),
    ),
    Situation(
        "who disturbs it runs there",
        lambda: Question(with_running(zoned("a"), (NOISY, 1, 1)), QUIET),
        Reason.too_near,
        "somebody it has to be apart from is in the host",
        "a host without those it has to be apart from",
        ends(NOISY, 1),
    ),
    Situation(
        "only the fuller zone has room",
        lambda: Question(with_running(zoned("a", "b"), (SPREAD, 1, 1), (asks(cpu=4000), 2, 1)), SPREAD),
        Reason.uneven,
        "the zone already has more than the others",
        "room in the zone that has the fewest",
        ends(asks(cpu=4000), 2),
    ),
]


def tainted() -> AgentTable:
    table = AgentTable()
    table.set_agent(1, {"cpu": 4000}, {}, taints=["maintenance"])
    table.set_open(1, True)
    return table


def closed() -> AgentTable:
    table = cluster({"cpu": 4000})
    table.set_open(1, False)
    return table


def leaving(at: int) -> AgentTable:
    table = AgentTable()
    table.set_agent(1, {"cpu": 4000}, {}, ends_at=at)
    table.set_open(1, True)
    return table


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_the_cause_is_told_and_the_change_that_is_named_lifts_it(situation: Situation) -> None:
    question = situation.make()
    verdict = question.verdict()
    assert verdict.fits == 0
    assert verdict.never is situation.never
    told = [
        (blocker.reason, sentence(blocker.reason, blocker.facts), blocker.lifts)
        for blocker in verdict.blockers
    ]
    assert (situation.reason, situation.said, situation.lifts) in told
    assert not question.placed()
    question = situation.change(question) or question
    assert question.verdict().fits > 0
    assert question.placed()


def test_a_quota_is_told_with_what_is_used_and_lifted_by_what_ends() -> None:
    tenants = Tenants({"cpu": 8000})
    tenants.quotas["team-a"] = {"cpu": 2000}
    tenants.hold("team-a", CPU, 2)
    lot = Waiting(1, "team-a", CPU, 1, 0)
    blocker = tenants.blocker(lot)
    assert blocker is not None
    assert sentence(blocker.reason, blocker.facts) == "the quota of team-a for cpu is used up"
    assert (blocker.facts["used"], blocker.lifts) == ("2 cpu", "1 cpu given back")
    tenants.hold("team-a", CPU, -1)
    assert tenants.blocker(lot) is None


def test_every_cause_is_counted_and_the_nearest_agent_named() -> None:
    table = zoned("a", "a", "b")
    table.set_agent(4, {"cpu": 500}, {"zone": "b"})
    table.set_open(4, True)
    table.set_open(2, False)
    runs(table, asks(cpu=4000), 3)
    ask = Ask(CPU, where=("zone == b",))
    verdict = explain(table, table.intern(ask), {2: "draining"})
    assert [(blocker.reason, blocker.agents) for blocker in verdict.blockers] == [
        (Reason.rule_not_met, 2), (Reason.too_little, 1), (Reason.too_little, 1)
    ]  # fmt: skip
    assert verdict.nearest in (1, 3)
    assert not verdict.never


def test_the_second_alternative_takes_what_the_first_cannot() -> None:
    table = cluster({"cpu": 32_000, "gpu": 1000}, {"cpu": 32_000})
    ask = Ask((("memory", 0),), any_of=((("cpu", 1000), ("gpu", 1000)), (("cpu", 16_000),)))
    found = place_any(table, ask, 5, 10)
    assert [[sum(many for _, many in placed), shape.names] for shape, placed in found] == [
        [1, ["cpu", "gpu", "memory"]], [3, ["cpu", "memory"]]
    ]  # fmt: skip
    for shape, placed in found:
        for number, many in placed:
            table.give(shape, number, many)
    assert [column[:2].tolist() for column in table.free] == [column[:2].tolist() for column in table.total]
