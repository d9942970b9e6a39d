"""Whether a record of columns from outside makes sense by itself: equal lengths, values within their tables.

Cores may then index and convert without care. What a record claims is not judged here, only its form.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from fairlead.model.keys import Keys
from fairlead.model.lifecycles import Outcome, Stage
from fairlead.model.orders import Hello
from fairlead.model.reasons import Reason

LARGEST = {"job": 1 << 53, "first": 1 << 31, "count": 1 << 31, "attempt": 0xFFFF}
KNOWN: dict[str, frozenset[int]] = {
    "stage": frozenset(Stage),
    "outcome": frozenset(Outcome),
    "reason": frozenset(Reason),
    "output": frozenset((0, 1)),
    "complete": frozenset((0, 1)),
    "yes": frozenset((0, 1)),
}
RANGES: dict[str, tuple[int, int]] = {
    "exit": (-(1 << 15), (1 << 15) - 1),
    "term": (0, 0xFFFF_FFFF),
    "started": (0, 1 << 53),
    "ended": (0, 1 << 53),
    "at": (0, 1 << 53),
    "out_length": (0, 1 << 62),
    "err_length": (0, 1 << 62),
}


# An agent that says more of itself than this is none of ours: every name is a column over all agents.
LONGEST_NAME = 256
MOST_NAMES = 64
LARGEST_TOTAL = (1 << 53) - 1
MOST_DEVICES = 1024


def hello_flaw(hello: Hello) -> str | None:
    """What is wrong with what an agent says it is, or None."""
    if len(hello.names) != len(hello.totals) or len(hello.names) > MOST_NAMES:
        return "names and totals do not belong together"
    if max(map(len, (hello.boot, hello.mark, *hello.names))) > LONGEST_NAME:
        return "a name is too long"
    for name, total in zip(hello.names, hello.totals, strict=True):
        if not 0 <= total <= (MOST_DEVICES * 1000 if name == "gpu" else LARGEST_TOTAL):
            return f"no machine has that much {name}"
    return None


def flaw(record: Struct) -> str | None:
    """What is wrong with the form of a record, or None."""
    keys = getattr(record, "keys", None)
    if not isinstance(keys, Keys):
        return None
    for name, most in LARGEST.items():
        column = getattr(keys, name)
        if len(column) != len(keys.job):
            return f"column {name} has another length"
        least = 1 if name == "count" else 0
        if column and (min(column) < least or max(column) > most):
            return f"column {name} is out of range"
    # Names alone: `msgspec.structs.fields` reads the annotations anew at each call.
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, list) and (found := _column_flaw(name, value, len(keys))):
            return found
    return None


def _column_flaw(name: str, column: list[Any], rows: int) -> str | None:
    if len(column) != rows:
        return f"column {name} has another length"
    if name in KNOWN and not KNOWN[name].issuperset(column):
        return f"column {name} holds an unknown value"
    if name in RANGES and column:
        least, most = RANGES[name]
        if min(column) < least or max(column) > most:
            return f"column {name} is out of range"
    return None
