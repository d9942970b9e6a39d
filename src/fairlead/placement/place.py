"""Where a lot fits: the engine's one verb.

Pack: agents that already work are filled before idle ones, the fullest first, the lowest number among
equals; so the answer does not depend on the order in which agents came.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from fairlead.model.reasons import Reason
from fairlead.model.verdict import Blocker, Verdict
from fairlead.placement.table import AgentTable, Interned, Ints

MANY = 1 << 40


def room(table: AgentTable, shape: Interned) -> Ints:
    """How many instances of the shape each row could hold now, .."""
    rows = len(table)
    fits = np.full(rows, MANY, np.int64)
    for column, amount in zip(shape.columns, shape.amounts, strict=True):
        if amount > 0:
            np.minimum(fits, table.free[column][:rows] // amount, out=fits)
    return np.maximum(fits, 0)


def place(
    table: AgentTable,
    shape: Interned,
    count: int,
    most_rows: int,
    shunned: Collection[int] = (),
    last: int = 0,
) -> list[tuple[int, int]]:
    """Up to `count` instances as (agent, how many), room taken; `last` is used when nobody else fits."""
    fits = room(table, shape)
    fits *= table.open[: len(table)] & table.meets(shape)
    for number in shunned:
        if (row := table.rows.get(number)) is not None:
            fits[row] = 0
    chosen = _fill(table, fits, count, most_rows, last)
    for number, many in chosen:
        table.take(shape, number, many)
    return chosen


def _fill(table: AgentTable, fits: Ints, count: int, most_rows: int, last: int) -> list[tuple[int, int]]:
    rows = np.flatnonzero(fits)
    if not len(rows):
        return []
    numbers = np.fromiter((table.numbers[row] for row in rows), np.int64, len(rows))
    order = np.lexsort((numbers, fits[rows], numbers == last))
    chosen: list[tuple[int, int]] = []
    for at in order[:most_rows].tolist():
        many = min(count, int(fits[rows[at]]))
        chosen.append((int(numbers[at]), many))
        count -= many
        if not count:
            break
    return chosen


def explain(table: AgentTable, shape: Interned, states: dict[int, str], resting: Collection[int]) -> Verdict:
    """Why the shape does not start now: each agent counts at the first thing that keeps it away."""
    rows = len(table)
    meets = table.meets(shape)
    is_open = table.open[:rows]
    fits = room(table, shape)
    blockers: list[Blocker] = []
    if not rows:
        blockers.append(Blocker(Reason.no_agents, 0, {}, "let an agent join"))
    possible = meets.copy()
    blockers += _unmet_rules(table, shape)
    for column, (name, amount) in zip(shape.columns, shape.shape.ask, strict=True):
        total = table.total[column][:rows]
        short = possible & (total < amount)
        if short.any():
            blockers.append(_too_little(name, amount, int(short.sum()), int(total[short].max()), "total"))
        possible &= ~short
    blockers += _closed(table, possible & ~is_open, states)
    left = possible & is_open
    for number in resting:
        row = table.rows.get(number)
        if row is not None and left[row]:
            blockers.append(Blocker(Reason.resting, 1, {}, "it is tried again soon"))
            left[row] = False
    for column, (name, amount) in zip(shape.columns, shape.shape.ask, strict=True):
        free = table.free[column][:rows]
        short = left & (free < amount)
        if short.any():
            blockers.append(_too_little(name, amount, int(short.sum()), int(free[short].max()), "free"))
        left &= ~short
    return Verdict(rows, int(fits[left].sum()), bool(rows) and not bool(possible.any()), blockers)


def _unmet_rules(table: AgentTable, shape: Interned) -> list[Blocker]:
    blocked = int((~table.meets(shape)).sum())
    if not blocked:
        return []
    rule = " and ".join(shape.shape.where)
    return [Blocker(Reason.rule_not_met, blocked, {"rule": rule}, f"an agent where {rule}")]


def _too_little(name: str, amount: int, agents: int, best: int, kind: str) -> Blocker:
    facts = {"resource": name, "asked": str(amount), "best": str(best), "kind": kind}
    lifts = f"{amount - best} more {name} on the nearest agent"
    return Blocker(Reason.too_little, agents, facts, lifts)


def _closed(table: AgentTable, closed: np.ndarray, states: dict[int, str]) -> list[Blocker]:
    by_state: dict[str, int] = {}
    for row in np.flatnonzero(closed).tolist():
        state = states.get(table.numbers[row], "joining")
        by_state[state] = by_state.get(state, 0) + 1
    return [
        Blocker(Reason.agent_not_ready, count, {"presence": state}, "an agent that is ready")
        for state, count in sorted(by_state.items())
    ]
