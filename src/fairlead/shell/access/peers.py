"""Who a certificate names: `fairlead://SITE/agent/7`, in its one URI.

The authority writes these names and everybody else only reads them, from a certificate or from what gRPC
tells of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cryptography import x509

ROLES = ("agent", "server", "front", "controller")
SERVING = ("server", "front")
_URI = re.compile(r"fairlead://([a-z0-9-]{1,63})/(agent|server|front|controller)/(0|[1-9]\d{0,18})", re.ASCII)


class Peer(NamedTuple):
    """A role and a number in it; the site is that of the authority which was trusted."""

    role: str
    number: int
    site: str

    @property
    def uri(self) -> str:
        """As it stands in a certificate."""
        return f"fairlead://{self.site}/{self.role}/{self.number}"


def server_name(site: str) -> str:
    """A name that every serving certificate of the site bears, by whatever address it is reached."""
    return f"server.{site}.fairlead"


def peer_of_uris(uris: Iterable[str]) -> Peer | None:
    """Who these URIs name; None unless exactly one of them is a name of ours."""
    found = [match for uri in uris if (match := _URI.fullmatch(uri))]
    return Peer(found[0][2], int(found[0][3]), found[0][1]) if len(found) == 1 else None


def peer_of_certificate(certificate: x509.Certificate) -> Peer | None:
    """Who a certificate names."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    return peer_of_uris(names.get_values_for_type(x509.UniformResourceIdentifier))


def peer_identity(auth_context: Mapping[str, Iterable[bytes]]) -> Peer | None:
    """Who is at the other end, from gRPC's account of a handshake that it verified."""
    names = auth_context.get("x509_subject_alternative_name") or ()
    return peer_of_uris(name.decode("ascii", "replace") for name in names)
