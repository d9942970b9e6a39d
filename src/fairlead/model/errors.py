"""A refusal that people read: what, why, and what mends it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from msgspec import Struct

# As much of somebody's own words as fits into a line about them.
LONGEST_QUOTE = 60


class Problem(Struct, frozen=True, gc=False, tag="problem"):
    """Three lines for people, the same fields for programs.

    `fix` is a command that can be pasted, or one short instruction; `where` is a place in the caller's own
    input (`ci.yaml:4:9`, `resources.memory`, `--count`), empty when there is none.
    """

    code: str
    message: str
    why: str = ""
    where: str = ""
    fix: str = ""
    retryable: bool = False
    retry_after_ms: int = 0


def render(problem: Problem) -> str:
    """What a person sees: at most three lines, the last one the way out."""
    first = f"error: {problem.where}: {problem.message}" if problem.where else f"error: {problem.message}"
    lines = [first]
    if problem.why:
        lines.append(f"  why: {problem.why}")
    if problem.fix:
        lines.append(f"  fix: {problem.fix}")
    return "\n".join(lines)


def quote(value: object) -> str:
    """Somebody's own words inside a message: short, one line, nothing that moves a terminal's cursor."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "`true`", False: "`false`"}[value]
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return "a number of more than 64 bits"
    text = str(value)
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[: LONGEST_QUOTE + 1])
    return f"`{shown[: LONGEST_QUOTE - 1]}…`" if len(shown) > LONGEST_QUOTE else f"`{shown}`"


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known word that was most likely meant; None when nothing is near."""
    by_small = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word[:LONGEST_QUOTE].lower(), list(by_small), n=1, cutoff=likeness)
    return by_small[found[0]] if found else None
