"""What a typed name points at: a submission or job, or one instance behind the last slash."""

from __future__ import annotations

from .failures import Failure


class Target:
    """`work` is a name, an id or `SUBMISSION/JOB`; `instance` is the index of one of its instances, or none."""

    def __init__(self, work: str, instance: int | None = None) -> None:
        self.work, self.instance = work, instance

    def parts(self) -> tuple[object, ...]:
        """Where it stands in the REST interface."""
        return (
            ("jobs", self.work) if self.instance is None else ("jobs", self.work, "instances", self.instance)
        )

    def __str__(self) -> str:
        return self.work if self.instance is None else f"{self.work}/{self.instance}"


def target(name: str) -> Target:
    """`unit`, `ci/unit`, `j-3k9`; with `/17` behind it, one instance."""
    work, _, last = name.rpartition("/")
    found = Target(work, int(last)) if work and last.isascii() and last.isdigit() else Target(name)
    if not found.work or found.work.startswith("/"):
        why = "work is JOB, SUBMISSION, SUBMISSION/JOB or an id, and /INDEX behind it"
        raise Failure("name", f"{name!r} names no work", why, fix="fairlead get jobs")
    return found


def pairs(given: tuple[str, ...], option: str, like: str) -> dict[str, str]:
    """`k=v`, several times."""
    read: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not name or not equals:
            said, why = f"{each!r} is not NAME=VALUE", f"such as {like}"
            # The value of one resource need not fit another.
            fits = bool(name) and not equals and (option != "--resource" or name in ("disk", "memory"))
            meant = f"{name}={like.partition('=')[2]}" if fits else like
            raise Failure("usage", said, why, option, f"{option} {quoted(meant)}")
        read[name] = value
    return read


def quoted(text: str) -> str:
    """As a word of a line that is pasted."""
    import shlex

    return shlex.quote(text)


LONGEST = "a time is 0 or more, and below 30,000 years"


def duration_ms(text: str, option: str) -> int:
    """`300ms`, `10s`, `5m`, `2h`, `1d`, or seconds."""
    units = {"ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6, "d": 8.64e7}
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        value = float(number) * units[text[len(number) :] or "s"]
    except (KeyError, ValueError):
        why = "a time is a number and a unit: ms, s, m, h or d"
        raise Failure("usage", f"{text!r} is not a time", why, option, f"{option} 10m") from None
    if not 0 <= value < 1e15:
        raise Failure("usage", f"{text!r} is not a time that passes", LONGEST, option, f"{option} 10m")
    return int(value)
