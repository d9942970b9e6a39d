"""The agents' labels and taints as columns, so that a rule is judged for all rows at once.

A label's values are numbered per name, 0 means absent. The same column says in which topology domain a row
lies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from fairlead.model import rules
from fairlead.model.rules import Rule
from fairlead.placement.scale import Mask

Ids = NDArray[np.int32]
ABSENT = 0


class LabelColumn:
    """One label of every row."""

    __slots__ = ("ids", "values")

    def __init__(self, size: int) -> None:
        self.ids: Ids = np.zeros(size, np.int32)
        self.values: dict[str, int] = {}

    def number(self, value: str) -> int:
        """The value's number, given when it is first seen."""
        return self.values.setdefault(value, len(self.values) + 1)


class Labels:
    """Labels and taints by row."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.columns: dict[str, LabelColumn] = {}
        self.taints: dict[str, Mask] = {}
        # Counts changes: what was derived from labels or taints is stale when it moved.
        self.version = 0

    def change(self, row: int, before: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """The row has these labels now."""
        for name in before.keys() - labels.keys():
            self.columns[name].ids[row] = ABSENT
        for name, value in labels.items():
            column = self.columns.get(name)
            if column is None:
                column = self.columns[name] = LabelColumn(self.size)
            column.ids[row] = column.number(value)
        self.version += 1

    def taint(self, row: int, taints: Collection[str]) -> None:
        """The row has these taints now."""
        for name in taints:
            if name not in self.taints:
                self.taints[name] = np.zeros(self.size, np.bool_)
        for name, column in self.taints.items():
            column[row] = name in taints
        self.version += 1

    def grow(self, size: int) -> None:
        """Make room for more rows."""
        more = size - self.size
        self.size = size
        for column in self.columns.values():
            column.ids = np.concatenate([column.ids, np.zeros(more, np.int32)])
        self.taints = {
            name: np.concatenate([column, np.zeros(more, np.bool_)]) for name, column in self.taints.items()
        }

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Rows in a new order."""
        rows = len(order)
        for column in self.columns.values():
            column.ids[:rows] = column.ids[order]
        for taint in self.taints.values():
            taint[:rows] = taint[order]
        self.version += 1

    def domains(self, key: str, rows: int) -> tuple[Ids, int]:
        """Each row's domain of this label, and how many numbers there are; 0 is no domain."""
        column = self.columns.get(key)
        if column is None:
            return np.zeros(rows, np.int32), 1
        return column.ids[:rows], len(column.values) + 1

    def meets(self, rule: Rule, rows: int) -> Mask:
        """Rows whose labels meet the rule."""
        if isinstance(rule, rules.Not):
            return ~self.meets(rule.rule, rows)
        if isinstance(rule, rules.All | rules.Any):
            masks = [self.meets(each, rows) for each in rule.rules]
            join = np.logical_and if isinstance(rule, rules.All) else np.logical_or
            return np.asarray(join.reduce(masks), np.bool_)
        column = self.columns.get(rule.name)
        if column is None:
            return np.zeros(rows, np.bool_)
        return _test(rule, column, rows)

    def untolerated(self, tolerated: Collection[str], rows: int) -> Iterable[tuple[str, Mask]]:
        """Taints that would keep the ask away, with the rows that have them."""
        for name, column in sorted(self.taints.items()):
            if not tolerates(tolerated, name):
                yield name, column[:rows]


def tolerates(tolerated: Collection[str], taint: str) -> bool:
    """A taint `k` or `k=v` is tolerated by `k`, by itself, or by `*`."""
    return taint in tolerated or taint.partition("=")[0] in tolerated or "*" in tolerated


def _test(
    rule: rules.Among | rules.Compares | rules.Holds | rules.Exists, column: LabelColumn, rows: int
) -> Mask:
    ids = column.ids[:rows]
    met: Mask
    if isinstance(rule, rules.Exists):
        met = ids != ABSENT
    elif isinstance(rule, rules.Holds):
        met = (ids != ABSENT) & (ids != column.values.get("false", ABSENT))
    elif isinstance(rule, rules.Compares):
        met = np.isin(ids, [number for value, number in column.values.items() if rules.compares(rule, value)])
    else:
        wanted = [column.values[value] for value in rule.values if value in column.values]
        met = ids == wanted[0] if len(wanted) == 1 else np.isin(ids, wanted)
    return met
