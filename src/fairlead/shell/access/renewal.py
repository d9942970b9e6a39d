"""Whether a certificate may be replaced by a younger one: it is ours, not too old, and for the same key.

Its holder need not prove that it holds the key: the next certificate is for that key again, so whoever shows
somebody else's certificate and request gets what is of no use without the key.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from fairlead.model.errors import Problem
from fairlead.shell.access.ca import DAY_MS, read_request
from fairlead.shell.access.peers import Peer, peer_of_certificate

# A machine that was off for a season comes back by itself; after that somebody has to want it back.
LATE_MS = 90 * DAY_MS
NEW_TOKEN = "fairlead token create --role agent   # then: fairlead agent --join … --token … --name NEW"


def renewable(authority_pem: str, certificate_pem: str, csr_pem: str, now_ms: int) -> Peer | Problem:
    """Whom the certificate names, when this request may have the next one."""
    authority = x509.load_pem_x509_certificate(authority_pem.encode())
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem.encode())
        certificate.verify_directly_issued_by(authority)
        peer = peer_of_certificate(certificate)
    except InvalidSignature:
        return not_renewed("it was not made by this site's authority")
    except (ValueError, TypeError, UnsupportedAlgorithm) as fault:
        return not_renewed(f"it is none of this site's: {fault}")
    if peer is None:
        return not_renewed("it names no role and number")
    late_ms = now_ms - int(certificate.not_valid_after_utc.timestamp() * 1000)
    if late_ms > LATE_MS:
        days = f"{late_ms // DAY_MS} days ago, and {LATE_MS // DAY_MS} are the most"
        return not_renewed(f"it expired {days}")
    request = read_request(csr_pem)
    if isinstance(request, Problem):
        return request
    if request.public_key() != certificate.public_key():
        return not_renewed("the request is for another key")
    return peer


def not_renewed(why: str, fix: str = NEW_TOKEN) -> Problem:
    """There is no next certificate for this one."""
    return Problem("not_renewed", "the certificate is not renewed", why, where="certificate", fix=fix)
