"""Rows as states, for scorers that look at more than one sum: states recur, so their scores are remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairlead.model.asks import Ask
from fairlead.placement.devices import DEVICE, WHOLE, Taken
from fairlead.placement.scale import Ints
from fairlead.placement.scorers.best_fit import best_fit
from fairlead.placement.scorers.clustering import clustering
from fairlead.placement.scorers.dot_product import dot_product
from fairlead.placement.scorers.fragmentation import fragmentation, fragmentation_whole, least_stranding
from fairlead.placement.scorers.row import Asked, Row, Site, Typical
from fairlead.placement.scorers.shared_first import shared_first
from fairlead.placement.shapes import Interned

if TYPE_CHECKING:
    from fairlead.placement.table import AgentTable

Scorer = Callable[[Row, Asked, Site], int]
SCORERS: dict[str, Scorer] = {
    "best_fit": best_fit,
    "clustering": clustering,
    "dot_product": dot_product,
    "fragmentation": fragmentation,
    "fragmentation_whole": fragmentation_whole,
    "shared_first": shared_first,
}
# Remembered scores are forgotten all at once beyond this.
MOST_REMEMBERED = 500_000


class States:
    """The rows of a table whose policy has scorers of rows."""

    def __init__(self, table: AgentTable, scorers: Sequence[tuple[str, int]]) -> None:
        self.table = table
        self.scorers = [(SCORERS[name], weight) for name, weight in scorers]
        self.names = {name for name, _ in scorers}
        self.site = Site(1, 1, self.stranded)
        self.typical: list[Typical] = []
        self._rules: list[Ask] = []
        self._admits: Ints = np.zeros(0, np.int64)
        self._epoch = -1
        self._rows: list[Row | None] = []
        self._remembered: dict[tuple[Asked, Row], int] = {}
        self._stranded: dict[Row, float] = {}
        self._by_gpus: dict[tuple[int, ...], tuple[NDArray[np.bool_], NDArray[np.float64]]] = {}
        self._bits: Ints = np.zeros(0, np.int64)
        self._shares = np.zeros(0)
        self._cpus = np.zeros(0, np.int64)

    def expect(self, typical: list[tuple[Ask, float]]) -> None:
        """The work that the site sees often, with its shares."""
        asks = [dict(ask.resources) for ask, _ in typical]
        self.typical = [
            Typical(ask.get("cpu", 0), ask.get(DEVICE, 0), share)
            for ask, (_, share) in zip(asks, typical, strict=True)
        ]
        self._rules = [ask for ask, _ in typical]
        self._shares = np.array([each.share for each in self.typical])
        self._cpus = np.array([each.cpu for each in self.typical], np.int64)
        self._epoch = -1
        self._stranded, self._by_gpus, self._remembered = {}, {}, {}

    def touched(self, row: int) -> None:
        """The row is not what it was."""
        if row < len(self._rows):
            self._rows[row] = None

    def scores(self, shape: Interned, rows: list[int]) -> list[int]:
        """What the rows are worth for the shape, weighted; the lower, the better."""
        self._settle()
        asked = _asked(shape)
        if len(self._remembered) > MOST_REMEMBERED:
            self._remembered = {}
            self._stranded = {}
        found = []
        for row in rows:
            state = self._rows[row] or self._row(row)
            score = self._remembered.get((asked, state))
            if score is None:
                score = -sum(weight * scorer(state, asked, self.site) for scorer, weight in self.scorers)
                self._remembered[asked, state] = score
            found.append(score)
        return found

    def device(self, shape: Interned, row: int) -> Taken:
        """The device that strands least, where the policy minds; else none is named."""
        if not shape.device or not self.names & {"fragmentation", "fragmentation_whole"}:
            return ()
        self._settle()
        state = self._rows[row] or self._row(row)
        free = least_stranding(state, _asked(shape), self.site, "fragmentation_whole" in self.names)
        return (self.table.devices.free[row].tolist().index(free),) if free else ()

    def _row(self, row: int) -> Row:
        table = self.table
        free: list[int] = table.devices.free[row].tolist()
        gpus = tuple(sorted(free[: table.devices.has.item(row)]))
        column = table.resources.get("cpu")
        cpu = table.free[column].item(row) if column is not None else 0
        classes = tuple(sorted(table.classes.get(table.numbers[row], ())))
        state = self._rows[row] = Row(cpu, gpus, self._admits.item(row), classes)
        return state

    def _settle(self) -> None:
        table, rows = self.table, len(self.table)
        if self._epoch == table.epoch and len(self._rows) == rows:
            return
        self._epoch = table.epoch
        self._rows = [None] * rows
        cpu = table.resources.get("cpu")
        largest = int(table.total[cpu][:rows].max(initial=1)) if cpu is not None else 1
        gpus = int(table.devices.has[:rows].max(initial=1)) * WHOLE
        self.site = Site(max(largest, 1), max(gpus, 1), self.stranded)
        self._admits = np.zeros(rows, np.int64)
        kinds: dict[tuple[str, ...], int] = {}
        self._bits = np.zeros(len(self._rules), np.int64)
        for at, ask in enumerate(self._rules):
            bit = kinds.setdefault(ask.where, len(kinds))
            self._bits[at] = 1 << min(bit, 62)
        for where, bit in kinds.items():
            meets = table.meets(table.intern(Ask(where=where)))
            self._admits |= meets.astype(np.int64) << min(bit, 62)

    def stranded(self, row: Row) -> float:
        """Idle GPU that the typical ask, drawn by its share, could not use."""
        known = self._stranded.get(row)
        if known is None:
            known = self._stranded[row] = self._sum(row)
        return known

    def _sum(self, row: Row) -> float:
        cached = self._by_gpus.get(row.gpus)
        if cached is None:
            cached = self._by_gpus[row.gpus] = self._fitting(row.gpus)
        fits, small = cached
        able = fits & (self._cpus <= row.cpu) & ((self._bits & row.admits) != 0)
        return float(self._shares @ np.where(able, small, float(sum(row.gpus))))

    def _fitting(self, gpus: tuple[int, ...]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Which typical asks find enough devices, and what is idle on devices too small for them."""
        fits, small = [], []
        for each in self.typical:
            wanted, count = min(each.gpu, WHOLE), max(1, each.gpu // WHOLE)
            fits.append(bool(each.gpu) and sum(free >= wanted for free in gpus) >= count)
            small.append(float(sum(free for free in gpus if free < wanted)))
        return np.array(fits, np.bool_), np.array(small)


def _asked(shape: Interned) -> Asked:
    amounts = dict(zip(shape.names, shape.amounts, strict=True))
    return Asked(amounts.get("cpu", 0), shape.device)
