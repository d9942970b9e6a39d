"""Reads a job file, YAML 1.2 or JSON, into plain values, and remembers where each of them stood.

Only `true` and `false` are booleans, so `on` is text; a number keeps how it was written (`quantities.Number`),
so `3.10` stays `3.10`. A key may stand once. Aliases are followed, but what they unfold to is bounded, and
tags, several documents and keys that are no text are refused. The document is built from the parser's events
without recursion, so depth costs no stack.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, NoReturn

import yaml
from msgspec import Struct

from fairlead.model.errors import Problem, quote
from fairlead.model.quantities import Number
from fairlead.model.reading import Path, show_path

LARGEST_FILE = 4 << 20
# Values after aliases are unfolded.
MOST_VALUES = 500_000
DEEPEST = 100

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_ODD_FLOATS = frozenset(
    {".nan", ".NaN", ".NAN"} | {s + i for s in ("", "-", "+") for i in (".inf", ".Inf", ".INF")}
)
# The two parsers tell such a character's place differently, so it is looked for before.
_NOT_PRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HALF = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}", re.ASCII)
_WORDS: dict[str, bool | None] = {
    "true": True,
    "false": False,
    "null": None,
    "Null": None,
    "NULL": None,
    "~": None,
    "": None,
}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Mark = tuple[int, int]


class Loaded(Struct, frozen=True):
    """A document, and where its parts stand."""

    document: object
    places: Marks


class Marks:
    """Lines and columns of a document's values and keys, both counted from 1."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[Path, Mark] = {}
        self.keys: dict[Path, Mark] = {}

    def find(self, path: Path, key: bool = False) -> str:
        """Like `ci.yaml:4:9`; a part that was unfolded from an alias stands where the alias does."""
        if not self.name:
            return show_path(path)
        shown = path
        while path:
            mark = (self.keys if key else self.values).get(path) or self.values.get(path)
            if mark is not None:
                return self.at(*mark)
            path, key = path[:-1], False
        return self.at(*self.values[()]) if () in self.values else f"{self.name}: {show_path(shown)}"

    def at(self, line: int, column: int) -> str:
        """A place in this file."""
        return f"{self.name}:{line}:{column}"


def load(data: bytes | str, name: str) -> Loaded | Problem:
    """The document in a file of that name, or what is wrong with it and where. A body has no name."""
    if len(data) > LARGEST_FILE:
        said = f"{len(data)} bytes are too many"
        return Problem(
            "too_large", said, f"a job file has at most {LARGEST_FILE}", fix=f"du -h {_shell(name)}"
        )
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        return _load(text.removeprefix("\ufeff"), name)
    except UnicodeDecodeError as fault:
        line = fault.object[: fault.start].count(b"\n") + 1
        column = fault.start - fault.object.rfind(b"\n", 0, fault.start)
        said = f"byte 0x{fault.object[fault.start]:02x} is not UTF-8"
        fix = f"iconv -f LATIN1 -t UTF-8 {_shell(name)}"
        return Problem("syntax", said, "a job file is UTF-8", _place(name, line, column), fix)
    except _Broken as broken:
        return broken.problem


