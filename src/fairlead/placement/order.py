"""Who is next: priority, then the tenant that has least, then the least slack, then arrival.

A tenant's share is the largest part it holds of any one resource (dominant share), as an integer, so that two
sites that hold the same decide the same. Quotas are counted from what is reserved, not from what is wished.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from msgspec import Struct

from fairlead.model.expressions import Expression, compute
from fairlead.model.quantities import show_held
from fairlead.model.reasons import Reason
from fairlead.model.verdict import Blocker

# A whole resource in a share.
WHOLE_SHARE = 1 << 30
NO_DEADLINE = 1 << 62
MANY = 1 << 40


class Waiting(Struct, frozen=True, gc=False):
    """A lot as the order sees it: `amounts` are one instance's."""

    key: int
    tenant: str
    amounts: tuple[tuple[str, int], ...]
    count: int
    arrival: int
    priority: int = 100
    # Finish by; 0: whenever.
    deadline: int = 0
    run_ms: int = 0

    def slack(self) -> int:
        """The latest instant at which it may start; the same now and later, so that the order stands."""
        return self.deadline - self.run_ms if self.deadline else NO_DEADLINE


class Tenants:
    """What each tenant holds, and may hold."""

    def __init__(self, totals: Mapping[str, int]) -> None:
        self.totals = dict(totals)
        self.held: dict[str, dict[str, int]] = {}
        # A tenant's part of the site against others'; 1000 is usual.
        self.weights: dict[str, int] = {}
        self.quotas: dict[str, dict[str, int]] = {}
        self.highest: dict[str, int] = {}

    def hold(self, tenant: str, amounts: tuple[tuple[str, int], ...], count: int) -> None:
        """So many more instances are reserved; less than none ends some."""
        held = self.held.setdefault(tenant, {})
        for name, amount in amounts:
            held[name] = held.get(name, 0) + amount * count

    def share(self, tenant: str) -> int:
        """The tenant's dominant share, over its weight."""
        held = self.held.get(tenant, {})
        largest = max(
            (amount * WHOLE_SHARE // total for name, amount in held.items() if (total := self.totals.get(name, 0))),
            default=0,
        )  # fmt: skip
        return largest * 1000 // self.weights.get(tenant, 1000)

    def room(self, tenant: str, amounts: tuple[tuple[str, int], ...]) -> int:
        """How many more such instances the tenant's quota allows."""
        quota, held = self.quotas.get(tenant, {}), self.held.get(tenant, {})
        fits = MANY
        for name, amount in amounts:
            if name in quota and amount:
                fits = min(fits, max(quota[name] - held.get(name, 0), 0) // amount)
        return fits

    def blocker(self, lot: Waiting) -> Blocker | None:
        """The quota that keeps the lot from starting, if one does."""
        quota, held = self.quotas.get(lot.tenant, {}), self.held.get(lot.tenant, {})
        for name, amount in lot.amounts:
            used = held.get(name, 0)
            if name in quota and used + amount > quota[name]:
                amounts = {"quota": show_held(name, quota[name]), "used": show_held(name, used)}
                missing = show_held(name, used + amount - quota[name])
                facts = {"tenant": lot.tenant, "resource": name, **amounts}
                return Blocker(Reason.quota, 0, facts, f"{missing} given back")
        return None

    def priority(self, lot: Waiting) -> int:
        """The lot's priority under its tenant's cap."""
        return min(lot.priority, self.highest.get(lot.tenant, lot.priority))


Key = tuple[int, int, int]
Head = tuple[int, int, int, int, str]


class Order:
    """Waiting lots, best first; a tenant's place is found again whenever it was served."""

    def __init__(self, tenants: Tenants) -> None:
        self.tenants = tenants
        self._lots: dict[tuple[int, str], list[tuple[Key, Waiting]]] = {}
        self._heads: list[Head] = []

    def add(self, lot: Waiting) -> None:
        """One more lot waits."""
        line = (-self.tenants.priority(lot), lot.tenant)
        lots = self._lots.setdefault(line, [])
        heapq.heappush(lots, ((lot.slack(), lot.arrival, lot.key), lot))
        if lots[0][1] is lot:
            self._head(line)

    def next(self) -> Waiting | None:
        """The best lot, taken out."""
        while self._heads:
            head = heapq.heappop(self._heads)
            line = (head[0], head[4])
            lots = self._lots.get(line)
            if not lots:
                continue
            if head != self._key(line):
                # The tenant was served, or another lot came first, since this was written down.
                heapq.heappush(self._heads, self._key(line))
                continue
            lot = heapq.heappop(lots)[1]
            if lots:
                self._head(line)
            else:
                del self._lots[line]
            return lot
        return None

    def _head(self, line: tuple[int, str]) -> None:
        heapq.heappush(self._heads, self._key(line))

    def _key(self, line: tuple[int, str]) -> Head:
        (slack, arrival, _), _ = self._lots[line][0]
        return (line[0], self.tenants.share(line[1]), slack, arrival, line[1])


def ranked(lots: Iterable[Waiting], formula: Expression, tenants: Tenants, now: int) -> list[Waiting]:
    """The lots by a policy's own formula, the highest value first; arrival decides between equals."""

    def place(lot: Waiting) -> tuple[int, int, int]:
        quantities = {
            "priority": tenants.priority(lot), "share": tenants.share(lot.tenant), "arrival": lot.arrival,
            "waited": now - lot.arrival, "slack": lot.slack() - now if lot.deadline else 0, "count": lot.count,
            "run": lot.run_ms, **{f"ask.{name}": amount for name, amount in lot.amounts},
        }  # fmt: skip
        return (-compute(formula, quantities), lot.arrival, lot.key)

    return sorted(lots, key=place)
