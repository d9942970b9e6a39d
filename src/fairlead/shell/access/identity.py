"""The identity of one machine: a key that never leaves it, its certificate, and the authority it trusts.

A folder `identity/` holds `key.pem`, `cert.pem` and `ca.pem`. The key is made before the first request and kept
at each renewal, so a crash between two writes never leaves a certificate without its key.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec import Struct

from fairlead.model.errors import Problem
from fairlead.shell.access import durable
from fairlead.shell.access.peers import Peer, peer_of_certificate

KEY, CERTIFICATE, AUTHORITY = "key.pem", "cert.pem", "ca.pem"


class Identity(Struct, frozen=True, gc=False):
    """What is shown and what is trusted in a handshake."""

    folder: Path
    peer: Peer
    key_pem: bytes
    certificate_pem: bytes
    authority_pem: bytes
    from_ms: int
    until_ms: int
    serial: int

    @property
    def renew_at_ms(self) -> int:
        """Two thirds through, and up to a twentieth later: machines that joined together part ways."""
        life = self.until_ms - self.from_ms
        return self.from_ms + life * 2 // 3 + life * (self.serial % 1000) // 20_000

    def __repr__(self) -> str:
        return f"Identity({self.peer.uri}, until_ms={self.until_ms})"

    def renewal_due(self, now_ms: int) -> bool:
        """Whether it is time to ask for the next certificate."""
        return now_ms >= self.renew_at_ms


def request(folder: Path, names: Iterable[str] = ()) -> str:
    """A certificate request, PEM, for the key of this folder; the key is made when there is none.

    `names` are the host names and addresses under which a server is reached.
    """
    key = _key_of(folder)
    builder = x509.CertificateSigningRequestBuilder()
    builder = builder.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fairlead")]))
    general = [_general_name(name) for name in dict.fromkeys(names)]
    if general:
        builder = builder.add_extension(x509.SubjectAlternativeName(general), critical=False)
    csr = builder.sign(key, hashes.SHA256())
    return csr.public_bytes(serialization.Encoding.PEM).decode()


def install(folder: Path, certificate_pem: str, authority_pem: str) -> Identity | Problem:
    """Keep a certificate that belongs to the key of this folder, with the authority that signed it."""
    made = _compose(folder, certificate_pem.encode(), authority_pem.encode())
    if isinstance(made, Problem):
        return made
    durable.replace(folder / AUTHORITY, made.authority_pem)
    durable.replace(folder / CERTIFICATE, made.certificate_pem)
    return made


def load(folder: Path) -> Identity | Problem:
    """The identity in this folder."""
    try:
        certificate, authority = (folder / CERTIFICATE).read_bytes(), (folder / AUTHORITY).read_bytes()
    except FileNotFoundError:
        return _problem(
            folder, "no_identity", "there is no identity", "this machine has not joined a site yet"
        )
    return _compose(folder, certificate, authority)


def _compose(folder: Path, certificate_pem: bytes, authority_pem: bytes) -> Identity | Problem:
    try:
        key_pem = (folder / KEY).read_bytes()
        key = serialization.load_pem_private_key(key_pem, None)
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        authority = x509.load_pem_x509_certificate(authority_pem)
        certificate.verify_directly_issued_by(authority)
    except FileNotFoundError:
        return _damaged(folder, "the key is missing")
    except InvalidSignature:
        return _damaged(folder, "the certificate is not signed by the authority beside it")
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        return _damaged(folder, f"a key or certificate cannot be read: {error}")
    peer = peer_of_certificate(certificate)
    if peer is None:
        return _damaged(folder, "the certificate names no role and number")
    if key.public_key() != certificate.public_key():
        return _damaged(folder, "the certificate belongs to another key")
    return Identity(
        folder,
        peer,
        key_pem,
        certificate_pem,
        authority_pem,
        int(certificate.not_valid_before_utc.timestamp() * 1000),
        int(certificate.not_valid_after_utc.timestamp() * 1000),
        certificate.serial_number,
    )


def _key_of(folder: Path) -> ec.EllipticCurvePrivateKey:
    path = folder / KEY
    if not path.exists():
        fresh = ec.generate_private_key(ec.SECP256R1())
        durable.create(
            path,
            fresh.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
            0o600,
        )
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise OSError(f"{path} is not a key that was made here")
    return key


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _damaged(folder: Path, why: str) -> Problem:
    return _problem(folder, "identity_damaged", "the identity is not usable", why)


def _problem(folder: Path, code: str, message: str, why: str) -> Problem:
    return Problem(
        code, message, why, where=str(folder), fix="join again with a new token: --join … --token …"
    )
