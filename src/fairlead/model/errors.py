"""A refusal that people read: what, why, and what mends it."""

from __future__ import annotations

from msgspec import Struct


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
