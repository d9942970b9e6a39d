"""The site's own authority: it makes every certificate of the site, and nobody else's is believed.

Decides what a certificate says and how long it holds. What a request asks for is ignored, but for its public
key, and the host names that a server asks for: role and number come from whoever checked the token. At rest
the authority is one value, encrypted by a key in the server's folder, so that the value may lie in a store
that others can read.
"""

from __future__ import annotations

import ipaddress
import secrets
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct, structs

from fairlead.model.errors import Problem
from fairlead.model.tokens import hash_of_ca
from fairlead.shell.access import durable
from fairlead.shell.access.peers import ROLES, SERVING, Peer, peer_of_uris, server_name

DAY_MS = 86_400_000
# A machine that is lost for good is shut out within a month; one that lives renews after twenty days.
LIFE_MS = 30 * DAY_MS
# Controllers are programs of strangers, who renew by hand.
CONTROLLER_LIFE_MS = 365 * DAY_MS
# Certificates count whole seconds.
SHORTEST_LIFE_MS = 2_000
_AUTHORITY_LIFE_MS = 3650 * DAY_MS
# Clocks of machines may be an hour apart; a certificate must hold on the one that is behind. A short one begins
# less early, or two thirds of its time would be over before it is made.
_EARLIER_MS = 2 * 3_600_000
_EARLIER_SHARE = 10

_WITHOUT = "without a backup of these keys the site has new ones, and every agent joins anew"
_MAGIC = b"FLAU\x01"
_NONCE = 12


class Issued(Struct, frozen=True, gc=False):
    """A certificate, its serial number, and when it ends."""

    pem: str
    serial: int
    until_ms: int


class _Kept(Struct, frozen=True, gc=False):
    """What is sealed."""

    site: str
    certificate: bytes
    key: bytes
    secret: bytes


