"""Whatever happens to the rows: a patched column is the column made anew, and the books agree."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.asks import Ask, Neighbours
from fairlead.model.policies import GPU_PACK, PACK, SPREAD, Policy
from fairlead.placement.columns import Column
from fairlead.placement.place import place
from fairlead.placement.shapes import Interned
from fairlead.placement.table import AgentTable

POLICIES = [
    PACK, SPREAD, GPU_PACK, Policy("mixed", (("pack", 3), ("load", 1), ("best_fit", 1))),
    Policy("formula", score="free.cpu / max(ask.cpu, 1) - load"),
]  # fmt: skip
ASKS = [
    Ask((("cpu", 700),)),
    Ask((("cpu", 100), ("gpu", 300))),
    Ask((("cpu", 100), ("gpu", 1000)), where=("zone == a",)),
    Ask((("cpu", 300), ("licence", 1000))),
    Ask((("cpu", 200),), labels=(("app", "x"),), apart=(Neighbours("app == x"),)),
    Ask((("cpu", 200),), ports=("tcp/80",)),
]
Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["place", "end", "close", "open", "agent", "label", "load", "pool"]),
        st.integers(0, 8),
        st.integers(1, 6),
    ),
    max_size=40,
)


class Play:
    """A table, and what was placed on it."""

    def __init__(self, policy: Policy) -> None:
        self.table = AgentTable(policy)
        if self.table.states is not None:
            self.table.states.expect([(ASKS[1], 0.5), (ASKS[2], 0.5)])
        self.table.set_pool("licence", 3000)
        self.shapes = [self.table.intern(ask) for ask in ASKS]
        self.running: list[tuple[Interned, int]] = []
        for number in (5, 2, 9):
            self.step(("agent", number, 4))

    def step(self, step: Step) -> None:
        what, which, many = step
        table = self.table
        if what == "agent":
            table.set_agent(
                which + 1, {"cpu": 1000 * many, "gpu": 1000 * (which % 3)}, {"zone": "ab"[many % 2]}
            )
            table.set_open(which + 1, True)
        elif what == "place":
            shape = self.shapes[which % len(self.shapes)]
            for number, count in place(table, shape, many, 8):
                self.running += [(shape, number)] * count
        elif what == "end" and self.running:
            shape, number = self.running.pop(which % len(self.running))
            table.give(shape, number, 1)
        elif what == "pool":
            table.set_pool("licence", 1000 * many)
        elif table.numbers:
            self.change(what, table.numbers[which % len(table.numbers)], many)

    def change(self, what: str, number: int, many: int) -> None:
        table = self.table
        if what in ("close", "open"):
            table.set_open(number, what == "open")
        elif what == "load":
            table.set_load(number, 100 * many)
        elif what == "label":
            row = table.rows[number]
            totals = {name: int(table.total[column][row]) for name, column in table.resources.items()}
            table.set_agent(number, totals, {"zone": "ab"[many % 2]}, taints=("old",) if many == 1 else ())


@given(st.sampled_from(POLICIES), STEPS)
@settings(max_examples=80, deadline=None)
def test_columns_and_books_agree_after_any_steps(policy: Policy, steps: list[Step]) -> None:
    play = Play(policy)
    for step in steps:
        play.step(step)
        play.table.settle()
        agree(play)


def agree(play: Play) -> None:
    table = play.table
    for shape in play.shapes[::2]:
        fresh = Column(table, shape)
        fresh.rebuild()
        assert table.columns.of(shape).score.tolist() == fresh.score.tolist()
    for name, column in table.resources.items():
        for row, number in enumerate(table.numbers):
            used = sum(
                amount * (name not in table.pools)
                for shape, at in play.running
                if at == number
                for asked, amount in zip(shape.names, shape.amounts, strict=True)
                if asked == name
            )
            assert table.free[column][row] == table.total[column][row] - used, name
    gpus = table.devices.free[: len(table)].sum(axis=1).tolist()
    column = table.resources["gpu"]
    assert gpus == table.free[column][: len(table)].tolist()
