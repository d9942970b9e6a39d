"""What every handler works with: the link to control, the output, the feed, and where this site is reached."""

from __future__ import annotations

import itertools
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from fairlead.model.blocks import Expand
from fairlead.model.errors import Problem
from fairlead.model.requests import Elsewhere, Reply, Request, Seen

from .access import Access, unreachable
from .intake import Intake
from .link import Blobs, ControlLink, Prove, Sign
from .logs import Logs
from .metrics import Metrics
from .waiting import Feed

LOOK_MS = 10_000
# How long a change is held while control is down or moving.
CHANGE_MS = 30_000


def _prove_nothing(certificate: str, csr: str) -> Problem:
    return Problem("not_renewed", "this front renews no certificates", where="certificate")


@dataclass(frozen=True, slots=True)
class Options:
    """Where a front listens and what it tells of its site. Certificates are PEM texts, addresses HOST:PORT."""

    host: str = "127.0.0.1"
    port: int = 7410
    socket: str = ""
    # The certificate of the site's authority.
    authority: str = ""
    # Files with this server's certificate and key; without them HTTP is plain, and only on loopback.
    certificate: str = ""
    key: str = ""
    control: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    version: str = ""
    # What another server of the site needs to be one: told to who joins with a token of role `server`.
    share: Callable[[], dict[str, str]] = dict
    # Whose certificate may be renewed.
    prove: Prove = _prove_nothing

    @property
    def authority_der(self) -> bytes:
        """The same certificate as bytes, of which join tokens carry a hash."""
        return ssl.PEM_cert_to_DER_cert(self.authority)


@dataclass(slots=True)
class Site:
    """One front at work."""

    options: Options
    link: ControlLink
    sign: Sign
    logs: Logs
    intake: Intake
    feed: Feed
    access: Access
    metrics: Metrics
    boot: str
    # Where HTTP listens, once it does.
    port: int = 0
    # What HTTPS shows, where it is spoken.
    secure: ssl.SSLContext | None = None
    followers: int = 0
    stopping: bool = False
    _keys: itertools.count[int] = field(default_factory=itertools.count)

    async def ask(self, request: Request, timeout_ms: int = LOOK_MS) -> Reply:
        """Control's answer; whatever went wrong on the way is a Problem."""
        try:
            reply = await self.link.ask(request, timeout_ms)
        except (TimeoutError, OSError) as fault:
            return unreachable(fault)
        if isinstance(reply, Elsewhere):
            return unreachable(ConnectionError("the lead of the control plane is moving"))
        return reply

    async def see(self, request: Request, what: str) -> Seen | Problem:
        """The answer to a look."""
        reply = await self.ask(request)
        if isinstance(reply, Seen | Problem):
            return reply
        raise TypeError(f"control answered {type(reply).__name__} to {what}")

    def show_certificate(self) -> None:
        """The files of the certificate are new: whoever connects from now on sees it."""
        if self.secure is not None:
            self.secure.load_cert_chain(self.options.certificate, self.options.key)

    def new_key(self) -> str:
        """An idempotency key for a change that came without one."""
        return f"{self.boot}-{next(self._keys)}"


def assemble(options: Options, link: ControlLink, blobs: Blobs, expand: Expand, sign: Sign) -> Site:
    """A front of these parts, under a new boot id."""
    boot = secrets.token_hex(8)
    logs = Logs(boot, blobs, expand)
    intake = Intake(boot, blobs, logs, expand)
    feed = Feed(link)
    metrics = Metrics()
    site = Site(options, link, sign, logs, intake, feed, Access(link), metrics, boot)
    metrics.watch(intake, logs, feed, lambda: site.followers)
    return site
