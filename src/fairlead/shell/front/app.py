"""One request: find its route, know its caller, read its input, let it be served; every refusal a problem.

What nobody expected becomes a problem with a number, and a traceback with the same number in the log only.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from fairlead.model.errors import Problem, nearest
from fairlead.model.requests import Principal

from .access import LOCAL, may
from .answers import refuse
from .attach import Cut
from .routes import ROUTES
from .site import Site
from .table import BODY_BYTES, Call, Route, match, read_query, split

log = logging.getLogger(__name__)


class Front:
    """The application behind one door; behind the local one everybody is an administrator."""

    def __init__(self, site: Site, local: bool, routes: Sequence[Route] = ROUTES) -> None:
        self._site = site
        self._local = local
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began = time.monotonic()
        request = Request(scope, receive)
        name, started = "none", False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._site.metrics.requests.labels(name, str(message["status"])).inc()
                self._site.metrics.seconds.labels(name).observe(time.monotonic() - began)
            await send(message)

        try:
            found = find_route(self._routes, scope)
            if isinstance(found, tuple):
                name = found[0].name
                response = await self._serve(request, *found)
            else:
                response = found
            await response(scope, receive, sending)
        except ClientDisconnect:
            log.debug("the caller of %s is gone", name)
        except Cut as cut:
            log.warning("%s: %s", name, cut)
        except OSError as cause:
            log.warning("%s: the store of output does not answer: %s", name, cause)
            if not started:
                await refuse(_store_down(cause))(scope, receive, sending)
        except Exception:
            fault = secrets.token_hex(4)
            self._site.metrics.faults.inc()
            log.exception("fault %s in %s", fault, name)
            if not started:
                said = "this server failed to answer"
                why = f"fault {fault}; the server's log has more"
                problem = Problem("fault", said, why=why, fix="try again", retryable=True)
                await refuse(problem)(scope, receive, sending)

    async def _serve(self, request: Request, route: Route, names: dict[str, str]) -> Response:
        who = await self._caller(request, route)
        if isinstance(who, Problem):
            return refuse(who)
        query = read_query(route, request.query_params.multi_items())
        if isinstance(query, Problem):
            return refuse(query)
        raw = await read_whole(request)
        body = raw if isinstance(raw, Problem) else read_json(route, raw, request)
        if isinstance(body, Problem) or isinstance(raw, Problem):
            return refuse(body)
        call = Call(request, names, query[0], query[1], who[1], who[0], body, raw)
        answer = await route.handler(self._site, call)
        return refuse(answer) if isinstance(answer, Problem) else answer

    async def _caller(self, request: Request, route: Route) -> tuple[str, Principal] | Problem:
        if self._local:
            return "local", LOCAL
        if not route.role:
            return "", Principal("", "")
        who = await self._site.access.who(request.headers.get("authorization", ""))
        if isinstance(who, Problem) or may(who[1], route.role):
            return who
        return Problem(
            "denied",
            f"a token of role {who[1].role} may not do this",
            why=f"{route.method} {route.path} asks for role {route.role}",
            fix=f"fairlead token create --role {route.role}",
        )


def _store_down(cause: OSError) -> Problem:
    said = "the store of output does not answer"
    return Problem("unavailable", said, why=str(cause), retryable=True, retry_after_ms=1_000)


def find_route(routes: Sequence[Route], scope: Scope) -> tuple[Route, dict[str, str]] | Response:
    """The route of a request and the names in its path, or why there is none."""
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    raw = bytes(scope.get("raw_path") or scope["path"].encode())
    segments = split(raw.split(b"?")[0])
    allowed: list[str] = []
    for route in routes:
        names = match(route, segments)
        if names is None:
            continue
        if route.method == method:
            return route, names
        allowed.append(route.method)
    where = scope["path"][:200]
    if allowed:
        said = f"{scope['method']} is not for {where}"
        problem = Problem("method_not_allowed", said, where=where, fix=f"use {', '.join(allowed)}")
        return refuse(problem, {"Allow": ", ".join(allowed)})
    near = nearest(scope["path"][:60], {route.path for route in routes})
    fix = f"did you mean {near}?" if near else "GET /openapi.json lists all routes"
    return refuse(Problem("no_such_route", f"there is nothing at {where}", where=where, fix=fix))


async def read_whole(request: Request) -> bytes | Problem:
    """The body, within the limit."""
    pieces: list[bytes] = []
    size = 0
    said = request.headers.get("content-length", "0")
    if said.isdecimal() and int(said) > BODY_BYTES:
        return _too_large(int(said))
    async for piece in request.stream():
        size += len(piece)
        if size > BODY_BYTES:
            return _too_large(size)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(size: int) -> Problem:
    why = f"{size} bytes, above the limit of {BODY_BYTES}"
    return Problem("too_large", "the body is too large", why=why, fix="submit in several parts")


def read_json(route: Route, raw: bytes, request: Request) -> Any:
    """The record a route wants, or what is wrong with the body."""
    if route.body is None:
        return None
    if not raw:
        raw = b"{}"
    try:
        return msgspec.json.decode(raw, type=route.body)
    except msgspec.ValidationError as fault:
        said, _, where = str(fault).partition(" - at `")
        return Problem("bad_request", said, where=where.rstrip("`").removeprefix("$").lstrip("."))
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        return Problem(
            "bad_json", "the body is no JSON", why=str(fault), fix="Content-Type: application/json"
        )
