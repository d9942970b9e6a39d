"""The segments as server-sent events. An event's id is `SEGMENT.ROW`; who comes back with the last one goes on.

A subscriber has a place in the kept segments and no queue of its own; where what it needs is not kept any
more, it is told `resync` and goes on from there: what it knows must be looked up anew.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from itertools import takewhile
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from fairlead.base.ids import find_job_number, job_id
from fairlead.model.changes import Change, Part, SpecsAdded
from fairlead.model.errors import Problem
from fairlead.model.keys import Keys

from .attach import BEAT_S, FOLLOWERS
from .site import Site
from .table import Call
from .waiting import jobs_of, rung

ID = re.compile(r"(\d{1,18})\.(\d{1,9})", re.ASCII)


async def events(site: Site, call: Call) -> Response | Problem:
    """Everything that becomes durable, from now on or behind the id in `Last-Event-ID`."""
    if call.principal.tenant:
        said = "this token sees one tenant's work, and events tell of everybody's"
        return Problem("denied", said, fix="wait on a job with ?wait=30s, or attach to an instance")
    if site.followers >= FOLLOWERS:
        said = f"{FOLLOWERS} streams are open"
        return Problem("too_many_followers", said, retryable=True, retry_after_ms=2_000)
    last = call.request.headers.get("last-event-id") or call.query["since"] or ""
    found = ID.fullmatch(last)
    if last and not found:
        said = f"no event has the id {last[:40]}"
        return Problem("bad_parameter", said, where="Last-Event-ID", fix="an id such as 17.0")
    job = call.query["job"] or ""
    number = find_job_number(job)
    if job and number is None:
        return Problem(
            "bad_parameter", f"{job[:40]} is no id of a job", where="job", fix="an id such as j-3k9"
        )
    after = (int(found[1]), int(found[2])) if found else (site.feed.whole + 1, -1)
    pieces = _told(site, after, call.query["type"] or "", number)
    return StreamingResponse(pieces, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _told(site: Site, after: tuple[int, int], kind: str, job: int | None) -> AsyncIterator[bytes]:
    bell = asyncio.Event()
    site.followers += 1
    try:
        with site.feed.listening((), bell):
            beat = 0.0
            while not site.stopping:
                if site.feed.floor > after[0] + 1:
                    after = (site.feed.floor - 1, 0)
                    yield b"event: resync\nid: %d.0\ndata: {}\n\n" % after[0]
                newer = list(takewhile(partial(_from, after[0]), reversed(site.feed.parts)))
                for part in reversed(newer):
                    for row, change in enumerate(part.changes):
                        if (part.n, row) > after and _wanted(change, kind, job):
                            yield _event(part, row, change)
                    after = max(after, (part.n, len(part.changes) - 1))
                if time.monotonic() >= beat:
                    beat = time.monotonic() + BEAT_S
                    yield b": beat\n\n"
                await rung(bell, beat - time.monotonic())
    finally:
        site.followers -= 1


def _from(n: int, part: Part) -> bool:
    return part.n >= n


def _wanted(change: Change, kind: str, job: int | None) -> bool:
    if isinstance(change, SpecsAdded):
        return False
    return (not kind or _kind(change) == kind) and (job is None or job in jobs_of(change))


def _kind(change: Change) -> str:
    return str(type(change).__struct_config__.tag)


def _event(part: Part, row: int, change: Change) -> bytes:
    data = {"id": f"{part.n}.{row}", "at": part.at, "type": _kind(change), **shown(change)}
    body = msgspec.json.encode(data)
    return b"id: %d.%d\nevent: %s\ndata: %s\n\n" % (part.n, row, _kind(change).encode(), body)


def shown(change: Change) -> dict[str, Any]:
    """A change in JSON: columns stay columns, spans are spelled out, job numbers are ids."""
    facts: dict[str, Any] = msgspec.to_builtins(change)
    facts.pop("type", None)
    keys: Keys | None = getattr(change, "keys", None)
    if keys is not None:
        facts["keys"] = list(_spans(keys))
    if "job" in facts:
        facts["job"] = [job_id(number) for number in facts["job"]]
    # Digests of secrets and bodies are nobody's business here.
    facts.pop("digest", None)
    return facts


def _spans(keys: Keys) -> Iterator[dict[str, Any]]:
    for job, first, count, attempt in keys.spans():
        yield {"job": job_id(job), "first": first, "count": count, "attempt": attempt}
