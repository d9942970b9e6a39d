"""Why a lot does not start now: every cause with its count, the nearest miss, and what would lift it.

The filters are asked one after the other over all rows; each agent counts at the first thing that keeps it
away. Costs a full scan, so it is done when somebody asks, never while placing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from fairlead.model.reasons import Reason
from fairlead.model.verdict import Blocker, Verdict
from fairlead.placement.devices import DEVICE
from fairlead.placement.filters.devices import devices
from fairlead.placement.filters.labels import labels
from fairlead.placement.filters.neighbours import neighbours
from fairlead.placement.filters.presence import candidates, closed, lifetime, resting
from fairlead.placement.filters.resources import free, pools, totals
from fairlead.placement.filters.taints import taints
from fairlead.placement.filters.view import Filter, Finding, View
from fairlead.placement.scale import Ints
from fairlead.placement.shapes import Interned
from fairlead.placement.table import AgentTable

# What lasts comes first, so that "can never run" is told apart from "not now".
FILTERS: tuple[Filter, ...] = (
    labels, taints, totals, pools, closed, lifetime, candidates, resting, neighbours, devices, free,
)  # fmt: skip

MANY = 1 << 40


def room(table: AgentTable, shape: Interned) -> Ints:
    """How many instances of the shape each row could hold now, as far as amounts go."""
    rows = len(table)
    fits = np.full(rows, MANY, np.int64)
    for column, amount, name in zip(shape.columns, shape.amounts, shape.names, strict=True):
        if not amount or name in table.pools:
            continue
        if name == DEVICE:
            by_row = np.fromiter((table.devices.fits(row, amount) for row in range(rows)), np.int64, rows)
            np.minimum(fits, by_row, out=fits)
        else:
            np.minimum(fits, table.free[column][:rows] // amount, out=fits)
    return np.maximum(fits, 0)


def explain(
    table: AgentTable,
    shape: Interned,
    states: Mapping[int, str],
    resting_now: Collection[int] = (),
    now: int = 0,
    among: Collection[int] | None = None,
) -> Verdict:
    """Why the shape does not start now, or how often it would fit."""
    table.settle()
    view = View(table, shape, now, states, resting_now, among)
    left = np.ones(view.rows, np.bool_)
    possible = left.copy()
    failures = np.zeros(view.rows, np.int64)
    blockers: list[Blocker] = []
    if not view.rows:
        blockers.append(Blocker(Reason.no_agents, 0, {}, "let an agent join"))
    for finding in (finding for each in FILTERS for finding in each(view)):
        failures += finding.out
        blocked = finding.out & left
        if blocked.any():
            blockers.append(_blocker(finding, blocked))
            left &= ~blocked
        if finding.lasting:
            possible &= ~finding.out
    never = bool(view.rows) and not bool(possible.any())
    fits = int(np.minimum(room(table, shape)[left], MANY).sum())
    nearest = table.numbers[int(failures.argmin())] if view.rows and not left.any() else 0
    return Verdict(view.rows, min(fits, MANY), never, blockers, nearest)


def _blocker(finding: Finding, blocked: np.ndarray) -> Blocker:
    return Blocker(finding.reason, int(blocked.sum()), finding.facts(blocked), finding.lifts(blocked))
