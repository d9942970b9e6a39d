"""What an instance asks of the machine it runs on: amounts, rules, neighbours. Equal asks are one shape.

Amounts are exact integers (see `jobs`): `cpu` and every counted resource in thousandths, sizes in bytes. The
engine compiles an ask once; everything here is text and numbers, so that it can be hashed, sent and stored.
"""

from __future__ import annotations

from msgspec import Struct

from fairlead.model.wall import Shape

Amounts = tuple[tuple[str, int], ...]

# The topology key that means the agent itself; every other key is the name of a label.
HOST = "host"


class Neighbours(Struct, frozen=True, gc=False):
    """Instances whose labels meet the rule, in the same domain of the label `by`."""

    jobs: str
    by: str = HOST


class Prefer(Struct, frozen=True, gc=False):
    """Agents that meet the rule are better by so much; 100 outweighs any difference in room."""

    rule: str
    weight: int


class Spread(Struct, frozen=True, gc=False):
    """No domain of `over` gets more than `max_skew` more of the instances meant than the emptiest one."""

    over: str
    jobs: str
    max_skew: int = 1
    # With fewer domains than this the emptiest one counts as empty; 0: as many as there are.
    least_domains: int = 0


class Ask(Struct, frozen=True, gc=False):
    """Everything that decides where an instance may run."""

    resources: Amounts = ()
    # In this order, each laid over `resources`.
    any_of: tuple[Amounts, ...] = ()
    where: tuple[str, ...] = ()
    tolerate: tuple[str, ...] = ()
    prefer: tuple[Prefer, ...] = ()
    near: tuple[Neighbours, ...] = ()
    apart: tuple[Neighbours, ...] = ()
    spread: tuple[Spread, ...] = ()
    # What others' rules about neighbours see of it.
    labels: tuple[tuple[str, str], ...] = ()
    interference: str = ""
    avoid: tuple[str, ...] = ()
    # Fixed ports, as `tcp/8080`.
    ports: tuple[str, ...] = ()
    # The longest it may run; an agent that ends sooner is no place for it. 0: unknown, not compared.
    run_ms: int = 0


def ask_of(shape: Shape | Ask) -> Ask:
    """The ask that a wall's shape stands for."""
    return shape if isinstance(shape, Ask) else Ask(shape.ask, where=shape.where)


def options(ask: Ask) -> list[Amounts]:
    """What may be taken, best first: the alternatives laid over the plain amounts, or those alone."""
    if not ask.any_of:
        return [ask.resources]
    return [tuple(sorted((dict(ask.resources) | dict(over)).items())) for over in ask.any_of]
