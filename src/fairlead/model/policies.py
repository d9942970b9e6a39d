"""A policy is data: which scorers count for how much, kept in a cluster's record.

No code of users runs in the server; what a policy may say is closed here and checked when it is set.
"""

from __future__ import annotations

import re

from msgspec import Struct

from fairlead.model.errors import Problem, nearest, quote
from fairlead.model.expressions import Expression, parse_expression

# Scorers of a row's room, by which way they pull: a packed cluster fills what is fullest.
ROOM = {"pack": 1, "spread": -1}
# Scorers that look at a row as a whole.
BY_ROW = (
    "best_fit", "clustering", "dot_product", "fragmentation", "fragmentation_whole", "shared_first",
)  # fmt: skip
SCORERS = (*ROOM, "load", *BY_ROW)
HEAVIEST = 64
# What a scoring formula may name beside `free.R`, `total.R` and `ask.R` of any resource R.
SCORE_NAMES = ("load", "number")
ORDER_NAMES = ("priority", "share", "arrival", "waited", "slack", "count", "run")
_OF_RESOURCE = re.compile(r"\b(?:free|total|ask)\.[A-Za-z0-9._]+")


class Policy(Struct, frozen=True, gc=False):
    """Scorers by name with their weights; a higher weight wins against a lower one."""

    name: str
    scorers: tuple[tuple[str, int], ...] = ()
    # Formulas: the agent, the lot with the highest value is the best.
    score: str = ""
    order: str = ""

    def weight(self, scorer: str) -> int:
        """How much the scorer counts; 0: not at all."""
        return dict(self.scorers).get(scorer, 0)

    def room_weight(self) -> int:
        """How strongly free room counts against a row; below zero it counts for it."""
        return sum(way * self.weight(name) for name, way in ROOM.items())


def score_formula(text: str) -> Expression | Problem:
    """A scoring formula."""
    return parse_expression(text, {*SCORE_NAMES, *_OF_RESOURCE.findall(text)})


def order_formula(text: str) -> Expression | Problem:
    """An ordering formula."""
    return parse_expression(text, ORDER_NAMES)


def flaw_of(policy: Policy) -> Problem | None:
    """What is wrong with a policy that somebody wants to set."""
    for name, weight in policy.scorers:
        if name not in SCORERS:
            meant = nearest(name, SCORERS)
            fix = f"{meant}" if meant else f"one of {', '.join(SCORERS)}"
            return Problem("policy", f"{quote(name)} is no scorer", where="scorers", fix=fix)
        if abs(weight) > HEAVIEST:
            return Problem(
                "policy",
                f"a weight of {weight}",
                f"a weight is from -{HEAVIEST} to {HEAVIEST}",
                where="scorers",
            )
    for text, parse in ((policy.score, score_formula), (policy.order, order_formula)):
        if text and isinstance(found := parse(text), Problem):
            return found
    return None


PACK = Policy("pack", (("pack", 1),))
SPREAD = Policy("spread", (("spread", 1),))
FIRST_FIT = Policy("first-fit", ())
# For sites with GPUs: as little idle GPU as possible becomes useless for the work that is usual there.
GPU_PACK = Policy("gpu-pack", (("fragmentation", 1),))
