from __future__ import annotations

import asyncio
import datetime
import os
import socket
import ssl
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.unit.shell.front.harness import MemoryControl, Stream, blocks, run, running, sign

from fairlead.model.blocks import Row
from fairlead.model.errors import Problem
from fairlead.shell.blobs.codec import expand
from fairlead.shell.blobs.folder import FolderBlobs
from fairlead.shell.front.openapi import as_table, describe
from fairlead.shell.front.routes import ROUTES
from fairlead.shell.front.server import open_doors, serve, short_path
from fairlead.shell.front.site import Options
from fairlead.shell.front.table import KINDS

ROOT = Path(__file__).parents[4]


def test_a_taken_port_is_said_with_the_flag_that_changes_it(tmp_path: Path) -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            options = Options(port=taken.getsockname()[1])
            blobs = FolderBlobs(tmp_path)
            refused = await serve(
                options, MemoryControl(), blobs, expand, sign, asyncio.Event(), lambda site: None
            )
        assert refused is not None
        assert refused.code == "port_taken"
        assert str(options.port) in refused.message and "--listen" in refused.fix

    run(work)


def test_plain_http_is_served_on_loopback_only() -> None:
    refused = open_doors(Options(host="0.0.0.0", port=0))
    assert isinstance(refused, Problem) and refused.code == "plain_http"


def test_a_host_that_is_not_this_machine_is_said() -> None:
    refused = open_doors(Options(host="192.0.2.1", port=0, certificate="c", key="k"))
    assert isinstance(refused, Problem) and refused.code == "bad_address"


def test_only_its_owner_may_open_the_unix_socket(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            assert stat.S_IMODE(os.stat(front.socket).st_mode) == 0o600
        assert not os.path.exists(front.socket)

    run(work)


def test_a_socket_left_by_a_front_that_died_is_replaced(tmp_path: Path) -> None:
    async def work() -> None:
        left = socket.socket(socket.AF_UNIX)
        with short_path(str(tmp_path / "api.sock")) as short:
            left.bind(short)
        left.close()
        async with running(tmp_path) as front:
            assert (await front.call("GET", "/healthz")).status == 200

    run(work)


def test_a_second_front_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            refused = open_doors(Options(port=0, socket=front.socket))
            assert isinstance(refused, Problem) and refused.code == "already_running"
            assert (await front.call("GET", "/healthz")).status == 200

    run(work)


def test_a_socket_deeper_than_an_address_is_long_is_served_too(tmp_path: Path) -> None:
    async def work() -> None:
        deep = tmp_path / ("d" * 100) / ("e" * 100)
        deep.mkdir(parents=True)
        async with running(deep) as front:
            with short_path(front.socket) as short:
                reader, writer = await asyncio.open_unix_connection(short)
            writer.write(
                b"GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            )
            stream = Stream(reader, writer)
            await stream.begin()
            assert stream.status == 200
            writer.close()
        assert not (deep / "api.sock").exists()

    run(work)


def test_a_store_that_is_down_is_told_and_not_a_fault(tmp_path: Path) -> None:
    class Down(FolderBlobs):
        broken = False

        def list(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
            if self.broken:
                raise OSError("stale handle")
            return super().list(prefix, after, limit)

    async def work() -> None:
        blobs = Down(tmp_path / "blobs")
        async with running(tmp_path, blobs=blobs) as front:
            front.control.instance(1, 0, state="running", attempt=1, term=1)
            await front.site.intake.take(1, blocks(Row(1, 0, 1, 1, 0, 0, b"x"))[0])
            blobs.broken = True
            answer = await front.call("GET", "/v1/jobs/j-1/instances/0/logs")
            assert (answer.status, answer.json["code"], answer.json["retryable"]) == (
                503,
                "unavailable",
                True,
            )

    run(work)


def test_the_openapi_document_is_the_table_that_serves(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            document = (await front.call("GET", "/openapi.json", tcp=True)).json
        told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
        assert told == {(route.method, route.path) for route in ROUTES}
        for route in ROUTES:
            operation = document["paths"][route.path][route.method.lower()]
            names = {parameter["name"] for parameter in operation["parameters"]}
            assert names == {*route.places, *(parameter.name for parameter in route.query)}
            assert operation["x-role"] == (route.role or "none")
        operations = [
            one["operationId"] for methods in document["paths"].values() for one in methods.values()
        ]
        assert len(operations) == len(set(operations))
        _resolve(document, document)

    run(work)


def _resolve(document: Any, part: Any) -> None:
    """Every reference leads somewhere."""
    if isinstance(part, dict):
        if "$ref" in part:
            found = document
            for step in part["$ref"].removeprefix("#/").split("/"):
                found = found[step]
        for inner in part.values():
            _resolve(document, inner)
    elif isinstance(part, list):
        for inner in part:
            _resolve(document, inner)


def test_the_page_holds_the_table_of_routes() -> None:
    page = (ROOT / "docs" / "rest.md").read_text(encoding="utf-8")
    assert as_table(ROUTES) in page, "the table has changed: copy what as_table(ROUTES) gives"


def test_the_page_names_every_metric_of_the_front(tmp_path: Path) -> None:
    async def work() -> None:
        page = (ROOT / "docs" / "rest.md").read_text(encoding="utf-8")
        async with running(tmp_path) as front:
            text = (await front.call("GET", "/metrics")).body.decode()
        names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
        missing = [name for name in names if f"`{name}`" not in page and not name.endswith("_created")]
        assert not missing

    run(work)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_of_parameter_reads_and_refuses(kind: str) -> None:
    good = {"text": "x", "count": "17", "flag": "1", "duration": "30s", "stream": "err"}[kind]
    read, form, schema = KINDS[kind]
    assert read(good) is not None
    assert form and schema
    assert kind == "text" or read("nonsense!") is None


def test_the_document_is_plain_json() -> None:
    assert msgspec.json.encode(describe(ROUTES, "1"))


def test_with_a_certificate_http_is_encrypted(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "front")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("front")]), False)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "cert.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret = tmp_path / "key.pem"
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )

    async def work() -> None:
        options = Options(port=0, certificate=str(pem), key=str(secret))
        async with running(tmp_path, options=options) as front:
            trust = ssl.create_default_context(cafile=str(pem))
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", front.site.port, ssl=trust, server_hostname="front"
            )
            writer.write(b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            stream = Stream(reader, writer)
            await stream.begin()
            assert stream.status == 401
            writer.close()

    run(work)
