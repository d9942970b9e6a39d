"""Whatever control says, in whatever order and of whatever size: an agent goes on, and its keeper is not misled."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.properties.plane_deeds import commands, keys, number
from tests.unit.agent.test_anything import NAME, World

from fairlead.model.orders import Order, Start

STEPS = 60


@st.composite
def starts(draw: st.DrawFn) -> Order:
    """Starts of a spec that is known, wherever they point."""
    held = draw(keys())
    rows = len(held)
    leases = draw(st.lists(st.just(0) | number, min_size=rows, max_size=rows))
    return Start(held, [NAME] * rows, leases)


class Told(World):
    """A world whose control also says what it is given here."""

    def __init__(self, seed: int, said: list[Order]) -> None:
        super().__init__(seed, spool_bytes=100_000)
        self.said = said

    def order(self) -> Order:
        return self.said.pop() if self.said and self.dice.chance(600) else super().order()


@given(st.integers(0, 1 << 32), st.lists(commands | starts(), min_size=4, max_size=30))
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_no_order_breaks_an_agent(seed: int, said: list[Order]) -> None:
    world = Told(seed, said)
    world.step(world.listed())
    for _ in range(STEPS):
        if world.gone:
            break
        world.step(world.event())
