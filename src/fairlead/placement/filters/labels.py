"""Rules over labels: each rule of `where` by itself, so that the one in the way is named."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.model.reasons import Reason
from fairlead.model.rules import Rule, parse_rule
from fairlead.placement.filters.view import Finding, View


def labels(view: View) -> Iterator[Finding]:
    """Agents whose labels do not meet a rule."""
    for text in view.shape.ask.where:
        rule = parse_rule(text)
        meets = (
            view.table.marks.meets(rule, view.rows)
            if isinstance(rule, Rule)
            else np.zeros(view.rows, np.bool_)
        )
        yield Finding(
            ~meets,
            Reason.rule_not_met,
            lambda _, text=text: {"rule": text},  # type: ignore[misc]
            lambda _, text=text: f"an agent where {text}",  # type: ignore[misc]
            lasting=True,
        )
