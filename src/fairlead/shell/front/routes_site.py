"""Handlers for the site itself: tokens, machines that join, agents, health, figures, addresses."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import Response

from fairlead.model.errors import Problem
from fairlead.model.lifecycles import Wanted
from fairlead.model.requests import AddToken, Admit, Admitted, Changed, Look, RevokeToken, WantAgent
from fairlead.model.tokens import digest_of, read_join

from .access import TOKEN_ROLES, new_token
from .answers import show
from .site import CHANGE_MS, Site
from .table import Call

# One join of a test machine that plays so many agents.
LARGEST_JOIN = 4_000
LARGEST_PEM = 20_000
LONGEST_TTL_MS = 10 * 365 * 24 * 3_600_000


class NewToken(Struct, frozen=True, forbid_unknown_fields=True):
    """A token to make. `ttl_ms` 0 and `uses` 0: what is usual for the role; `uses` -1: without bound."""

    role: str
    ttl_ms: Annotated[int, Meta(ge=0, le=LONGEST_TTL_MS)] = 0
    uses: Annotated[int, Meta(ge=-1, le=1_000_000)] = 0
    tenant: Annotated[str, Meta(max_length=128)] = ""


class Join(Struct, frozen=True, forbid_unknown_fields=True):
    """A machine that joins: its token and a certificate request (PEM). `count`: so many agents at once."""

    token: str
    csr: Annotated[str, Meta(max_length=LARGEST_PEM)]
    name: Annotated[str, Meta(max_length=128)] = ""
    labels: list[str] = []
    count: Annotated[int, Meta(ge=1, le=LARGEST_JOIN)] = 1
    role: str = "agent"


class Renewal(Struct, frozen=True, forbid_unknown_fields=True):
    """A machine's certificate, which may have expired, and a request for the next one with the same key."""

    certificate: Annotated[str, Meta(max_length=LARGEST_PEM)]
    csr: Annotated[str, Meta(max_length=LARGEST_PEM)]


class Wanting(Struct, frozen=True, forbid_unknown_fields=True):
    """Why it is wanted."""

    reason: Annotated[str, Meta(max_length=500)] = ""


async def add_token(site: Site, call: Call) -> Response | Problem:
    """Make a token; its secret is shown this once and kept nowhere."""
    asked: NewToken = call.body
    usual = TOKEN_ROLES.get(asked.role)
    if usual is None:
        roles = ", ".join(TOKEN_ROLES)
        return Problem(
            "no_such_role", f"no role is called {asked.role}", where="role", fix=f"one of: {roles}"
        )
    token = new_token(asked.role, site.options.authority_der)
    uses = asked.uses or usual[1]
    ttl_ms = asked.ttl_ms or usual[0]
    added = AddToken(token.id, digest_of(token.secret), asked.role, asked.tenant, uses, ttl_ms)
    reply = await site.ask(added, CHANGE_MS)
    if isinstance(reply, Changed):
        said = {"token": token.text, "id": token.id, "role": asked.role, "uses": uses, "ttl_ms": ttl_ms}
        return show(said, 201)
    return _refused(reply)


async def revoke_token(site: Site, call: Call) -> Response | Problem:
    """Let a token open nothing any more."""
    reply = await site.ask(RevokeToken(call.name), CHANGE_MS)
    if isinstance(reply, Changed):
        site.access.forget(call.name)
    return _changed(reply, call.name)


async def authority(site: Site, call: Call) -> Response:
    """The certificate of the site's authority: no secret, and known by its hash to who holds a join token."""
    return Response(site.options.authority, media_type="application/x-pem-file")


async def join(site: Site, call: Call) -> Response | Problem:
    """A machine gets its number and its certificate."""
    asked: Join = call.body
    token = read_join(asked.token)
    if isinstance(token, Problem):
        return token
    if asked.role not in ("agent", "server"):
        return Problem("no_such_role", f"nobody joins as {asked.role}", where="role", fix="agent or server")
    digest = digest_of(token.secret)
    admitted = await site.ask(Admit(token.id, digest, asked.role, asked.name, asked.count), CHANGE_MS)
    if not isinstance(admitted, Admitted):
        return _refused(admitted)
    members: list[dict[str, Any]] = []
    for at, name in enumerate(admitted.names):
        member = await _sign(site, asked, admitted.number + at, name)
        if isinstance(member, Problem):
            return member
        members.append(member)
    said = {
        **members[0],
        "ca": site.options.authority,
        "site": admitted.site,
        "control": list(site.options.control),
        "output": list(site.options.output),
    }
    if asked.role == "server":
        said["server"] = await asyncio.to_thread(site.options.share)
    return show(said if asked.count == 1 else {**said, "agents": members}, 201)


