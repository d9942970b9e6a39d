"""Agents that take nothing now: not ready, resting after a refusal, not among the candidates, ending soon."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from fairlead.model.quantities import show_duration
from fairlead.model.reasons import Reason
from fairlead.placement.filters.view import Finding, View
from fairlead.placement.scale import Mask


def closed(view: View) -> Iterator[Finding]:
    """Agents that are not open, by what they are instead."""
    shut = ~view.table.open[: view.rows]
    by_state: dict[str, list[int]] = {}
    for row in np.flatnonzero(shut).tolist():
        by_state.setdefault(view.states.get(view.table.numbers[row], "joining"), []).append(row)
    for state, rows in sorted(by_state.items()):
        out = np.zeros(view.rows, np.bool_)
        out[rows] = True
        yield Finding(
            out,
            Reason.agent_not_ready,
            lambda _, state=state: {"presence": state},  # type: ignore[misc]
            lambda _: "an agent that is ready",
        )


def resting(view: View) -> Iterator[Finding]:
    """Agents that refused the shape a moment ago."""
    if view.resting:
        out = _named(view, view.resting)
        yield Finding(out, Reason.resting, lambda _: {}, lambda _: "it is tried again soon")


def candidates(view: View) -> Iterator[Finding]:
    """Agents whose equipment does not serve the claim."""
    if view.among is not None:
        out = ~_named(view, view.among)
        yield Finding(
            out,
            Reason.no_equipment,
            lambda left: {"agents": str(int(left.sum()))},
            lambda _: "a free unit of what is claimed, or an agent beside it",
        )


def lifetime(view: View) -> Iterator[Finding]:
    """Agents that end before the run limit would."""
    run = view.shape.ask.run_ms
    if not run:
        return
    ends = view.table.ends_at[: view.rows]
    out = (ends > 0) & (ends < view.now + run)

    def stays(left: Mask) -> str:
        return show_duration(max(int(ends[left].max()) - view.now, 0))

    def facts(left: Mask) -> dict[str, str]:
        return {"limit": show_duration(run), "left": stays(left)}

    yield Finding(
        out,
        Reason.ends_too_soon,
        facts,
        lambda left: f"a run limit of {stays(left)}, or an agent that stays longer",
    )


def _named(view: View, numbers: Collection[int]) -> Mask:
    mask = np.zeros(view.rows, np.bool_)
    mask[[view.table.rows[number] for number in numbers if number in view.table.rows]] = True
    return mask
