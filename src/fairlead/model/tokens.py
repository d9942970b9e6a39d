"""Tokens as text: what opens a door, how it is read, and what of it may be kept.

Decides the shapes of two tokens and nothing about what they allow. A *join token* carries the hash of the
site's certificate, so a machine that joins trusts no stranger; a *bearer token* is for callers of the API; of
both only a digest of the secret is stored. Secrets are 160 random bits, so a plain digest of one tells
nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

from msgspec import Struct

from fairlead.model.errors import Problem

# No sign that a shell or a URL would take for its own. We make base 32 alone; more is read, so that a later
# release may make longer ones.
_ID = r"[a-z0-9]{8,16}"
_SECRET = r"[A-Za-z0-9_-]{32,64}"
_HASH = r"[a-z2-7]{32}"
_BEARER = re.compile(rf"({_ID})\.({_SECRET})", re.ASCII)
_JOIN = re.compile(rf"({_ID})\.({_SECRET})\.({_HASH})", re.ASCII)

ID_BYTES = 5
SECRET_BYTES = 20


class BearerToken(Struct, frozen=True, gc=False):
    """`id.secret`: what a caller of the API shows."""

    id: str
    secret: str

    @property
    def text(self) -> str:
        """What is given to its owner, once."""
        return f"{self.id}.{self.secret}"

    def __repr__(self) -> str:
        return f"BearerToken({self.id})"


class JoinToken(Struct, frozen=True, gc=False):
    """`id.secret.hash-of-CA`: what a machine shows when it joins, and what it checks the site by."""

    id: str
    secret: str
    ca_hash: str

    @property
    def text(self) -> str:
        """What is given to its owner, once."""
        return f"{self.id}.{self.secret}.{self.ca_hash}"

    def __repr__(self) -> str:
        return f"JoinToken({self.id})"

    def trusts(self, ca_der: bytes) -> bool:
        """Whether this certificate is that of the site which made the token."""
        return hmac.compare_digest(hash_of_ca(ca_der), self.ca_hash)


def base32(data: bytes) -> str:
    """Five bits a letter, small letters, no padding."""
    return base64.b32encode(data).decode().lower().rstrip("=")


def bearer_token(id_bytes: bytes, secret_bytes: bytes) -> BearerToken:
    """A token of random bytes: ID_BYTES and SECRET_BYTES of them."""
    return BearerToken(*_spelled(id_bytes, secret_bytes))


def join_token(id_bytes: bytes, secret_bytes: bytes, ca_der: bytes) -> JoinToken:
    """A token of random bytes for the site with this certificate."""
    return JoinToken(*_spelled(id_bytes, secret_bytes), hash_of_ca(ca_der))


def hash_of_ca(ca_der: bytes) -> str:
    """The first 160 bits of the sha256 of a certificate: enough that nobody finds a second one."""
    return base32(hashlib.sha256(ca_der).digest()[:SECRET_BYTES])


def digest_of(secret: str) -> str:
    """What is stored of a secret: the sha256 of its text, in hex."""
    return hashlib.sha256(secret.encode()).hexdigest()


def opens(secret: str, digest: str) -> bool:
    """Whether a shown secret is the one with this digest, in a time that tells nothing about either."""
    return hmac.compare_digest(digest_of(secret).encode(), digest.encode())


def read_bearer(text: str) -> BearerToken | Problem:
    """A bearer token from its text; the refusal never repeats the text, which may be a secret."""
    found = _BEARER.fullmatch(text.strip())
    if found:
        return BearerToken(found[1], found[2])
    if _JOIN.fullmatch(text.strip()):
        return _refusal(
            "this token is for joining", "a machine joins with it; the API takes another kind", "submit"
        )
    return _refusal(
        "this is not a token", "a token is two parts of letters and digits with a dot between", "submit"
    )


def read_join(text: str) -> JoinToken | Problem:
    """A join token from its text; the refusal never repeats the text, which may be a secret."""
    found = _JOIN.fullmatch(text.strip())
    if found:
        return JoinToken(found[1], found[2], found[3])
    if _BEARER.fullmatch(text.strip()):
        return _refusal(
            "this token is not for joining", "it lacks the third part, by which the site is known", "agent"
        )
    return _refusal("this is not a join token", "a join token is three parts of letters and digits", "agent")


def _spelled(id_bytes: bytes, secret_bytes: bytes) -> tuple[str, str]:
    if len(id_bytes) != ID_BYTES or len(secret_bytes) != SECRET_BYTES:
        raise ValueError("a token is made of 5 and 20 random bytes")
    return base32(id_bytes), base32(secret_bytes)


def _refusal(message: str, why: str, role: str) -> Problem:
    return Problem("bad_token", message, why, fix=f"fairlead token create --role {role}")