class Authority:
    """Signs for one site. `secret` is the site's own, for what is checked by MAC."""

    def __init__(
        self, site: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, secret: bytes
    ) -> None:
        self.site = site
        self.secret = secret
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, site: str, now_ms: int) -> Authority:
        """A new authority, which nobody trusts yet."""
        if peer_of_uris([Peer("server", 0, site).uri]) is None:
            raise ValueError(f"no name of a site: {site!r}")
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Fairlead site {site}")])
        builder = _begin(name, name, key.public_key(), now_ms, now_ms + _AUTHORITY_LIFE_MS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        return cls(site, builder.sign(key, hashes.SHA256()), key, secrets.token_bytes(32))

    @classmethod
    def unseal(cls, value: bytes, folder_key: bytes) -> Authority | Problem:
        """The authority from its value at rest."""
        body = value[len(_MAGIC) :]
        if not value.startswith(_MAGIC) or len(body) < _NONCE:
            return _sealed_problem("it is not written as this release writes it")
        try:
            plain = AESGCM(folder_key).decrypt(body[:_NONCE], body[_NONCE:], _MAGIC)
            kept = msgspec.msgpack.decode(plain, type=_Kept)
            key = serialization.load_der_private_key(kept.key, None)
            certificate = x509.load_der_x509_certificate(kept.certificate)
        except InvalidTag:
            return _sealed_problem("the key in this server's folder does not open it")
        except (msgspec.DecodeError, ValueError, UnsupportedAlgorithm):
            return _sealed_problem("what it holds is damaged")
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            return _sealed_problem("what it holds is damaged")
        return cls(kept.site, certificate, key, kept.secret)

    def seal(self, folder_key: bytes) -> bytes:
        """The authority as a value that only `folder_key` opens."""
        key = self._key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        plain = msgspec.msgpack.encode(_Kept(self.site, self.der, key, self.secret))
        nonce = secrets.token_bytes(_NONCE)
        return _MAGIC + nonce + AESGCM(folder_key).encrypt(nonce, plain, _MAGIC)

    @property
    def der(self) -> bytes:
        """The authority's certificate."""
        return self._certificate.public_bytes(serialization.Encoding.DER)

    @property
    def pem(self) -> str:
        """The authority's certificate, as everybody may have it."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def hash(self) -> str:
        """What join tokens carry of it."""
        return hash_of_ca(self.der)

    def issue(
        self, csr_pem: str, role: str, number: int, now_ms: int, life_ms: int | None = None
    ) -> Issued | Problem:
        """A certificate for the key of this request, for a role and number that the caller has checked."""
        if role not in ROLES or number < 0:
            raise ValueError(f"no certificate is made for {role} {number}")
        request = read_request(csr_pem)
        if isinstance(request, Problem):
            return request
        public = request.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
            return _request_problem("its key is not one on the curve P-256")
        peer = Peer(role, number, self.site)
        life_ms = life_ms or (CONTROLLER_LIFE_MS if role == "controller" else LIFE_MS)
        until_ms = now_ms + max(life_ms, SHORTEST_LIFE_MS)
        until_ms = min(until_ms, _ms(self._certificate.not_valid_after_utc))
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{role}-{number}")])
        builder = _begin(name, self._certificate.subject, public, now_ms, until_ms)
        for extension, critical in self._extensions(peer, request, public):
            builder = builder.add_extension(extension, critical)
        certificate = builder.sign(self._key, hashes.SHA256())
        pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
        return Issued(pem, certificate.serial_number, until_ms)

    def _extensions(
        self, peer: Peer, request: x509.CertificateSigningRequest, public: ec.EllipticCurvePublicKey
    ) -> list[tuple[x509.ExtensionType, bool]]:
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(peer.uri)]
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if peer.role in SERVING:
            names += _serving_names(self.site, request)
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage(signs_certificates=False), True),
            (x509.ExtendedKeyUsage(purposes), False),
            (x509.SubjectAlternativeName(names), False),
            (x509.SubjectKeyIdentifier.from_public_key(public), False),
            (authority, False),
        ]


def folder_key(folder: Path) -> bytes | Problem:
    """The key in a server's folder that opens what the store keeps secret; made at the first start."""
    key = durable.create(folder / "site.key", secrets.token_bytes(32), 0o600)
    if len(key) != 32:
        path = folder / "site.key"
        why = f"it has {len(key)} bytes, not 32; {_WITHOUT}"
        return Problem("damaged", f"{path} is damaged", why, fix=_set_aside(folder))
    return key


def open_authority(folder: Path, site: str, now_ms: int) -> Authority | Problem:
    """The authority of a server that keeps it in its own folder; made at the first start."""
    key = folder_key(folder)
    if isinstance(key, Problem):
        return key
    path = folder / "authority"
    value = path.read_bytes() if path.exists() else None
    if value is None:
        value = durable.create(path, Authority.create(site, now_ms).seal(key), 0o600)
    found = Authority.unseal(value, key)
    if isinstance(found, Problem):
        why = f"{found.why}; {_WITHOUT}"
        return structs.replace(found, why=why, where=str(path), fix=_set_aside(folder))
    return found


def _set_aside(folder: Path) -> str:
    """A line that leaves the next start to make keys anew."""
    now, then = (shlex.quote(f"{folder}{tail}") for tail in ("", f".damaged-{secrets.token_hex(2)}"))
    return f"mv {now} {then}"


def _begin(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now_ms: int, until_ms: int
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    earlier_ms = min(_EARLIER_MS, (until_ms - now_ms) // _EARLIER_SHARE)
    return builder.not_valid_before(_instant(now_ms - earlier_ms)).not_valid_after(_instant(until_ms))


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def read_request(csr_pem: str) -> x509.CertificateSigningRequest | Problem:
    """A request that was signed by its own key."""
    try:
        request = x509.load_pem_x509_csr(csr_pem.encode())
        sound = request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm, UnicodeEncodeError):
        return _request_problem("it cannot be read")
    return request if sound else _request_problem("it is not signed by its own key")


def _serving_names(site: str, request: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    """What every server is called, then what this one says it is called."""
    loopback = (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"))
    names: list[x509.GeneralName] = [x509.DNSName(server_name(site)), x509.DNSName("localhost")]
    names += [x509.IPAddress(address) for address in loopback]
    try:
        asked = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return names
    own = (name for name in asked if isinstance(name, x509.DNSName | x509.IPAddress))
    return list(dict.fromkeys([*names, *own]))


def _instant(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def _ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)


def _request_problem(why: str) -> Problem:
    return Problem("bad_request", "the certificate request is not usable", why, where="csr")


def _sealed_problem(why: str) -> Problem:
    return Problem(
        "authority_sealed",
        "the site's authority cannot be opened",
        why,
    )
