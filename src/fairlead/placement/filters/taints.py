"""Taints: an agent that has one takes only what tolerates it."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.model.reasons import Reason
from fairlead.placement.filters.view import Finding, View


def taints(view: View) -> Iterator[Finding]:
    """Agents with a taint that the ask does not tolerate."""
    for taint, tainted in view.table.marks.untolerated(view.shape.ask.tolerate, view.rows):
        yield Finding(
            tainted,
            Reason.tainted,
            lambda _, taint=taint: {"taint": taint},  # type: ignore[misc]
            lambda _, taint=taint: f"tolerate {taint}, or an agent without it",  # type: ignore[misc]
            lasting=True,
        )
