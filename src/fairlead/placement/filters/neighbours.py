"""Who is already there: near, apart (by the ask's rule or by theirs), interference, an even spread."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.model.asks import HOST
from fairlead.model.reasons import Reason
from fairlead.placement.domains import rules_of
from fairlead.placement.filters.view import Finding, View
from fairlead.placement.groups import by_host

REASONS = {"near": Reason.not_near, "apart": Reason.too_near, "spread": Reason.uneven}
LIFTS = {
    "near": "one of those it wants to be near, in a {by} with room",
    "apart": "a {by} without those it has to be apart from",
    "spread": "room in the {by} that has the fewest",
}


def neighbours(view: View) -> Iterator[Finding]:
    """Agents in a domain that a rule about neighbours forbids."""
    table, shape = view.table, view.shape
    for group, by in table.groups.against(shape):
        if by_host(by):
            yield _finding("apart", HOST, group.clear[: view.rows] < 0)
    for kind, by, rule in rules_of(table, shape):
        yield _finding(kind, by, ~rule.allowed()[rule.ids])


def _finding(kind: str, by: str, out: object) -> Finding:
    facts = {"by": by}
    lifts = LIFTS[kind].replace("{by}", by)
    return Finding(out, REASONS[kind], lambda _: facts, lambda _: lifts)  # type: ignore[arg-type]
