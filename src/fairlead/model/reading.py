"""Reads mappings that people wrote by a table of fields, and collects what is wrong with where it stands.

A reader gets one value and its path, and returns what goes into the record, or None after it has said what is
wrong. So one pass tells everything that is wrong at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from .errors import LONGEST_QUOTE, Problem, nearest, quote
from .quantities import read_whole

# More would scroll the first one away.
MOST_PROBLEMS = 20
# The kernel takes no argument or variable over 128 KiB, with its name; so it is said before a machine is sought.
LONGEST_TEXT = 120 << 10

Path = tuple[str | int, ...]
Patch = dict[str, Any]


class Places(Protocol):
    """Where in the caller's own input a value stands, or with `key` the name before it."""

    def find(self, path: Path, key: bool = False) -> str:
        """Like `ci.yaml:4:9`."""
        ...


class Reading:
    """One pass over one document."""

    def __init__(self, places: Places | None) -> None:
        self.problems: list[Problem] = []
        self._places = places

    @property
    def full(self) -> bool:
        """Whether enough has been said."""
        return len(self.problems) >= MOST_PROBLEMS

    def where(self, path: Path, key: bool = False) -> str:
        """The place of a path: file, line and column when they are known, else the path itself."""
        return self._places.find(path, key) if self._places is not None else show_path(path)

    def refuse(self, path: Path, problem: Problem, key: bool = False) -> None:
        """Keep a problem, with its place; beside a line number the field is named as well."""
        if self.full:
            return
        field = show_path(_inside_job(path)) if self._places is not None and not key else ""
        message = f"{field}: {problem.message}" if field else problem.message
        where = self.where(path, key)
        self.problems.append(msgspec.structs.replace(problem, message=message, where=where))


Reader = Callable[[Reading, Path, object], Any]


class Field(NamedTuple):
    """One row: a field's name, how it is read, and where it goes (empty: the reader fills several)."""

    name: str
    read: Reader
    into: str
    example: str
    default: str
    says: str


Table = Mapping[str, Field]


def table(*rows: Field) -> dict[str, Field]:
    """Rows by name."""
    return {row.name: row for row in rows}


def read_fields(
    reading: Reading,
    path: Path,
    found: Mapping[Any, object],
    fields: Table,
    refused: Mapping[str, Problem],
    noun: str,
) -> Patch:
    """What a mapping says, by the rows of `fields`. Names in `refused` are known, and answered so."""
    patch: Patch = {}
    for key, value in found.items():
        if reading.full:
            break
        here = (*path, key if isinstance(key, str) else quote(key))
        row = fields.get(key) if isinstance(key, str) else None
        if row is None:
            reading.refuse(
                here, refused.get(str(here[-1])) or _unknown(here, fields, refused, noun), key=True
            )
        elif value is not None:
            got = row.read(reading, here, value)
            if got is not None:
                patch.update({row.into: got} if row.into else got)
    return patch


def _unknown(here: Path, fields: Table, refused: Mapping[str, Problem], noun: str) -> Problem:
    name = str(here[-1])
    message = f"{noun} has no field {quote(name)}"
    near = nearest(name, fields)
    if near is not None:
        fix = f"{near}: {fields[near].example}"
        return Problem("unknown_field", message, f"did you mean `{near}`?", fix=fix)
    later = nearest(name, refused, 0.8)
    why = (
        f"did you mean `{later}`? {refused[later].message}"
        if later
        else f"its fields are {', '.join(fields)}"
    )
    return Problem("unknown_field", message, why, fix="leave it out")


def show_path(path: Path) -> str:
    """`jobs[0].resources.cpu`; the file itself is empty."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            word = "".join(c if c.isprintable() else "?" for c in part[:LONGEST_QUOTE])
            shown += f".{word}" if shown else word
    return shown


def _inside_job(path: Path) -> Path:
    if path[:1] == ("jobs",) and len(path) > 1:
        return path[2:]
    return path[1:] if path[:1] == ("defaults",) else path


# Readers. Each returns what goes into the record, or None after refusing.


def as_text(value: object) -> str | None:
    """Text as a program gets it: numbers and booleans as they were written. None: it is no text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 64 else None
    if isinstance(value, float):
        return repr(value) if value - value == 0 else None
    return str(value) if isinstance(value, str) else None


def text(reading: Reading, path: Path, value: object) -> str | None:
    """Any text that can be given to a program."""
    found = as_text(value)
    if found is None:
        reading.refuse(path, Problem("not_text", f"{quote(value)} is not text", fix='write text, like "yes"'))
    elif "\0" in found or (not found.isascii() and _SURROGATE.search(found)):
        why = "no program can be given a zero byte or half a character"
        reading.refuse(path, Problem("not_text", f"{quote(found)} is not text", why, fix="remove it"))
    elif len(found) > LONGEST_TEXT or len(found.encode()) > LONGEST_TEXT:
        said = f"a text of {len(found.encode())} bytes"
        why = f"one argument or variable has at most {LONGEST_TEXT}"
        reading.refuse(path, Problem("too_large", said, why, fix="keep scripts and data in files"))
    elif placeholder := _PLACEHOLDER.search(found):
        said = f"the placeholder {quote(placeholder[0])} is not supported yet"
        why = "`{{…}}` will be filled in by Fairlead"
        reading.refuse(path, Problem("unsupported", said, why, fix="use a variable of `env`"))
    else:
        return found
    return None


