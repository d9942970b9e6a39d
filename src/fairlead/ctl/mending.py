"""Turns the way out of a refusal into a line that can be pasted: the caller's own line, changed; or the file, opened.

The site knows what was wrong, but not what was typed and where the file lies. Only here both are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from .failures import Failure

# How a refusal says which name was probably meant.
MEANT = "did you mean "
# What begins a fix that is a command already.
COMMANDS = ("${EDITOR", "sed ", "iconv ", "du ", "fairlead ")


def mend(failure: Failure, typed: Sequence[str]) -> None:
    """Complete a fix that is only an option, or a key to be left out, to the line that was typed."""
    # Several options that are wrong are mended in one line, else none of the lines could be pasted.
    told = (failure, *failure.others)
    whole = reduce(retyped, [each.fix for each in told if each.fix.startswith("--")], list(typed))
    for each in told:
        if each.fix.startswith("--"):
            each.fix = _line(whole)
        elif each.code == "key_reused":
            at = _place(typed, "--key")
            each.fix = _line([*typed[: at.start], *typed[at.stop :]])
        elif each.code == "no_such" and each.why.startswith(MEANT):
            each.fix = _renamed(each, typed) or each.fix


def retyped(typed: Sequence[str], option: str) -> list[str]:
    """The line that was typed, with that option instead of what it had."""
    import shlex

    fresh = shlex.split(option)
    at = _place(typed, fresh[0], fresh[-1] if len(fresh) > 1 else "")
    return [*typed[: at.start], *fresh, *typed[at.stop :]]


def _renamed(refused: Failure, typed: Sequence[str]) -> str:
    """The line with the name that was probably meant; empty when the wrong one was not typed."""
    wrong = refused.message.partition("'")[2].rpartition("'")[0]
    meant = refused.why.removeprefix(MEANT).rstrip("?")
    return _line([meant if word == wrong else word for word in typed]) if wrong in typed else ""


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


def _place(typed: Sequence[str], option: str, value: str = "") -> slice:
    """Where an option stands with its value; where it could stand when it is not there.

    Of an option that stands several times, the one that is meant is the beginning of the new value, else the last.
    """
    end = typed.index("--") if "--" in typed else len(typed)
    found: list[slice] = []
    for number, word in enumerate(typed[:end]):
        name, equals, held = word.partition("=")
        if name == option:
            found.append(slice(number, number + (1 if equals else 2)))
            had = held if equals else "".join(typed[number + 1 : number + 2])
            if value and value.startswith(had):
                return found[-1]
    behind = next((number + 1 for number, word in enumerate(typed) if not word.startswith("-")), end)
    return found[-1] if found else slice(behind, behind)


def _line(words: Sequence[str]) -> str:
    import shlex

    return f"fairlead {shlex.join(words)}"
