"""Who is already where, as far as somebody's rule about neighbours asks: counts per row and per domain.

A group counts the instances that a rule means, or those that carry a rule themselves: an instance that wants
to be apart from others keeps them away too. Shapes without labels and rules belong to no group and cost
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairlead.model.asks import HOST
from fairlead.model.rules import Rule, matches
from fairlead.placement.labels import Labels

if TYPE_CHECKING:
    from fairlead.placement.shapes import Interned

Counts = NDArray[np.int64]


class Term:
    """A rule about neighbours: which instances, in the same domain of which key."""

    __slots__ = ("by", "rule")

    def __init__(self, rule: Rule, by: str) -> None:
        self.rule = rule
        self.by = by


class Group:
    """Instances of one kind; `clear` is 0 on a row without any, else minus their number."""

    __slots__ = ("by_key", "clear")

    def __init__(self, size: int) -> None:
        self.clear: Counts = np.zeros(size, np.int64)
        self.by_key: dict[str, Counts] = {}

    def add(self, row: int, count: int, labels: Labels) -> None:
        """So many more on the row."""
        self.clear[row] -= count
        for key, counts in self.by_key.items():
            column = labels.columns.get(key)
            counts[column.ids[row] if column else 0] += count

    def counts(self, key: str, labels: Labels, rows: int) -> Counts:
        """How many in each domain of the key; what lies in no domain counts nowhere."""
        counts = self.by_key.get(key)
        if counts is None:
            ids, domains = labels.domains(key, rows)
            counts = np.zeros(domains, np.int64)
            np.subtract.at(counts, ids, self.clear[:rows])
            self.by_key[key] = counts
        counts[0] = 0
        return counts

    def on_rows(self, rows: int) -> Counts:
        """How many on each row."""
        return -self.clear[:rows]


class Groups:
    """All groups that a known shape asks about, and what each shape with a say in them holds."""

    def __init__(self, size: int) -> None:
        self.size = size
        # Counts what changes who belongs where.
        self.version = 0
        # Counts the rules that keep others away.
        self.carriers = 0
        self.meant: dict[Rule, Group] = {}
        self.carried: dict[tuple[Rule, str], Group] = {}
        self.held: dict[Interned, dict[int, int]] = {}

    def of_rule(self, rule: Rule, rows: Mapping[int, int], labels: Labels) -> Group:
        """The instances that the rule means."""
        group = self.meant.get(rule)
        if group is None:
            group = self.meant[rule] = Group(self.size)
            self.version += 1
            for shape, held in self.held.items():
                if matches(rule, shape.seen):
                    for number, count in held.items():
                        group.add(rows[number], count, labels)
        return group

    def of_carriers(self, term: Term) -> Group:
        """The instances that carry the term; who interns the first carrier makes it, so nobody has it yet."""
        key = (term.rule, term.by)
        group = self.carried.get(key)
        if group is None:
            group = self.carried[key] = Group(self.size)
            self.version += 1
            self.carriers += 1
        return group

    def hold(self, shape: Interned, number: int, row: int, count: int, labels: Labels) -> None:
        """The shape has so many more instances on the row."""
        held = self.held.setdefault(shape, {})
        held[number] = held.get(number, 0) + count
        if not held[number]:
            del held[number]
            if not held:
                del self.held[shape]
        for group in self.membership(shape):
            group.add(row, count, labels)

    def membership(self, shape: Interned) -> list[Group]:
        """The groups that the shape's instances belong to."""
        if shape.member_version != self.version:
            meant = [group for rule, group in self.meant.items() if matches(rule, shape.seen)]
            carried = [self.of_carriers(term) for term in shape.apart]
            shape.member_of = meant + carried
            shape.member_version = self.version
        return shape.member_of

    def against(self, shape: Interned) -> list[tuple[Group, str]]:
        """Groups that the shape must not share a domain with: by its own rules, and by theirs."""
        own = [(self.meant[term.rule], term.by) for term in shape.apart if term.rule in self.meant]
        theirs = [(group, by) for (rule, by), group in self.carried.items() if matches(rule, shape.seen)]
        return own + theirs

    def moved(self) -> None:
        """Labels changed: domains are counted anew."""
        for group in (*self.meant.values(), *self.carried.values()):
            group.by_key.clear()

    def grow(self, size: int) -> None:
        """Make room for more rows."""
        more = np.zeros(size - self.size, np.int64)
        self.size = size
        for group in (*self.meant.values(), *self.carried.values()):
            group.clear = np.concatenate([group.clear, more])

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Rows in a new order."""
        for group in (*self.meant.values(), *self.carried.values()):
            group.clear[: len(order)] = group.clear[order]


def by_host(key: str) -> bool:
    """Whether the key means the agent itself."""
    return key == HOST
