"""Joins a machine to a site: presents a token and a certificate request, and is given a name and certificates.

A site elsewhere is asked for its authority first, and believed only when the token carries its hash; the
secret is said to nobody before that. On loopback the server speaks plain HTTP.
"""

from __future__ import annotations

import http.client
import ipaddress
import ssl
import sys
import time
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct

from fairlead.model.errors import Problem
from fairlead.model.tokens import JoinToken, read_join
from fairlead.shell.access.tls import https_client, https_stranger

DEFAULT_PORT = 7410
PATIENCE_S = 60.0
RETRY_S = 0.5
SAY_S = 10.0


class Member(Struct, frozen=True):
    """One machine as the site knows it."""

    number: int
    name: str
    certificate: str


class Joined(Struct, frozen=True):
    """What a site answers to a join."""

    number: int
    name: str
    certificate: str
    ca: str
    site: str
    control: list[str] = []
    output: list[str] = []
    agents: list[Member] = []
    # What a new server gets beside its certificate.
    server: dict[str, str] = {}

    @property
    def members(self) -> list[Member]:
        """Every machine that joined with this call."""
        return self.agents or [Member(self.number, self.name, self.certificate)]


class Asking(Struct, frozen=True, omit_defaults=True):
    """What a machine says when it joins."""

    token: str
    csr: str
    name: str = ""
    labels: list[str] = []
    count: int = 1
    role: str = "agent"


def join(addresses: Sequence[str], asking: Asking, timeout_s: float = 600.0) -> Joined | Problem:
    """Ask one address after the other until one answers, for a minute."""
    token = read_join(asking.token)
    if isinstance(token, Problem):
        return token
    urls = [url_of(address) for address in addresses]
    if not urls:
        return Problem("no_address", "where to join?", fix="fairlead agent --join HOST:PORT --token TOKEN")
    end = time.monotonic() + PATIENCE_S
    said: float | None = None
    while True:
        for url in urls:
            answer = _join_at(url, token, asking, timeout_s)
            if isinstance(answer, Joined) or not answer.retryable:
                return answer
        if time.monotonic() > end:
            return answer
        if said is None or time.monotonic() - said >= SAY_S:
            said = time.monotonic()
            print(f"waiting for a server at {', '.join(addresses)}", file=sys.stderr, flush=True)
        time.sleep(RETRY_S)


def _join_at(url: SplitResult, token: JoinToken, asking: Asking, timeout_s: float) -> Joined | Problem:
    context = None
    if url.scheme == "https":
        found = ask_site(url, "GET", "/v1/authority", b"", https_stranger(), 10.0)
        authority = found if isinstance(found, Problem) else found.decode("ascii", "replace")
        if isinstance(authority, Problem):
            return authority
        if not _trusts(token, authority):
            return _stranger(url)
        context = https_client(authority)
    elif not _is_loopback(url.hostname or ""):
        return Problem(
            "not_encrypted",
            f"{url.geturl()}: a token is said in the clear only on this machine itself",
            where="--join",
            fix=f"--join https://{url.netloc}",
        )
    answer = ask_site(url, "POST", "/v1/join", msgspec.json.encode(asking), context, timeout_s)
    if isinstance(answer, Problem):
        return answer
    try:
        joined = msgspec.json.decode(answer, type=Joined)
    except msgspec.MsgspecError as fault:
        return Problem("malformed_answer", f"{url.geturl()} is no site of ours", why=str(fault))
    return joined if _trusts(token, joined.ca) else _stranger(url)


def ask_site(
    url: SplitResult, method: str, path: str, body: bytes, context: ssl.SSLContext | None, timeout_s: float
) -> bytes | Problem:
    """One request; the body of a good answer, else the site's own problem, or that nobody answered."""
    host, port = url.hostname or "", url.port or DEFAULT_PORT
    connection = (
        http.client.HTTPConnection(host, port, timeout=timeout_s)
        if context is None
        else http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    )
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
    except (OSError, http.client.HTTPException) as fault:
        return Problem("unreachable", f"{url.geturl()} does not answer", why=str(fault), retryable=True)
    finally:
        connection.close()
    if response.status < 300:
        return data
    try:
        said = msgspec.json.decode(data, type=_Refusal)
    except msgspec.MsgspecError:
        said = _Refusal()
    message = said.message or f"{url.geturl()} answered {response.status}"
    return Problem(said.code, message, said.why, said.where, said.fix, said.retryable)


class _Refusal(Struct, frozen=True):
    """A problem as the site writes it."""

    code: str = "refused"
    message: str = ""
    why: str = ""
    where: str = ""
    fix: str = ""
    retryable: bool = False


def url_of(address: str) -> SplitResult:
    """`HOST:PORT` is plain on loopback and HTTPS elsewhere."""
    if "://" in address:
        return urlsplit(address)
    host = urlsplit(f"//{address}").hostname or ""
    return urlsplit(f"{'http' if _is_loopback(host) else 'https'}://{address}")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _trusts(token: JoinToken, authority: str) -> bool:
    try:
        return token.trusts(ssl.PEM_cert_to_DER_cert(authority))
    except ValueError:
        return False


def _stranger(url: SplitResult) -> Problem:
    return Problem(
        "wrong_site",
        f"{url.geturl()} is not the site that made this token",
        why="the hash in the token is not that of its authority",
        where="--token",
        fix="fairlead token create --role agent   # on a server of that site",
    )
