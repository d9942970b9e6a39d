"""Sizes, durations and amounts: what people write, as exact integers, and back.

A number may come as text, as an int, or as a float whose shortest decimal is taken; nothing is computed in
floating point. What is finer than the unit counted in, negative or absurdly large is refused with the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from .errors import Problem, quote
from .jobs import LARGEST_AMOUNT, LONGEST_MS

# No honest quantity is longer; a longer one is refused before any arithmetic.
LONGEST_TEXT = 40
LARGEST_CORES = 1_000_000
LARGEST_PIECES = 1_000_000_000


class Kind(Struct, frozen=True):
    """One kind of quantity: its units, and how a refusal speaks of it."""

    noun: str
    like: str
    units: Mapping[str, int]
    largest: int
    largest_said: str
    finest: str
    # What people write for a unit elsewhere, in lower case, and what they may have meant here.
    slips: Mapping[str, str]


SIZE = Kind(
    noun="a size",
    like="4GiB, 512MiB, 20GB or 100B",
    units={
        "B": 1,
        "kB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "KiB": 1 << 10,
        "MiB": 1 << 20,
        "GiB": 1 << 30,
        "TiB": 1 << 40,
    },
    largest=LARGEST_AMOUNT,
    largest_said="8191TiB",
    finest="a byte",
    slips={
        **{letter + tail: f"{letter.upper()}iB" for letter in "kmgt" for tail in ("", "i", "ib")},
        "b": "B",
        "kb": "kB",
        "mb": "MB",
        "gb": "GB",
        "tb": "TB",
    },
)
DURATION = Kind(
    noun="a duration",
    like="300ms, 10s, 5m, 2h, 1d or 1h30m",
    units={"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000},
    largest=LONGEST_MS,
    largest_said="3650d",
    finest="a millisecond",
    slips={
        "": "s",
        **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
        **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
        **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
        **dict.fromkeys(("day", "days"), "d"),
    },
)
CORES = Kind(
    noun="a number of cores",
    like='2, 0.5 or "500m"',
    units={"": 1000, "m": 1},
    largest=LARGEST_CORES * 1000,
    largest_said=str(LARGEST_CORES),
    finest="a thousandth of a core",
    slips={},
)
PIECES = Kind(
    noun="an amount",
    like="1 or 0.5",
    units={"": 1000},
    largest=LARGEST_PIECES * 1000,
    largest_said=str(LARGEST_PIECES),
    finest="a thousandth",
    slips={},
)

_NUMBER = re.compile(r"([-+]?)([0-9]*)(?:\.([0-9]*))? ?([A-Za-z]*)", re.ASCII)
_STEP = re.compile(r"([0-9]+)(ms|s|m|h|d) ?", re.ASCII)


class Number(str):
    """A number as it was written, so that `3.10` is still `3.10` where text is wanted."""

    __slots__ = ()


def read_size(value: object) -> int | Problem:
    """`4GiB`, `500 MB` or `17B` in bytes."""
    return _read(SIZE, value)


def read_duration(value: object) -> int | Problem:
    """`300ms`, `10s`, `1.5h`, `1h30m` in milliseconds."""
    if isinstance(value, str) and len(value) <= LONGEST_TEXT:
        total = _add_steps(value.strip())
        if total is not None and total <= LONGEST_MS:
            return total
    return _read(DURATION, value)


def read_cpu(value: object) -> int | Problem:
    """`2`, `0.5` or `500m` in thousandths of a core."""
    return _read(CORES, value)


def read_amount(value: object) -> int | Problem:
    """`1` or `0.25` in thousandths of a piece."""
    return _read(PIECES, value)


def read_whole(value: object, low: int, high: int) -> int | Problem:
    """A whole number from `low` to `high`, both included."""
    text = _text(value)
    allowed = f"a whole number from {low} to {high}"
    if text is None or not re.fullmatch(r"[-+]?[0-9]{1,19}", text, re.ASCII):
        return Problem("not_a_number", f"{quote(value)} is not {allowed}", fix=f"write {allowed}")
    number = int(text)
    if low <= number <= high:
        return number
    near = low if number < low else high
    return Problem("out_of_range", f"{number} is out of range", f"allowed is {allowed}", fix=f"write {near}")


# How an amount is read. What is not named here is counted in pieces.
ASKS: dict[str, Callable[[object], int | Problem]] = {
    "cpu": read_cpu,
    "memory": read_size,
    "disk": read_size,
}


def read_ask(name: str, value: object) -> int | Problem:
    """An amount of the named resource, in the unit in which it is counted."""
    return ASKS.get(name, read_amount)(value)


def show_size(size: int) -> str:
    """Bytes for people, in KiB steps: `4 GiB`, `1.4 MiB`."""
    if size < 1024:
        return f"{size} B"
    names = ["KiB", "MiB", "GiB", "TiB"]
    at, unit = 0, 1024
    while _tenths(size, unit) >= 10240 and at + 1 < len(names):
        at, unit = at + 1, unit * 1024
    return f"{_decimal(_tenths(size, unit), 10)} {names[at]}"


def show_duration(ms: int) -> str:
    """Milliseconds for people, to two units: `1m 34s`, `2h`, `1.5s`, `300ms`."""
    if ms < 1000:
        return f"{ms}ms"
    if ms < 10_000:
        return f"{_decimal(ms // 100, 10)}s"
    units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)]
    at = next(i for i, (_, size) in enumerate(units) if ms >= size)
    shown: list[str] = []
    for name, size in units[at : at + 2]:
        whole, ms = divmod(ms, size)
        if whole:
            shown.append(f"{whole}{name}")
    return " ".join(shown)


def show_amount(thousandths: int) -> str:
    """Thousandths for people: `2`, `0.5`."""
    return _decimal(thousandths, 1000)


def show_ask(name: str, amount: int) -> str:
    """An amount of the named resource for people: `4 GiB`, `62`."""
    return show_size(amount) if ASKS.get(name) is read_size else show_amount(amount)


def show_held(name: str, amount: int) -> str:
    """The same where it stands alone: `4 GiB`, `62 cpu`, `1 gpu`."""
    shown = show_ask(name, amount)
    return shown if ASKS.get(name) is read_size else f"{shown} {name}"


def _read(kind: Kind, value: object) -> int | Problem:
    text = _text(value)
    found = _NUMBER.fullmatch(text) if text is not None and len(text) <= LONGEST_TEXT else None
    allowed = f"{kind.noun} is written {kind.like}"
    if found is None or not (found[2] or found[3]):
        return Problem(
            "not_a_quantity", f"{quote(value)} is not {kind.noun}", fix=f"write it like {kind.like}"
        )
    sign, whole, part, unit = found[1], found[2] or "0", (found[3] or "").rstrip("0"), found[4]
    digits = int(whole + part)
    if not digits:
        return 0
    if sign == "-":
        return Problem("negative", f"{quote(value)} is negative", f"{kind.noun} is 0 or more", fix="write 0")
    if unit not in kind.units:
        said = f"{quote(value)} has the unknown unit `{unit}`" if unit else f"{quote(value)} has no unit"
        meant = kind.slips.get(unit.lower())
        written = f"{whole}.{part}" if part else whole
        fix = f"write {written}{meant}" if meant else f"write it like {kind.like}"
        return Problem("unit", said, allowed, fix=fix)
    scale: int = 10 ** len(part)
    total, rest = divmod(digits * kind.units[unit], scale)
    if rest:
        return Problem(
            "too_fine", f"{quote(value)} is finer than {kind.finest}", allowed, fix="write fewer digits"
        )
    if total > kind.largest:
        largest = f"{kind.noun} is at most {kind.largest_said}"
        return Problem("too_large", f"{quote(value)} is too large", largest, fix=f"write {kind.largest_said}")
    return total


def _add_steps(text: str) -> int | None:
    """`1h30m`, larger units first, each at most once; None for anything else."""
    at, total, last = 0, 0, LONGEST_MS
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None or DURATION.units[step[2]] >= last:
            return None
        last = DURATION.units[step[2]]
        total += int(step[1]) * last
        at = step.end()
    return total if text else None


def _text(value: object) -> str | None:
    """The number as text; None for what is no number and no text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        # Beyond 64 bits it is refused anyway, and printing it may take long.
        return str(value) if abs(value) < 1 << 64 else None
    if isinstance(value, float):
        return repr(value)
    return value.strip() if isinstance(value, str) else None


def _tenths(size: int, unit: int) -> int:
    return (size * 10 + unit // 2) // unit


def _decimal(number: int, scale: int) -> str:
    whole, rest = divmod(number, scale)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).rjust(len(str(scale)) - 1, '0').rstrip('0')}"
