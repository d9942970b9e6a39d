"""What a filter is asked, and what it answers.

A filter is one function: it looks at every row and yields findings, each a mask of the rows it keeps away,
with the reason, the facts and what would lift it. `place` keeps to the same rules in a faster form; a test
holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from fairlead.model.reasons import Reason
from fairlead.placement.scale import Mask
from fairlead.placement.shapes import Interned

if TYPE_CHECKING:
    from fairlead.placement.table import AgentTable


class View(NamedTuple):
    """One shape before one table, at one moment."""

    table: AgentTable
    shape: Interned
    now: int = 0
    # Why an agent is closed, by its number.
    states: Mapping[int, str] = {}
    resting: Collection[int] = ()
    among: Collection[int] | None = None

    @property
    def rows(self) -> int:
        """How many agents there are."""
        return len(self.table)


class Finding(NamedTuple):
    """Rows that one cause keeps away."""

    out: Mask
    reason: Reason
    # Of the rows that nothing before this cause keeps away: what people are told.
    facts: Callable[[Mask], dict[str, str]]
    lifts: Callable[[Mask], str]
    # As long as the agents are what they are.
    lasting: bool = False


Filter = Callable[[View], Iterator[Finding]]
