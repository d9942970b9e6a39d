from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.unit.shell.access.made_site import NOW, issued

from fairlead.model.errors import Problem
from fairlead.shell.access import identity
from fairlead.shell.access.ca import DAY_MS, Authority, folder_key, open_authority


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("lab", NOW)


def names_in(pem: str) -> x509.SubjectAlternativeName:
    certificate = x509.load_pem_x509_certificate(pem.encode())
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


@pytest.mark.parametrize(
    ("role", "days"), [("agent", 30), ("server", 30), ("front", 30), ("controller", 365)]
)
def test_a_certificate_says_who_and_for_how_long(
    authority: Authority, tmp_path: Path, role: str, days: int
) -> None:
    made = issued(authority, tmp_path, role, 7)
    certificate = x509.load_pem_x509_certificate(made.pem.encode())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.pem.encode()))
    assert names_in(made.pem).get_values_for_type(x509.UniformResourceIdentifier) == [
        f"fairlead://lab/{role}/7"
    ]
    assert made.until_ms == NOW + days * DAY_MS
    assert made.serial == certificate.serial_number
    assert abs(certificate.not_valid_after_utc.timestamp() * 1000 - made.until_ms) < 1000


def test_only_those_who_serve_are_named_as_servers(authority: Authority, tmp_path: Path) -> None:
    asked = ("build.example", "192.0.2.7")
    server = issued(authority, tmp_path, "server", 1, names=asked)
    agent = issued(authority, tmp_path, "agent", 1, names=asked)
    dns = names_in(server.pem).get_values_for_type(x509.DNSName)
    addresses = [str(address) for address in names_in(server.pem).get_values_for_type(x509.IPAddress)]
    assert dns == ["server.lab.fairlead", "localhost", "build.example"]
    assert addresses == ["127.0.0.1", "::1", "192.0.2.7"]
    assert names_in(agent.pem).get_values_for_type(x509.DNSName) == []
    usage = x509.load_pem_x509_certificate(agent.pem.encode()).extensions.get_extension_for_class(
        x509.ExtendedKeyUsage
    )
    assert list(usage.value) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_a_request_cannot_ask_for_a_name_of_ours(authority: Authority) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    wish = x509.SubjectAlternativeName([x509.UniformResourceIdentifier("fairlead://lab/server/1")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server-1")])
    )
    csr = builder.add_extension(wish, critical=False).sign(key, hashes.SHA256())
    for role in ("agent", "server"):
        made = authority.issue(csr.public_bytes(serialization.Encoding.PEM).decode(), role, 3, NOW)
        assert not isinstance(made, Problem)
        assert names_in(made.pem).get_values_for_type(x509.UniformResourceIdentifier) == [
            f"fairlead://lab/{role}/3"
        ]


@pytest.mark.parametrize("text", ["", "no request", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n", "\ud800"])
def test_what_is_no_request_is_refused(authority: Authority, text: str) -> None:
    refusal = authority.issue(text, "agent", 1, NOW)
    assert isinstance(refusal, Problem)
    assert refusal.code == "bad_request"


@pytest.mark.parametrize("kind", ["rsa", "ed25519", "p384"])
def test_a_request_with_another_kind_of_key_is_refused(authority: Authority, kind: str) -> None:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    if kind == "rsa":
        csr = builder.sign(rsa.generate_private_key(65537, 2048), hashes.SHA256())
    elif kind == "p384":
        csr = builder.sign(ec.generate_private_key(ec.SECP384R1()), hashes.SHA256())
    else:
        csr = builder.sign(ed25519.Ed25519PrivateKey.generate(), None)
    refusal = authority.issue(csr.public_bytes(serialization.Encoding.PEM).decode(), "agent", 1, NOW)
    assert isinstance(refusal, Problem)
    assert "P-256" in refusal.why


def test_a_request_that_was_changed_after_signing_is_refused(authority: Authority, tmp_path: Path) -> None:
    csr = x509.load_pem_x509_csr(identity.request(tmp_path, ["aaaa.example"]).encode())
    der = csr.public_bytes(serialization.Encoding.DER).replace(b"aaaa.example", b"bbbb.example")
    changed = x509.load_der_x509_csr(der).public_bytes(serialization.Encoding.PEM).decode()
    assert isinstance(authority.issue(changed, "server", 1, NOW), Problem)


def test_a_role_that_does_not_exist_is_a_bug_of_the_caller(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no certificate"):
        authority.issue(identity.request(tmp_path), "admin", 1, NOW)
    with pytest.raises(ValueError, match="no name of a site"):
        Authority.create("Lab/../x", NOW)


def test_the_value_at_rest_opens_with_its_key_alone(authority: Authority) -> None:
    value = authority.seal(bytes(32))
    again = Authority.unseal(value, bytes(32))
    assert isinstance(again, Authority)
    assert (again.pem, again.secret, again.site) == (authority.pem, authority.secret, "lab")
    assert isinstance(Authority.unseal(value, b"\1" * 32), Problem)
    for damaged in (
        b"",
        value[:10],
        value[:-1],
        value[:-1] + bytes([value[-1] ^ 1]),
        b"FLAU\x02" + value[5:],
    ):
        assert isinstance(Authority.unseal(damaged, bytes(32)), Problem)
    assert authority.secret not in value
    assert authority.der not in value


def test_the_first_start_makes_one_authority_however_many_start_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: open_authority(tmp_path / "keys", "lab", NOW), range(8)))
    assert len({one.pem for one in made if isinstance(one, Authority)}) == 1
    assert not any(isinstance(one, Problem) for one in made)
    assert {path.name for path in (tmp_path / "keys").iterdir()} == {"site.key", "authority"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (tmp_path / "keys").iterdir())


def test_a_server_that_lost_its_key_says_so(tmp_path: Path) -> None:
    open_authority(tmp_path, "lab", NOW)
    (tmp_path / "site.key").unlink()
    refusal = open_authority(tmp_path, "lab", NOW)
    assert isinstance(refusal, Problem)
    assert refusal.code == "authority_sealed"
    (tmp_path / "site.key").write_bytes(b"short")
    short = folder_key(tmp_path)
    assert isinstance(short, Problem)
    assert short.code == "damaged" and "5 bytes" in short.why
