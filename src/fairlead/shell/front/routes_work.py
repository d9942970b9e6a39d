"""Handlers for work: submitting, looking, waiting, cancelling, why and history."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import Response

from fairlead.model.errors import Problem
from fairlead.model.reasons import Reason
from fairlead.model.requests import (
    LOOK_ROWS,
    Accepted,
    Cancel,
    Changed,
    Detach,
    Explain,
    History,
    Look,
    Seen,
    Submit,
)

from .answers import refuse_all, show
from .site import CHANGE_MS, Site
from .submissions import read_body
from .table import Call
from .waiting import Item, until

UNFINISHED = frozenset(
    {"pending", "blocked", "waiting", "active", "assigned", "starting", "running", "ending", "updating"}
)
LONGEST_KEY = 256
# A body above it is read beside the loop: 4 MiB of YAML take seconds, in which nobody else would be served.
AT_ONCE_BYTES = 32 << 10
DEFAULT_TENANT = "default"


class Names(Struct, frozen=True, forbid_unknown_fields=True):
    """Work to end: names, ids, `SUBMISSION/JOB`. `caller_gone`: because its caller went away."""

    names: Annotated[list[str], Meta(min_length=1, max_length=LOOK_ROWS)]
    caller_gone: bool = False


async def submit(site: Site, call: Call) -> Response | Problem:
    """Record jobs; the same key and body again is answered the same and does nothing."""
    if len(call.raw) > AT_ONCE_BYTES:
        read = await asyncio.to_thread(read_body, call.raw, call.request.headers)
    else:
        read = read_body(call.raw, call.request.headers)
    if isinstance(read, list):
        return refuse_all(read)
    tenant = _tenant(call, read.tenant or call.query["tenant"] or "")
    if isinstance(tenant, Problem):
        return tenant
    key = call.request.headers.get("idempotency-key") or site.new_key()
    if len(key) > LONGEST_KEY:
        return Problem("bad_key", f"the Idempotency-Key has {len(key)} letters", fix=f"at most {LONGEST_KEY}")
    asked = Submit(key, read.digest, read.name, tenant, call.caller, read.specs)
    reply = await site.ask(asked, CHANGE_MS)
    if isinstance(reply, Accepted):
        said = {"submission": reply.submission, "jobs": reply.jobs, "names": reply.names}
        return show(said, 201, {"Idempotency-Key": key, "Location": f"/v1/submissions/{reply.submission}"})
    return _refused(reply)


def listing(kind: str, of: str = "") -> Any:
    """A handler that lists a kind, `of` what stands in the path where there is something."""

    async def look(site: Site, call: Call) -> Response | Problem:
        limit = min(call.query["limit"] or LOOK_ROWS, LOOK_ROWS)
        asked = Look(kind, looks_as(call), call.names.get(of, ""), call.query["after"], limit, call.filters)
        return _items(await site.see(asked, kind))

    return look


def one(kind: str) -> Any:
    """A handler that shows one of a kind, at once or when it ended."""

    async def look(site: Site, call: Call) -> Response | Problem:
        asked = Look(kind, looks_as(call), call.name, limit=1)
        wait_ms = call.query.get("wait") or 0
        output = bool(call.query.get("output"))
        item = await until(
            site.feed,
            lambda: find(site, asked),
            lambda item: site.stopping or (has_ended(item) and (has_output(item) or not output)),
            wait_ms / 1000,
        )
        return item if isinstance(item, Problem) else show(item)

    return look


async def cancel_one(site: Site, call: Call) -> Response | Problem:
    """End one job."""
    reply = await _cancel(site, call, [call.name], False)
    if isinstance(reply, Problem):
        return reply
    name, said = reply.names[0], reply.said[0]
    good = said in ("ok", "ended")
    return show({"name": name, "said": said}) if good else Problem("no_such", f"{name}: {said}")


async def detach(site: Site, call: Call) -> Response | Problem:
    """Its caller leaves it: it goes on, whoever waits for it."""
    reply = await site.ask(Detach(call.name, looks_as(call)), CHANGE_MS)
    return show({"name": call.name, "said": "ok"}) if isinstance(reply, Changed) else _refused(reply)


async def cancel_many(site: Site, call: Call) -> Response | Problem:
    """End many; each is answered by itself."""
    reply = await _cancel(site, call, call.body.names, call.body.caller_gone)
    if isinstance(reply, Problem):
        return reply
    return show({"items": [{"name": n, "said": s} for n, s in zip(reply.names, reply.said, strict=True)]})


async def _cancel(site: Site, call: Call, names: list[str], caller_gone: bool) -> Changed | Problem:
    reason = Reason.caller_gone if caller_gone else Reason.cancelled_by_user
    reply = await site.ask(Cancel(names, looks_as(call), int(reason)), CHANGE_MS)
    return reply if isinstance(reply, Changed) and reply.names else _refused(reply)


async def why(site: Site, call: Call) -> Response | Problem:
    """Why it waits, or how it ended."""
    return _items(await site.see(Explain(call.name, looks_as(call)), "why"))


async def history(site: Site, call: Call) -> Response | Problem:
    """What happened to it, in order."""
    return _items(await site.see(History(call.name, looks_as(call)), "history"))


async def find(site: Site, asked: Look) -> Item | Problem:
    """The one item a look is for."""
    seen = await site.see(asked, asked.kind)
    if isinstance(seen, Problem):
        return seen
    if not seen.items:
        return Problem(
            "no_such", f"no {asked.kind.removesuffix('s')} is called {asked.name}", where=asked.name
        )
    return seen.items[0]


def has_ended(item: Item) -> bool:
    """Will its state stay as it is?"""
    return item.get("state") not in UNFINISHED


def has_output(item: Item) -> bool:
    """Is all of its output stored, or known to lack bytes?"""
    return item.get("output") != "pending" and not item.get("pending_output")


def _tenant(call: Call, wanted: str) -> str | Problem:
    own = call.principal.tenant
    if own and wanted and wanted != own:
        return Problem(
            "denied", f"this token may not submit for {wanted}", why=f"it is a token of {own}", where="tenant"
        )
    return wanted or own or DEFAULT_TENANT


def looks_as(call: Call) -> str:
    """Whose work is seen: the token's tenant's, or everybody's."""
    return call.principal.tenant or call.query.get("tenant") or DEFAULT_TENANT


def _items(seen: Seen | Problem) -> Response | Problem:
    if isinstance(seen, Problem):
        return seen
    return show({"items": seen.items, "next": seen.next or None})


def _refused(reply: object) -> Problem:
    if isinstance(reply, Problem):
        return reply
    raise TypeError(f"control answered {type(reply).__name__} to a change")
