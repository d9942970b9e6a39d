"""Turns the way out of a refusal into a line that can be pasted: the caller's own line, changed; or the file, opened.

The site knows what was wrong, but not what was typed and where the file lies. Only here both are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from .failures import Failure

# What begins a fix that is a command already.
COMMANDS = ("${EDITOR", "sed ", "iconv ", "du ", "fairlead ")


def mend(failure: Failure, typed: Sequence[str]) -> None:
    """Complete a fix that is only an option, or a key to be left out, to the line that was typed."""
    for each in (failure, *failure.others):
        if each.fix.startswith("--"):
            each.fix = retyped(each.fix, typed)
        elif each.code == "key_reused":
            each.fix = _line(*_without(typed, "--key"))


def retyped(option: str, typed: Sequence[str]) -> str:
    """The line that was typed, with that option instead of what it had."""
    import shlex

    fresh = shlex.split(option)
    # Of an option that stands several times, the one that it mends is the beginning of the new one.
    before, behind = _without(typed, fresh[0], fresh[-1] if len(fresh) > 1 else "")
    return _line([*before, *fresh], behind)


def in_file(refused: Failure, file: str) -> Failure:
    """A refusal of what stands in a file: its fix changes the word that is wrong, or opens the file there."""
    import re
    import shlex

    for each in (refused, *refused.others):
        if each.fix.startswith(COMMANDS) and file != "-":
            continue
        place = re.search(r":(\d+):\d+", each.where)
        wrong = re.search(r"has no field `(\w+)`", each.message)
        meant = re.search(r"did you mean `(\w+)`\?", each.why)
        if file == "-":
            told, each.fix = each.fix, "fairlead submit - < FILE"
        elif each.code == "unknown_field" and place and wrong and meant:
            told = ""
            each.fix = f"sed -i '{place[1]}s/\\<{wrong[1]}\\>/{meant[1]}/' {shlex.quote(file)}"
        else:
            line = f"+{place[1]} " if place else ""
            told, each.fix = each.fix, f"${{EDITOR:-vi}} {line}{shlex.quote(file)}"
        each.why = "; ".join(part for part in (each.why, told) if part) or "that is no job"
    return refused


def _without(typed: Sequence[str], option: str, value: str = "") -> tuple[list[str], list[str]]:
    """What was typed without one option, before and behind the bare `--`."""
    at = typed.index("--") if "--" in typed else len(typed)
    before, behind = list(typed[:at]), list(typed[at:])
    for number, word in enumerate(before):
        name, equals, held = word.partition("=")
        if name != option:
            continue
        had = [held] if equals else before[number + 1 : number + 2]
        if not value or before.count(option) < 2 or value.startswith(had[0] if had else ""):
            del before[number : number + (1 if equals else 2)]
            break
    return before, behind


def _line(before: list[str], behind: list[str]) -> str:
    import shlex

    return f"fairlead {shlex.join([*before, *behind])}"
