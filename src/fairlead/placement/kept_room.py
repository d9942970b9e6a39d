"""Room kept for a lot that waits, when nobody knows when running work ends.

The lot keeps the agent that lacks least of what it needs. Others may use there only what remains in the worst
case: any single instance that runs there ends, and the lot starts. So small work fills gaps and never keeps
a large lot waiting for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fairlead.placement.place import place
from fairlead.placement.scale import FULL, LIMIT
from fairlead.placement.shapes import Interned
from fairlead.placement.table import AgentTable

Running = Mapping[int, Sequence[Interned]]


class KeptRoom:
    """Agents that blocked lots wait for, with what others may still use of each."""

    def __init__(self, table: AgentTable) -> None:
        self.table = table
        # agent -> what is spare of each column.
        self.spare: dict[int, dict[int, int]] = {}

    def keep(self, shape: Interned, running: Running) -> int:
        """Keep an agent for one instance of a blocked shape; 0 if none could ever hold it, or all are kept."""
        table = self.table
        table.settle()
        rows = len(table)
        able = (table.columns.of(shape).offset < LIMIT) & table.open[:rows]
        for number in self.spare:
            able[table.rows[number]] = False
        if not able.any():
            return 0
        lacking = np.zeros(rows, np.int64)
        for column, amount in zip(shape.columns, shape.amounts, strict=True):
            if amount:
                lacking += np.maximum(amount - table.free[column][:rows], 0) * FULL // amount
        lacking[~able] = np.iinfo(np.int64).max
        number = table.numbers[int(lacking.argmin())]
        self.spare[number] = self._worst(number, shape, running.get(number, ()))
        return number

    def place(self, shape: Interned, count: int, most_rows: int) -> list[tuple[int, int]]:
        """Like the engine's verb, but on a kept agent only in what is spare."""
        placed = place(self.table, shape, count, most_rows, shunned=self.spare)
        count -= sum(many for _, many in placed)
        for number in sorted(self.spare):
            if not count or len(placed) >= most_rows:
                break
            many = min(count, self._fits(number, shape))
            found = place(self.table, shape, many, 1, among=[number]) if many else []
            for _, taken in found:
                self._use(number, shape, taken)
                count -= taken
            placed += found
        return placed

    def _worst(self, number: int, shape: Interned, running: Sequence[Interned]) -> dict[int, int]:
        row = self.table.rows[number]
        free = {column: self.table.free[column].item(row) for column in range(len(self.table.free))}
        wanted = dict(zip(shape.columns, shape.amounts, strict=True))
        worst: dict[int, int] | None = None
        for each in running:
            back = dict(zip(each.columns, each.amounts, strict=True))
            after = {column: free[column] + back.get(column, 0) - wanted.get(column, 0) for column in free}
            if all(left >= 0 for left in after.values()):
                worst = (
                    after if worst is None else {name: min(left, worst[name]) for name, left in after.items()}
                )
        if worst is None:
            return dict.fromkeys(free, 0)
        return {column: min(left, free[column]) for column, left in worst.items()}

    def _fits(self, number: int, shape: Interned) -> int:
        spare = self.spare[number]
        amounts = zip(shape.columns, shape.amounts, strict=True)
        return min((spare.get(column, 0) // amount for column, amount in amounts if amount), default=1)

    def _use(self, number: int, shape: Interned, count: int) -> None:
        for column, amount in zip(shape.columns, shape.amounts, strict=True):
            self.spare[number][column] = self.spare[number].get(column, 0) - amount * count
