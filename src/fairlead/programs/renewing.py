"""Keeps a process's certificate young: asks for the next one at two thirds of its life, while running and at start.

Where the next one comes from differs: an agent asks the site over HTTP, a server asks the authority it holds,
and a front looks what its server has put into the folder. Who shows the identity asks for it at each handshake,
so nothing has to be restarted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from fairlead.model.errors import Problem
from fairlead.programs.joining import ask_site, url_of
from fairlead.shell.access.ca import Authority
from fairlead.shell.access.identity import Identity, install, load, request
from fairlead.shell.access.tls import https_client

LOG = logging.getLogger("fairlead.identity")
ASK_S = 15.0
# What failed is tried again after this share of a certificate's life, but an hour is the longest wait: a
# machine that slept notices its date no later.
TRY_SHARE = 200
SHORTEST_S, LONGEST_S = 0.25, 3600.0

Next = Callable[[Identity], Identity | Problem | None]
"""The next identity for this one; None: there is none yet, and that is nobody's fault."""


class Renewing:
    """The identity that is shown now."""

    def __init__(
        self, identity: Identity, following: Next, renewed: Callable[[], None] | None = None
    ) -> None:
        self._identity = identity
        self._following = following
        self._renewed = renewed

    def current(self) -> Identity:
        """What to show; asked from any thread."""
        return self._identity

    async def run(self) -> None:
        """Renew whenever it is due, until cancelled."""
        while True:
            due_s = (self._identity.renew_at_ms - _now_ms()) / 1000
            await asyncio.sleep(min(max(due_s, 0.0), LONGEST_S))
            if self._identity.renewal_due(_now_ms()) and not await self._renew():
                await asyncio.sleep(self._pause_s())

    async def _renew(self) -> bool:
        try:
            found = await asyncio.to_thread(self._following, self._identity)
        except OSError as fault:
            LOG.warning("the certificate is not renewed: %s", fault)
            return False
        if isinstance(found, Problem):
            LOG.warning("%s: %s", found.message, found.why)
        if not isinstance(found, Identity):
            return False
        self._identity = found
        LOG.info("the certificate of %s is renewed", found.peer.uri)
        if self._renewed is not None:
            self._renewed()
        return True

    def _pause_s(self) -> float:
        life_s = (self._identity.until_ms - self._identity.from_ms) / 1000
        return min(max(life_s / TRY_SHARE, SHORTEST_S), LONGEST_S)


def renew_at_start(identity: Identity, following: Next) -> Identity | Problem:
    """What to begin with: renewed when it is due, as it is while it holds, else why nothing can be done.

    A site that does not answer is no reason: the machine's work goes on, and it is asked again later.
    """
    now_ms = _now_ms()
    found = following(identity) if identity.renewal_due(now_ms) else identity
    if isinstance(found, Identity):
        return found
    if found is not None and now_ms >= identity.until_ms and not found.retryable:
        return found
    if found is not None:
        LOG.warning("%s: %s", found.message, found.why)
    return identity


class Renewed(Struct, frozen=True):
    """What a site answers."""

    certificate: str
    ca: str
    control: list[str] = []
    output: list[str] = []


class _Asking(Struct, frozen=True):
    """What an agent says."""

    certificate: str
    csr: str


def from_site(addresses: Sequence[str]) -> Next:
    """Ask one server after the other; the last problem when none of them gives one."""

    def ask(identity: Identity) -> Identity | Problem:
        answer = where_now(addresses, identity)
        if isinstance(answer, Problem):
            return answer
        # What is trusted does not change, whoever answered.
        return install(identity.folder, answer.certificate, identity.authority_pem.decode())

    return ask


def where_now(addresses: Sequence[str], identity: Identity) -> Renewed | Problem:
    """What the first that answers says: the next certificate, and where control and fronts are."""
    asking = _Asking(identity.certificate_pem.decode(), request(identity.folder))
    answer: Renewed | Problem = NO_ADDRESS
    for address in addresses:
        answer = _ask_at(address, identity, msgspec.json.encode(asking))
        if isinstance(answer, Renewed):
            break
    return answer


def _ask_at(address: str, identity: Identity, body: bytes) -> Renewed | Problem:
    url = url_of(address)
    context = https_client(identity.authority_pem.decode()) if url.scheme == "https" else None
    answer = ask_site(url, "POST", "/v1/renew", body, context, ASK_S)
    if isinstance(answer, Problem):
        return answer
    try:
        return msgspec.json.decode(answer, type=Renewed)
    except msgspec.MsgspecError as fault:
        return Problem("malformed_answer", f"{url.geturl()} is no site of ours", why=str(fault))


def from_authority(authority: Authority, host: str, life_ms: int) -> Next:
    """A server's own, by the authority that it holds."""

    def issue(identity: Identity) -> Identity | Problem:
        return issue_own(authority, identity.folder, host, life_ms)

    return issue


def issue_own(authority: Authority, folder: Path, host: str, life_ms: int) -> Identity | Problem:
    """The certificate of the server whose folder this is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    issued = authority.issue(request(folder, [host]), "server", 1, _now_ms(), life_ms)
    return issued if isinstance(issued, Problem) else install(folder, issued.pem, authority.pem)


def from_folder(identity: Identity) -> Identity | Problem | None:
    """What another process has put into the folder since."""
    found = load(identity.folder)
    return None if isinstance(found, Identity) and found.serial == identity.serial else found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


NO_ADDRESS = Problem(
    "no_address",
    "no address of the site is known",
    "this folder was made by a release that did not keep one",
    where="--join",
    fix="start it once with --join HOST:PORT",
)
