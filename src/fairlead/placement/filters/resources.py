"""Amounts: what an agent has in all, and what of it is free; the cluster's own resources apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.model.quantities import show_ask, show_held
from fairlead.model.reasons import Reason
from fairlead.placement.devices import DEVICE
from fairlead.placement.filters.view import Finding, View
from fairlead.placement.scale import Ints, Mask


def totals(view: View) -> Iterator[Finding]:
    """Agents that would be too small even when idle."""
    for name, column, amount in _asked(view):
        total = view.table.total[column][: view.rows]
        yield _short(total < amount, total, name, amount, "total")


def free(view: View) -> Iterator[Finding]:
    """Agents that have it, but not now."""
    for name, column, amount in _asked(view):
        if name != DEVICE:
            left = view.table.free[column][: view.rows]
            reason = Reason.port_taken if name.startswith("port:") else Reason.too_little
            yield _short(left < amount, left, name, amount, "free", reason)


def pools(view: View) -> Iterator[Finding]:
    """What the cluster owns is used up, or was never so much: that keeps every agent away."""
    everyone = np.ones(view.rows, np.bool_)
    for name, amount in zip(view.shape.names, view.shape.amounts, strict=True):
        pool = view.table.pools.get(name)
        if pool is None or pool.free >= amount:
            continue
        lasting = pool.total < amount
        left = max(pool.free, 0)
        facts = {"resource": name, "asked": show_held(name, amount), "free": show_held(name, left)}
        missing = show_held(name, amount - left)
        lifts = f"a cluster with {show_held(name, amount)}" if lasting else f"{missing} given back"
        yield Finding(
            everyone,
            Reason.pool_empty,
            lambda _, facts=facts: facts,  # type: ignore[misc]
            lambda _, lifts=lifts: lifts,  # type: ignore[misc]
            lasting,
        )


def _asked(view: View) -> Iterator[tuple[str, int, int]]:
    shape = view.shape
    for name, column, amount in zip(shape.names, shape.columns, shape.amounts, strict=True):
        if name not in view.table.pools:
            yield name, column, amount


def _short(
    out: Mask, has: Ints, name: str, amount: int, kind: str, reason: Reason = Reason.too_little
) -> Finding:
    def facts(left: Mask) -> dict[str, str]:
        best = show_held(name, int(has[left].max()))
        return {"resource": name, "asked": show_held(name, amount), "best": best, "kind": kind}

    def lifts(left: Mask) -> str:
        if reason is Reason.port_taken:
            return f"{name.removeprefix('port:')} given back by who has it"
        return f"{show_ask(name, amount - int(has[left].max()))} more {name} on the nearest agent"

    return Finding(out, reason, facts, lifts, lasting=kind == "total")
