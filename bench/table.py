"""One row of the table of figures, and what a row must have to count.

A figure from a shared machine says nothing alone: a row names what it was compared with in the same run, how far
apart its repetitions lay, the versions, and the command that prints it again. A row without them is rejected.
"""

from __future__ import annotations

import math
import os
import platform
import re
import sqlite3
import statistics
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from msgspec import Struct

# `value >= 20000` or `ratio <= 6`; several joined by `and`.
GOAL = re.compile(r"(value|ratio) (>=|<=) ([0-9.]+)")
SHOWN = ("id", "what", "value", "spread", "unit", "reference", "ratio", "target", "")


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """One figure."""

    id: str
    what: str
    value: float
    unit: str
    target: str
    reference: float
    reference_name: str
    ratio: float
    # The lowest and the highest of the repetitions.
    spread: tuple[float, float]
    versions: dict[str, str]
    command: str
    runs: int = 1
    note: str = ""

    def __post_init__(self) -> None:
        """Nothing that could not be judged or repeated."""
        low, high = self.spread
        flaws = {
            "an id, what was measured and a unit": self.id and self.what and self.unit,
            "a reference of the same run and its name": self.reference > 0 and self.reference_name,
            "a spread around the value": math.isfinite(low + high) and low <= self.value <= high,
            "versions": self.versions,
            "the command that prints it again": self.command,
            "a ratio to the reference": math.isclose(
                self.ratio, self.value / (self.reference or 1), rel_tol=0.01
            ),
            "a target that can be read": not self.target
            or all(map(GOAL.fullmatch, self.target.split(" and "))),
        }
        missing = [what for what, there in flaws.items() if not there]
        if missing:
            raise ValueError(f"row {self.id or '?'} needs {'; '.join(missing)}")

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without a target."""
        if not self.target:
            return None
        goals = [GOAL.fullmatch(goal) for goal in self.target.split(" and ")]
        return all(self._reaches(*goal.groups()) for goal in goals if goal)

    def _reaches(self, of: str, sense: str, number: str) -> bool:
        has = self.value if of == "value" else self.ratio
        return has >= float(number) if sense == ">=" else has <= float(number)


def row(
    id: str,
    what: str,
    values: Sequence[float],
    unit: str,
    target: str,
    reference: tuple[str, float],
    **more: Any,
) -> Row:
    """The row of several repetitions: their median, or what `pick` takes, and how far they lie apart."""
    value = more.pop("pick", statistics.median)(values)
    name, against = reference
    return Row(
        id=id,
        what=what,
        value=_short(value),
        unit=unit,
        target=target,
        reference=_short(against),
        reference_name=name,
        ratio=_short(value / against) if against else 0.0,
        spread=(_short(min(values)), _short(max(values))),
        versions=more.pop("versions", None) or versions(),
        command=more.pop("command", f"fairlead bench {id}"),
        runs=len(values),
        **more,
    )


def _short(number: float) -> float:
    """Four digits say all that a shared machine can."""
    return float(f"{number:.4g}")


def versions(*packages: str) -> dict[str, str]:
    """What was measured, and on what."""
    found = {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "kernel": platform.release(),
        "cpus": str(os.cpu_count()),
    }
    for package in ("fairlead", "grpcio", "numpy", *packages):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def show(rows: Sequence[Row]) -> str:
    """The rows as text, a column each."""
    table = [SHOWN, *(_cells(one) for one in rows)]
    widths = [max(len(line[at]) for line in table) for at in range(len(SHOWN))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
    return "\n".join(line.rstrip() for line in lines)


def _cells(one: Row) -> tuple[str, ...]:
    low, high = one.spread
    verdict = {True: "met", False: "missed", None: ""}[one.met]
    return (
        one.id,
        one.what,
        number(one.value),
        f"{number(low)}..{number(high)}",
        one.unit,
        f"{number(one.reference)} {one.reference_name}",
        f"{one.ratio:.3g}",
        one.target,
        verdict,
    )


def number(value: float) -> str:
    """As people read it."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
