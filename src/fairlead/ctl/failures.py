"""What a command says when it cannot go on: three lines, the same fields as JSON, and the exit code.

Every way out of the command line that is not success passes here, so nobody ever sees a traceback.
"""

from __future__ import annotations

from typing import Any

WRONG_INPUT = 2
DID_NOT_SUCCEED = 1
OURS = 125
TIMED_OUT = 124
INTERRUPTED = 130


class Failure(Exception):
    """The command ends here. `fix` is a command that can be pasted, or one short instruction."""

    def __init__(
        self,
        code: str,
        message: str,
        why: str = "",
        where: str = "",
        fix: str = "",
        *,
        status: int = WRONG_INPUT,
        retryable: bool = False,
        retry_after: float | None = None,
        others: list[Failure] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.why, self.where, self.fix = code, message, why, where, fix
        self.status, self.retryable, self.retry_after = status, retryable, retry_after
        self.others = others or []

    def lines(self) -> str:
        """For people: what, why, and the way out; then the other things that were wrong."""
        told = [f"error: {self.where}: {self.message}" if self.where else f"error: {self.message}"]
        if self.why:
            told.append(f"  why: {self.why}")
        if self.fix:
            told.append(f"  fix: {self.fix}")
        return "\n".join([*told, *(other.lines() for other in self.others)])

    def document(self) -> dict[str, Any]:
        """For programs."""
        told: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "why": self.why,
            "where": self.where,
            "fix": self.fix,
            "retryable": self.retryable,
            "retry_after": self.retry_after,
        }
        if self.others:
            told["problems"] = [other.document() for other in self.others]
        return told


class ReaderGone(Exception):
    """Nobody reads our output any more."""


def read_problem(status: int, document: object) -> Failure:
    """The failure that a problem document tells of; anything else is told as what it is."""
    if not isinstance(document, dict) or "message" not in document:
        said = f"the server answered {status}"
        return Failure("unreadable_answer", said, "the answer is no problem document", status=DID_NOT_SUCCEED)
    text = {name: str(document.get(name) or "") for name in ("code", "message", "why", "where", "fix")}
    after = document.get("retry_after")
    others = [read_problem(status, other) for other in (document.get("problems") or [])[1:]]
    return Failure(
        **text,
        status=DID_NOT_SUCCEED if status >= 500 else WRONG_INPUT,
        retryable=bool(document.get("retryable")),
        retry_after=float(after) if isinstance(after, int | float) else None,
        others=others,
    )