_SURROGATE = re.compile("[\ud800-\udfff]")
_PLACEHOLDER = re.compile(r"\{\{\s*(?:[A-Za-z_][\w.-]*|hash\s[^}]*)\s*\}\}")


def texts(least: int, like: str) -> Reader:
    """A list of texts."""

    def read(reading: Reading, path: Path, value: object) -> list[str] | None:
        if not isinstance(value, list) or len(value) < least:
            said = "an empty list" if isinstance(value, list) else quote(value)
            reading.refuse(path, Problem("not_a_list", f"{said} where a list of texts is expected", fix=like))
            return None
        found = [text(reading, (*path, at), each) for at, each in enumerate(value)]
        whole = [each for each in found if each is not None]
        return whole if len(whole) == len(found) else None

    return read


def pairs(noun: str, pattern: str, longest: int, like: str, taken: str = "") -> Reader:
    """A mapping from names to texts. Names that begin with `taken` are ours."""
    allowed = re.compile(pattern, re.ASCII)

    def read(reading: Reading, path: Path, value: object) -> dict[str, str] | None:
        if not isinstance(value, dict):
            reading.refuse(path, Problem("not_a_mapping", f"{quote(value)} is not a mapping", fix=like))
            return None
        found: dict[str, str] = {}
        for key, each in value.items():
            here = (*path, key if isinstance(key, str) else quote(key))
            if not isinstance(key, str) or not allowed.fullmatch(key):
                said = f"{quote(key)} is not the name of {noun}"
                reading.refuse(here, Problem("name", said, f"allowed is {pattern}", fix=like), key=True)
            elif taken and key.startswith(taken):
                said = f"{quote(key)} is set by Fairlead itself"
                reading.refuse(here, Problem("name", said, fix="choose another name"), key=True)
            elif (got := text(reading, here, each)) is not None:
                if len(got) > longest:
                    said = f"a value of {len(got)} letters"
                    reading.refuse(here, Problem("too_large", said, f"at most {longest} are kept"))
                found[key] = got
        return found

    return read


def whole(low: int, high: int) -> Reader:
    """A whole number within bounds."""

    def read(reading: Reading, path: Path, value: object) -> int | None:
        return checked(reading, path, read_whole(value, low, high))

    return read


def flag(reading: Reading, path: Path, value: object) -> bool | None:
    """true or false."""
    if isinstance(value, bool):
        return value
    why = "only true and false are booleans"
    meant = "true" if as_text(value) in ("yes", "on", "1", "True", "TRUE", "y") else "false"
    fix = f"{path[-1]}: {meant}"
    reading.refuse(path, Problem("not_a_boolean", f"{quote(value)} is neither true nor false", why, fix=fix))
    return None


def choice(words: Mapping[str, Any], refused: Mapping[str, Problem]) -> Reader:
    """One of a few words, and what each stands for."""

    def read(reading: Reading, path: Path, value: object) -> Any:
        if isinstance(value, str) and value in words:
            return words[value]
        if isinstance(value, str) and value in refused:
            reading.refuse(path, refused[value])
            return None
        near = nearest(value, words) if isinstance(value, str) else None
        why = f"allowed is {either(words)}"
        fix = f"{path[-1]}: {near or next(iter(words))}"
        reading.refuse(path, Problem("not_a_choice", f"{quote(value)} is not known here", why, fix=fix))
        return None

    return read


def group(fields: Table, refused: Mapping[str, Problem], noun: str) -> Reader:
    """A mapping whose fields have rows of their own."""
    like = ", ".join(f"{row.name}: {row.example}" for row in list(fields.values())[:2])

    def read(reading: Reading, path: Path, value: object) -> Patch | None:
        if not isinstance(value, dict):
            said = f"{quote(value)} is not a mapping"
            reading.refuse(path, Problem("not_a_mapping", said, fix=f"{path[-1]}: {{{like}}}"))
            return None
        return read_fields(reading, path, value, fields, refused, noun)

    return read


def checked(reading: Reading, path: Path, got: int | Problem) -> int | None:
    """The number, or None after its problem was kept."""
    if isinstance(got, Problem):
        reading.refuse(path, got)
        return None
    return got


def either(words: Iterable[str]) -> str:
    """`a, b or c`."""
    listed: Sequence[str] = list(words)
    return " or ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))