class _Broken(Exception):
    """Leaves the parser; never leaves this module."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _load(text: str, name: str) -> Loaded:
    if text.lstrip()[:1] not in ("{", "["):
        return _load_yaml(text, name)
    try:
        document = _load_json(text, name)
    except json.JSONDecodeError as fault:
        if not name.endswith(".json"):
            try:
                return _load_yaml(text, name)
            except _Broken:
                if name:
                    raise
        _break(name, (fault.lineno, fault.colno), f"not JSON: {fault.msg[:1].lower()}{fault.msg[1:]}", "")
    if not name:
        return Loaded(document, Marks(name))
    try:
        return Loaded(document, _load_yaml(_as_yaml(text), name).places)
    except _Broken:
        return Loaded(document, Marks(name))


def _as_yaml(text: str) -> str:
    """JSON of which YAML finds the places: JSON has tabs only between values, YAML has no half characters."""
    return _HALF.sub(r"\\u0041", text.replace("\t", " "))


def _load_json(text: str, name: str) -> object:
    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    _load_yaml(_as_yaml(text), name)
                    _break(
                        name, (1, 1), f"the key {quote(key)} stands twice", "the second would hide the first"
                    )
                seen.add(key)
        return found

    def no_number(word: str) -> NoReturn:
        _break(name, (1, 1), f"{quote(word)} is not a number", "JSON has no such value")

    try:
        document: object = json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=no_number, object_pairs_hook=once
        )
    except RecursionError:
        _break(name, (1, 1), "nested too deep", f"a job file is at most {DEEPEST} deep")
    return document


def _load_yaml(text: str, name: str) -> Loaded:
    odd = _NOT_PRINTABLE.search(text)
    if odd is not None:
        said = f"the character U+{ord(odd[0]):04X} is not allowed"
        place = (text.count("\n", 0, odd.start()) + 1, odd.start() - text.rfind("\n", 0, odd.start()))
        _break(name, place, said, "YAML is printable text")
    builder = _Builder(name)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.add(event)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        place = _inside(text, mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        _break(name, place, *_explain(text, place, fault))
    except yaml.YAMLError as fault:
        _break(name, (1, 1), "not YAML", str(fault).splitlines()[0])
    return builder.finish()


def _inside(text: str, line: int, column: int) -> Mark:
    """The place, or the end of the text when the parser looked beyond it."""
    lines = text.splitlines() or [""]
    return (line, column) if line <= len(lines) else (len(lines), len(lines[-1]) + 1)


def _explain(text: str, place: Mark, fault: yaml.MarkedYAMLError) -> tuple[str, str]:
    """What is wrong in words that help, and why."""
    lines = text.splitlines()
    line = lines[place[0] - 1] if place[0] <= len(lines) else ""
    if "\t" in line[: max(place[1], len(line) - len(line.lstrip()))]:
        return "a tab stands where blanks are expected", "YAML is indented with blanks only"
    context = str(fault.context or "").removeprefix("while ")
    said = str(fault.problem or "not YAML")
    near = f", near {quote(line.strip())}" if line.strip() else ""
    return f"{said}{near}", context


def _break(name: str, mark: Mark, said: str, why: str) -> NoReturn:
    line, column = mark
    if name in ("", "-"):
        fix = f"look at line {line} of what was sent"
    elif said.startswith("a tab"):
        fix = f"sed -i '{line}s/\\t/  /g' {_shell(name)}"
    else:
        fix = f"${{EDITOR:-vi}} +{line} {_shell(name)}"
    raise _Broken(Problem("syntax", said, why, _place(name, line, column), fix))


def _place(name: str, line: int, column: int) -> str:
    return f"{name}:{line}:{column}" if name else f"line {line}, column {column}"


def _shell(name: str) -> str:
    return shlex.quote(name)


class _Frame:
    """A list or a mapping that is still open."""

    __slots__ = ("anchor", "held", "key", "path", "size")

    def __init__(self, held: list[Any] | dict[str, Any], path: Path, anchor: str | None) -> None:
        self.held, self.path, self.anchor = held, path, anchor
        self.key: str | None = None
        self.size = 1


class _Builder:
    """Puts values together as their events come."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._marks = Marks(name)
        self._open: list[_Frame] = []
        self._anchors: dict[str, tuple[object, int]] = {}
        self._document: object = None
        self._documents = 0
        self._values = 0

    def add(self, event: Any) -> None:
        """The next event of the parser."""
        if isinstance(event, yaml.ScalarEvent):
            self._add_scalar(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            frame = self._open.pop()
            self._put(frame.held, frame.size, frame.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._add_alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._fail(event, "a second document begins", "a job file is one; list the jobs under `jobs`")

    def finish(self) -> Loaded:
        """The document, once all events came."""
        if not self._documents:
            _break(self._name, (1, 1), "the file is empty", "a job says at least `run: make test`")
        return Loaded(self._document, self._marks)

    def _add_scalar(self, event: Any) -> None:
        self._refuse_tag(event)
        frame = self._open[-1] if self._open else None
        if frame is not None and isinstance(frame.held, dict) and frame.key is None:
            self._take_key(frame, event)
            return
        self._mark(event)
        self._count(event, 1)
        self._put(_resolve(event) if event.implicit[0] else event.value, 1, event.anchor)

    def _take_key(self, frame: _Frame, event: Any) -> None:
        key = event.value
        if event.anchor is not None:
            self._anchors[event.anchor] = (key, 1)
        path = (*frame.path, key)
        if key in frame.held:
            first = self._marks.keys[path]
            why = f"the first is in line {first[0]}, and would be hidden"
            self._fail(event, f"the key {quote(key)} stands twice", why)
        self._marks.keys[path] = _mark(event)
        frame.key = key

    def _begin(self, event: Any) -> None:
        self._refuse_tag(event)
        self._refuse_as_key(event)
        if len(self._open) >= DEEPEST:
            self._fail(event, "nested too deep", f"a job file is at most {DEEPEST} deep")
        path = self._path()
        self._mark(event)
        self._count(event, 1)
        held: list[Any] | dict[str, Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_Frame(held, path, event.anchor))

    def _add_alias(self, event: Any) -> None:
        self._refuse_as_key(event)
        found = self._anchors.get(event.anchor)
        if found is None:
            self._fail(
                event, f"the alias {quote('*' + event.anchor)} stands for nothing", "no anchor before it"
            )
        self._mark(event)
        self._count(event, found[1])
        self._put(found[0], found[1], None)

    def _count(self, event: Any, size: int) -> None:
        self._values += size
        if self._values > MOST_VALUES:
            self._fail(event, "too many values", f"at most {MOST_VALUES} are read, those behind aliases too")

    def _put(self, value: object, size: int, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if not self._open:
            self._document = value
            return
        frame = self._open[-1]
        frame.size += size
        if isinstance(frame.held, list):
            frame.held.append(value)
        else:
            frame.held[str(frame.key)] = value
            frame.key = None

    def _path(self) -> Path:
        if not self._open:
            return ()
        frame = self._open[-1]
        last = len(frame.held) if isinstance(frame.held, list) else str(frame.key)
        return (*frame.path, last)

    def _mark(self, event: Any) -> None:
        self._marks.values[self._path()] = _mark(event)

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None and event.tag != "!":
            self._fail(event, f"the tag {quote(event.tag)} means nothing here", "values have no tags")

    def _refuse_as_key(self, event: Any) -> None:
        frame = self._open[-1] if self._open else None
        if frame is not None and isinstance(frame.held, dict) and frame.key is None:
            self._fail(event, "a key that is no text", 'placeholders in braces are quoted: "{{x}}"')

    def _fail(self, event: Any, said: str, why: str) -> NoReturn:
        _break(self._name, _mark(event), said, why)


def _mark(event: Any) -> Mark:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _resolve(event: Any) -> object:
    """What a plain scalar stands for in YAML 1.2."""
    text: str = event.value
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text) or _FLOAT.fullmatch(text) or text in _ODD_FLOATS:
        return Number(text)
    return text