async def renew(site: Site, call: Call) -> Response | Problem:
    """An agent that is on the roster, and not banned, gets its next certificate."""
    asked: Renewal = call.body
    proved = await asyncio.to_thread(site.options.prove, asked.certificate, asked.csr)
    if isinstance(proved, Problem):
        return proved
    role, number = proved
    if role != "agent":
        return _not_renewed(f"it is a {role}'s, and only agents ask here", "")
    refusal = await _roster_refusal(site, number)
    if refusal is not None:
        return refusal
    certificate = await _certificate(site, asked.csr, role, number)
    if isinstance(certificate, Problem):
        return certificate
    told = {"certificate": certificate, "ca": site.options.authority}
    return show({**told, "control": list(site.options.control), "output": list(site.options.output)})


async def _roster_refusal(site: Site, number: int) -> Problem | None:
    seen = await site.see(Look("agents", "", after=number - 1, limit=1), "agents")
    if isinstance(seen, Problem):
        return seen
    if not seen.items or seen.items[0]["id"] != number:
        return _not_renewed(f"agent {number} is not known here", "fairlead token create --role agent")
    agent = seen.items[0]
    if agent["wanted"] == Wanted.banned.name:
        name = agent["name"]
        return _not_renewed(
            f"{name} is banned", f"an operator opens it again: POST /v1/agents/{name}/uncordon"
        )
    return None


def _not_renewed(why: str, fix: str) -> Problem:
    return Problem("not_renewed", "the certificate is not renewed", why, where="certificate", fix=fix)


async def _sign(site: Site, asked: Join, number: int, name: str) -> dict[str, Any] | Problem:
    certificate = await _certificate(site, asked.csr, asked.role, number)
    if isinstance(certificate, Problem):
        return certificate
    return {"number": number, "name": name, "certificate": certificate}


async def _certificate(site: Site, csr: str, role: str, number: int) -> str | Problem:
    try:
        return await asyncio.to_thread(site.sign, csr, role, number)
    except ValueError as fault:
        return Problem("bad_request", "the certificate request cannot be read", why=str(fault), where="csr")


def wanting(wanted: Wanted) -> Any:
    """A handler that says what is wanted of an agent."""

    async def want(site: Site, call: Call) -> Response | Problem:
        reason = call.body.reason if call.body is not None else ""
        return _changed(await site.ask(WantAgent(call.name, int(wanted), reason), CHANGE_MS), call.name)

    return want


def _addresses(site: Site) -> dict[str, Any]:
    options = site.options
    scheme = "https" if options.certificate else "http"
    host = f"[{options.host}]" if ":" in options.host else options.host
    return {
        "http": f"{scheme}://{host}:{site.port}",
        "socket": options.socket,
        "control": list(options.control),
        "output": list(options.output),
    }


async def addresses(site: Site, call: Call) -> Response | Problem:
    """Where this server is reached."""
    return show(_addresses(site))


async def status(site: Site, call: Call) -> Response | Problem:
    """The site at a glance: what control says of it, and this front."""
    seen = await site.see(Look("status", call.principal.tenant, limit=1), "status")
    front = {
        "boot": site.boot,
        "version": site.options.version,
        "addresses": _addresses(site),
        "segment": site.feed.head,
        "followers": site.followers,
        "output_waiting_bytes": site.intake.waiting_bytes,
    }
    if isinstance(seen, Problem):
        return seen if not seen.retryable else show({"control": seen.message, "front": front})
    return show({**(seen.items[0] if seen.items else {}), "front": front})


async def alive(site: Site, call: Call) -> Response | Problem:
    """This process answers."""
    return show({"status": "ok"})


class Readiness:
    """Whether control leads somewhere, asked at most once a second whoever asks."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._until = 0.0
        self._problem: Problem | None = None

    async def __call__(self, site: Site, call: Call) -> Response | Problem:
        """Control answers this front, so work is taken."""
        async with self._lock:
            if self._until < time.monotonic():
                reply = await site.ask(Look("status", "", limit=1), 2_000)
                self._problem = reply if isinstance(reply, Problem) and reply.retryable else None
                self._until = time.monotonic() + 1
        if site.stopping:
            return Problem("unavailable", "this front is stopping", retryable=True)
        return self._problem or show({"status": "ready"})


async def metrics(site: Site, call: Call) -> Response | Problem:
    """Figures for Prometheus."""
    return Response(site.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _changed(reply: object, name: str) -> Response | Problem:
    if not isinstance(reply, Changed):
        return _refused(reply)
    said = reply.said[0] if reply.said else "ok"
    return show({"name": name, "said": said}) if said == "ok" else Problem("no_such", f"{name}: {said}")


def _refused(reply: object) -> Problem:
    if isinstance(reply, Problem):
        return reply
    raise TypeError(f"control answered {type(reply).__name__} to a change")
