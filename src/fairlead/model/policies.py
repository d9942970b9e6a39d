"""A policy is data: which scorers count for how much, kept in a cluster's record.

No code of users runs in the server; what a policy may say is closed here and checked when it is set.
"""

from __future__ import annotations

from msgspec import Struct

# Scorers of a row's room, by which way they pull: a packed cluster fills what is fullest.
ROOM = {"pack": 1, "spread": -1}


class Policy(Struct, frozen=True, gc=False):
    """Scorers by name with their weights; a higher weight wins against a lower one."""

    name: str
    scorers: tuple[tuple[str, int], ...]

    def weight(self, scorer: str) -> int:
        """How much the scorer counts; 0: not at all."""
        return dict(self.scorers).get(scorer, 0)

    def room_weight(self) -> int:
        """How strongly free room counts against a row; below zero it counts for it."""
        return sum(way * self.weight(name) for name, way in ROOM.items())


PACK = Policy("pack", (("pack", 1),))
SPREAD = Policy("spread", (("spread", 1),))
FIRST_FIT = Policy("first-fit", ())
# For sites with GPUs: as little idle GPU as possible becomes useless for the work that is usual there.
GPU_PACK = Policy("gpu-pack", (("fragmentation", 1),))
