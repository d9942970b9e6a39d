"""The form of a route, of its parameters, and what a handler gets. The routes themselves stand in `routes`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from fairlead.model.errors import Problem
from fairlead.model.requests import Principal

from .site import Site

# A body above this is refused: a submission of so many bytes would not fit the way to control either.
BODY_BYTES = 4 << 20
LONGEST_WAIT_MS = 60_000
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h)?", re.ASCII)


def _count(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,15}", text, re.ASCII) else None


def _flag(text: str) -> bool | None:
    return {"1": True, "true": True, "0": False, "false": False}.get(text)


def _duration(text: str) -> int | None:
    found = _DURATION.fullmatch(text)
    return min(int(found[1]) * _UNITS[found[2] or "s"], LONGEST_WAIT_MS) if found else None


def _stream(text: str) -> int | None:
    return {"out": 0, "err": 1}.get(text)


# How a parameter is read, and what it must look like, as people are told and as OpenAPI says it.
KINDS: dict[str, tuple[Callable[[str], Any], str, dict[str, Any]]] = {
    "text": (lambda text: text, "text", {"type": "string"}),
    "count": (_count, "a whole number from 0", {"type": "integer", "minimum": 0}),
    "flag": (_flag, "1 or 0", {"type": "string", "enum": ["1", "0", "true", "false"]}),
    "duration": (_duration, "a time such as 500ms, 30s or 1m", {"type": "string"}),
    "stream": (_stream, "out or err", {"type": "string", "enum": ["out", "err"]}),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One query parameter."""

    name: str
    kind: str
    about: str
    default: Any = None


@dataclass(slots=True)
class Call:
    """One request that may be served: known route, allowed caller, parameters and body read."""

    request: Request
    names: dict[str, str]
    query: dict[str, Any]
    filters: dict[str, str]
    principal: Principal
    caller: str
    body: Any
    raw: bytes

    @property
    def name(self) -> str:
        """The job, submission, agent or token in the path; for an instance `JOB/INDEX`."""
        return "/".join(self.names.values())


Handler = Callable[[Site, Call], Awaitable[Response | Problem]]


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path. `role` empty: for everybody. `body`: the record its JSON is read into."""

    method: str
    path: str
    role: str
    about: str
    handler: Handler
    query: tuple[Parameter, ...] = ()
    # Other parameters are filters, passed on to control.
    filtered: bool = False
    body: type[Any] | None = None
    # Media types of a body that the handler reads itself.
    media: tuple[str, ...] = ()
    gives: str = "application/json"
    status: int = 200
    segments: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", tuple(self.path.strip("/").split("/")))

    @property
    def name(self) -> str:
        """What metrics and OpenAPI call it."""
        words = [segment.strip("{}") for segment in self.segments if segment != "v1"]
        return "_".join([self.method.lower(), *words]).replace(".", "_")

    @property
    def places(self) -> tuple[str, ...]:
        """The names in its path."""
        return tuple(segment[1:-1] for segment in self.segments if segment.startswith("{"))


def split(raw_path: bytes) -> tuple[str, ...]:
    """The segments of a path, each unquoted by itself: a quoted slash belongs to a name."""
    return tuple(unquote(part) for part in raw_path.decode("ascii", "replace").strip("/").split("/"))


def match(route: Route, segments: tuple[str, ...]) -> dict[str, str] | None:
    """The names in a path that is this route's, or None."""
    if len(segments) != len(route.segments):
        return None
    names: dict[str, str] = {}
    for wanted, got in zip(route.segments, segments, strict=True):
        if wanted.startswith("{"):
            if not got:
                return None
            names[wanted[1:-1]] = got
        elif wanted != got:
            return None
    return names


def read_query(route: Route, pairs: list[tuple[str, str]]) -> tuple[dict[str, Any], dict[str, str]] | Problem:
    """The parameters of a route, and what is left as filters; or what is wrong with them."""
    known = {parameter.name: parameter for parameter in route.query}
    query: dict[str, Any] = {parameter.name: parameter.default for parameter in route.query}
    filters: dict[str, str] = {}
    for name, text in pairs:
        parameter = known.get(name)
        if parameter is None:
            if not route.filtered:
                takes = ", ".join(known) or "none"
                return Problem(
                    "unknown_parameter", f"no such parameter: {name}", where=name, fix=f"it takes: {takes}"
                )
            filters[name] = text
            continue
        read, form, _ = KINDS[parameter.kind]
        value = read(text)
        if value is None:
            return Problem("bad_parameter", f"{name}={text}", why=f"it must be {form}", where=name)
        query[name] = value
    return query, filters
