"""An ask in the table's own terms: columns and amounts, parsed rules, and what is compiled from them.

A shape is interned once; what depends on the rows is in its score column.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairlead.model.asks import Amounts, Ask
from fairlead.model.rules import Among, Not, Rule, parse_rule
from fairlead.placement.devices import DEVICE, Taken, rounded
from fairlead.placement.groups import Group, Term
from fairlead.placement.scale import Mask

# Where the interference class stands among the labels; no rule that people write can name it.
CLASS = "~interference"


class Interned:
    """A shape: an ask with one of its alternatives chosen."""

    __slots__ = (
        "amounts",
        "apart",
        "ask",
        "columns",
        "device",
        "devices",
        "meets",
        "meets_key",
        "member_of",
        "member_version",
        "names",
        "near",
        "prefer",
        "rules",
        "seen",
        "social",
        "spread",
    )  # fmt: skip

    def __init__(self, ask: Ask, amounts: Amounts, columns: list[int]) -> None:
        self.ask = ask
        self.names = [name for name, _ in amounts]
        self.columns = columns
        self.amounts = [rounded(amount) if name == DEVICE else amount for name, amount in amounts]
        self.device = next(
            (amount for name, amount in zip(self.names, self.amounts, strict=True) if name == DEVICE), 0
        )
        # What the door lets in was parsed there; a rule this release cannot read admits nobody.
        self.rules = parsed(ask.where)
        self.prefer = [
            (rule, each.weight) for each in ask.prefer if isinstance(rule := parse_rule(each.rule), Rule)
        ]
        self.near = [_term(each.jobs, each.by) for each in ask.near]
        self.apart = [_term(each.jobs, each.by) for each in ask.apart]
        if ask.avoid:
            self.apart.append(Term(Among(CLASS, ask.avoid), "host"))
        self.spread = [(_term(each.jobs, each.over), each) for each in ask.spread]
        self.seen: Mapping[str, str] = dict(ask.labels)
        if ask.interference:
            self.seen = {**self.seen, CLASS: ask.interference}
        self.social = bool(self.seen or self.apart)
        self.member_of: list[Group] = []
        self.member_version = -1
        # Which devices its instances have, by agent.
        self.devices: dict[int, list[Taken]] = {}
        self.meets: Mask = np.zeros(0, np.bool_)
        self.meets_key = (-1, -1)


def parsed(texts: tuple[str, ...]) -> list[Rule] | None:
    """The rules, or None if one cannot be read."""
    found = [parse_rule(text) for text in texts]
    rules = [rule for rule in found if isinstance(rule, Rule)]
    return rules if len(rules) == len(found) else None


NOBODY = Not(Not(Among(CLASS, ())))


def _term(text: str, by: str) -> Term:
    rule = parse_rule(text)
    return Term(rule if isinstance(rule, Rule) else NOBODY, by)
