"""GPUs: enough of them in all is not enough, if the share is not free on one device."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.model.quantities import show_ask, show_held
from fairlead.model.reasons import Reason
from fairlead.placement.devices import DEVICE, WHOLE
from fairlead.placement.filters.view import Finding, View
from fairlead.placement.scale import Mask


def devices(view: View) -> Iterator[Finding]:
    """Agents without a device that has the share free, or without so many whole ones."""
    amount = view.shape.device
    if not amount:
        return
    table = view.table
    kind = "whole" if amount >= WHOLE else "on one device"
    has = (table.devices.whole if amount >= WHOLE else table.devices.largest)[: view.rows]
    total = table.free[table.resources[DEVICE]][: view.rows]

    def facts(left: Mask) -> dict[str, str]:
        best, free = int(has[left].max()), int(total[left].max())
        known = {"asked": amount, "best": best, "free": free}
        shown = {fact: show_held(DEVICE, held) for fact, held in known.items()}
        return {"resource": DEVICE, "kind": kind, **shown}

    def lifts(left: Mask) -> str:
        return f"{show_ask(DEVICE, amount - int(has[left].max()))} more {DEVICE} {kind} on the nearest agent"

    scattered = (has < amount) & (total >= amount)
    yield Finding(scattered, Reason.scattered, facts, lifts)
    yield Finding((has < amount) & ~scattered, Reason.too_little, facts, lifts)
