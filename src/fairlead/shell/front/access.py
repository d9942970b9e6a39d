"""Who asks, and whether that role may: bearer tokens on TCP, the local administrator on the UNIX socket.

Only the digest of a token's secret leaves this process; control says what it stands for, and that is believed
for 5 s.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict

from fairlead.model.errors import Problem
from fairlead.model.requests import Check, Principal, Reply
from fairlead.model.tokens import (
    ID_BYTES,
    SECRET_BYTES,
    BearerToken,
    JoinToken,
    bearer_token,
    digest_of,
    join_token,
    read_bearer,
)

from .link import ControlLink

BELIEVED_S = 5.0
# Answers kept; strangers who try tokens push each other out, not more.
KEPT = 10_000
ASK_MS = 5_000

# What each role may do: all that the roles before it may. A role that is not here opens no route.
RANKS: dict[str, int] = {"view": 1, "submit": 2, "operator": 3, "admin": 4}
# Roles for which a token can be made, with how long and how often it is good where nobody says otherwise.
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
TOKEN_ROLES: dict[str, tuple[int, int]] = {
    "agent": (10 * MINUTE_MS, 1),
    "server": (10 * MINUTE_MS, 1),
    "controller": (30 * DAY_MS, -1),
    "view": (30 * DAY_MS, -1),
    "submit": (30 * DAY_MS, -1),
    "operator": (30 * DAY_MS, -1),
    "admin": (30 * DAY_MS, -1),
}
# With these a machine or a program joins; they open no route.
JOINING = frozenset({"agent", "server", "controller"})
LOCAL = Principal("admin", "")


def new_token(role: str, authority_der: bytes) -> BearerToken | JoinToken:
    """A token that nobody can guess; one by which a machine joins also names the site."""
    random = secrets.token_bytes(ID_BYTES), secrets.token_bytes(SECRET_BYTES)
    if role in JOINING:
        return join_token(*random, authority_der)
    return bearer_token(*random)


def may(principal: Principal, role: str) -> bool:
    """Whether somebody may do what asks for that role; no role at all is for everybody."""
    return not role or RANKS.get(principal.role, 0) >= RANKS[role]


NO_TOKEN = Problem(
    "no_token",
    "this address wants a token",
    why="only the UNIX socket in the server's folder serves without one",
    fix="send the header `Authorization: Bearer TOKEN`; `fairlead token create --role view` makes one",
)
BAD_TOKEN = Problem("bad_token", "the token is not known here, or no longer", fix="fairlead token create")


class Access:
    """Asks control what tokens stand for, and remembers it for a moment."""

    def __init__(self, link: ControlLink) -> None:
        self._link = link
        self._known: OrderedDict[tuple[str, str], tuple[float, Principal | Problem]] = OrderedDict()
        self._asking: dict[tuple[str, str], asyncio.Lock] = {}

    async def who(self, authorization: str) -> tuple[str, Principal] | Problem:
        """The id of the token in an Authorization header, and what it stands for."""
        kind, _, text = authorization.partition(" ")
        if not authorization:
            return NO_TOKEN
        if kind.lower() != "bearer":
            return NO_TOKEN
        token = read_bearer(text)
        if isinstance(token, Problem):
            return token
        answer = await self._check(token.id, digest_of(token.secret))
        return answer if isinstance(answer, Problem) else (token.id, answer)

    def forget(self, token: str) -> None:
        """A token was revoked through this front: it opens nothing from now on."""
        for key in [key for key in self._known if key[0] == token]:
            del self._known[key]

    async def _check(self, token: str, digest: str) -> Principal | Problem:
        key = (token, digest)
        asking = self._asking.setdefault(key, asyncio.Lock())
        try:
            async with asking:
                known = self._known.get(key)
                if known is not None and known[0] >= time.monotonic():
                    return known[1]
                answer = _judge(await _ask(self._link, Check(token, digest)))
                if not (isinstance(answer, Problem) and answer.retryable):
                    self._keep(key, answer)
                return answer
        finally:
            self._asking.pop(key, None)

    def _keep(self, key: tuple[str, str], answer: Principal | Problem) -> None:
        self._known[key] = (time.monotonic() + BELIEVED_S, answer)
        self._known.move_to_end(key)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)


async def _ask(link: ControlLink, request: Check) -> Reply:
    try:
        return await link.ask(request, ASK_MS)
    except (TimeoutError, ConnectionError) as fault:
        return unreachable(fault)


def unreachable(fault: BaseException) -> Problem:
    """Control was not reached in time; whether a change was made is not known."""
    return Problem(
        "unavailable",
        "no control plane answered in time",
        why=str(fault) or "it may be starting, or a new leader is being found",
        fix="try again with the same Idempotency-Key: it will be done once",
        retryable=True,
        retry_after_ms=1_000,
    )


def _judge(reply: Reply) -> Principal | Problem:
    if isinstance(reply, Principal):
        return reply
    if isinstance(reply, Problem):
        return reply if reply.retryable else BAD_TOKEN
    return unreachable(TimeoutError())
