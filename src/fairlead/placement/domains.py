"""Rules about domains: near, apart, spread evenly. They are judged when a lot is placed, never in a column.

Each rule is a count per domain and a test on it; a placement moves one count. Rows without the label lie in
domain 0: nothing to be apart from, nowhere to be near, not counted by spread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairlead.model.rules import matches
from fairlead.placement.groups import Counts, Group, by_host
from fairlead.placement.scale import OUT, Mask, Scores
from fairlead.placement.shapes import Interned

if TYPE_CHECKING:
    from fairlead.placement.table import AgentTable

Ids = NDArray[np.integer]


class _Rule:
    """One rule: rows' domains, how many it counts in each, whether the shape's own instances count."""

    __slots__ = ("counts", "ids", "own")

    def __init__(self, ids: Ids, counts: Counts, own: bool) -> None:
        self.ids = ids
        self.counts = counts
        self.own = own

    def placed(self, row: int) -> None:
        """One more instance of the shape on the row."""
        if self.own:
            self.counts[self.ids[row]] += 1

    def allowed(self) -> Mask:
        """By domain."""
        raise NotImplementedError


class Near(_Rule):
    """Somebody meant is there already; or nobody is anywhere, and the shape itself is meant."""

    def allowed(self) -> Mask:
        there: Mask = self.counts > 0
        there[0] = False
        if self.own and not there.any():
            there[1:] = True
        return there


class Apart(_Rule):
    """Nobody meant is there."""

    def allowed(self) -> Mask:
        clear: Mask = self.counts == 0
        clear[0] = True
        return clear


class Even(_Rule):
    """No domain gets ahead of the emptiest by more than the skew."""

    __slots__ = ("exists", "fewest", "skew")

    def __init__(self, ids: Ids, counts: Counts, own: bool, exists: Mask, skew: int, fewest: int) -> None:
        super().__init__(ids, counts, own)
        self.exists = exists
        self.skew = skew
        self.fewest = fewest

    def allowed(self) -> Mask:
        present = self.counts[self.exists]
        lowest = int(present.min()) if len(present) and len(present) >= self.fewest else 0
        fine: Mask = self.counts + int(self.own) - lowest <= self.skew
        fine[0] = False
        return fine


def rules_of(table: AgentTable, shape: Interned) -> list[tuple[str, str, _Rule]]:
    """The shape's rules about domains as (kind, key, rule); those of one host alone are in its column."""
    rows = len(table)
    found: list[tuple[str, str, _Rule]] = []
    for term in shape.near:
        own = matches(term.rule, shape.seen)
        ids, counts = _counted(table, table.groups.of_rule(term.rule, table.rows, table.marks), term.by)
        found.append(("near", term.by, Near(ids, counts, own)))
    members = table.groups.membership(shape)
    for group, by in table.groups.against(shape):
        if not by_host(by):
            ids, counts = _counted(table, group, by)
            found.append(("apart", by, Apart(ids, counts, group in members)))
    if shape.spread:
        meant = table.meets(shape)
        for term, _ in shape.spread:
            meant = meant & (_ids(table, term.by)[0] > 0)
        for term, spread in shape.spread:
            ids, domains = _ids(table, term.by)
            group = table.groups.of_rule(term.rule, table.rows, table.marks)
            counts = _sum(ids, np.where(meant, group.on_rows(rows), 0), domains)
            exists = _sum(ids, (meant & table.open[:rows]).astype(np.int64), domains) > 0
            own = matches(term.rule, shape.seen)
            even = Even(ids, counts, own, exists, spread.max_skew, spread.least_domains)
            found.append(("spread", term.by, even))
    return found


class Domains:
    """The shape's rules while a lot is placed."""

    def __init__(self, table: AgentTable, shape: Interned, score: Scores) -> None:
        self.rules = [rule for _, _, rule in rules_of(table, shape)]
        self.score = score
        self.allowed = [rule.allowed() for rule in self.rules]
        self.masked = self._mask()

    def best(self) -> int:
        """The best row that every rule allows; its score may be out."""
        return int(self.masked.argmin())

    def placed(self, row: int) -> None:
        """One more instance on the row; its own score has followed already."""
        stale = False
        for at, rule in enumerate(self.rules):
            rule.placed(row)
            allowed = rule.allowed()
            if not np.array_equal(allowed, self.allowed[at]):
                self.allowed[at] = allowed
                stale = True
        if stale:
            self.masked = self._mask()
        else:
            self.masked[row] = self.score[row]

    def _mask(self) -> Scores:
        masked = self.score.copy()
        for rule, allowed in zip(self.rules, self.allowed, strict=True):
            masked[~allowed[rule.ids]] = OUT
        return masked


def _ids(table: AgentTable, key: str) -> tuple[Ids, int]:
    rows = len(table)
    return (np.arange(1, rows + 1), rows + 1) if by_host(key) else table.marks.domains(key, rows)


def _counted(table: AgentTable, group: Group, key: str) -> tuple[Ids, Counts]:
    rows = len(table)
    if by_host(key):
        return np.arange(1, rows + 1), np.concatenate([[0], group.on_rows(rows)])
    return table.marks.domains(key, rows)[0], group.counts(key, table.marks, rows).copy()


def _sum(ids: Ids, amounts: Counts, domains: int) -> Counts:
    return np.bincount(ids, weights=amounts, minlength=domains).astype(np.int64)
