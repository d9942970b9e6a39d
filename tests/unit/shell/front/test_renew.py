"""`POST /v1/renew`: which agents get their next certificate."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.unit.shell.access.made_site import NOW, joined
from tests.unit.shell.front.harness import AUTHORITY, Answer, MemoryControl, running

from fairlead.model import requests
from fairlead.model.errors import Problem
from fairlead.shell.access.ca import Authority
from fairlead.shell.access.tls import https_client
from fairlead.shell.front.site import Options

AGENTS = [
    {"id": 3, "name": "three", "wanted": "open"},
    {"id": 5, "name": "five", "wanted": "banned"},
    {"id": 6, "name": "six", "wanted": "draining"},
]


def roster(asked: Any) -> requests.Reply:
    """As control lists it: in order, behind the cursor."""
    assert asked.kind == "agents"
    return requests.Seen([agent for agent in AGENTS if agent["id"] > asked.after][: asked.limit])  # type: ignore[operator]


def prove(certificate: str, csr: str) -> tuple[str, int] | Problem:
    role, _, number = certificate.partition(" ")
    return (
        (role, int(number)) if number else Problem("not_renewed", "no", "foreign", "certificate", "go away")
    )


def renew(folder: Path, certificate: str, csr: str = "CSR", down: bool = False) -> Answer:
    async def work() -> Answer:
        control = MemoryControl(down=down)
        control.answers[requests.Look] = roster
        options = Options(port=0, socket=str(folder / "api.sock"), authority=AUTHORITY, prove=prove)
        async with running(folder, control, options=options) as front:
            body = {"certificate": certificate, "csr": csr}
            return await front.call("POST", "/v1/renew", body, tcp=True)

    return asyncio.run(work())


@pytest.mark.parametrize("number", [3, 6])
def test_an_agent_of_the_roster_gets_its_next_certificate_without_a_token(
    tmp_path: Path, number: int
) -> None:
    answer = renew(tmp_path, f"agent {number}")
    assert (answer.status, answer.json) == (
        200,
        {"certificate": f"CERTIFICATE agent {number}", "ca": AUTHORITY, "control": [], "output": []},
    )


@pytest.mark.parametrize(
    ("certificate", "why", "fix"),
    [
        ("agent 5", "five is banned", "an operator opens it again: POST /v1/agents/five/uncordon"),
        ("agent 4", "agent 4 is not known here", "fairlead token create --role agent"),
        ("agent 9", "agent 9 is not known here", "fairlead token create --role agent"),
        ("server 3", "it is a server's, and only agents ask here", ""),
        ("foreign", "foreign", "go away"),
    ],
)
def test_banned_unknown_and_foreign_certificates_are_refused_with_the_way_out(
    tmp_path: Path, certificate: str, why: str, fix: str
) -> None:
    answer = renew(tmp_path, certificate)
    told = answer.json
    assert (answer.status, told["code"]) == (403, "not_renewed")
    assert (told["why"], told["fix"]) == (why, fix)


def test_while_control_is_away_the_agent_is_told_to_come_again(tmp_path: Path) -> None:
    answer = renew(tmp_path, "agent 3", down=True)
    assert (answer.status, answer.json["retryable"]) == (503, True)


def test_what_is_no_request_is_refused(tmp_path: Path) -> None:
    answer = renew(tmp_path, "agent 3", csr="nothing")
    assert (answer.status, answer.json["where"]) == (400, "csr")
    assert renew(tmp_path, "x" * 30_000).status == 400


def test_who_connects_after_a_renewal_sees_the_new_certificate(tmp_path: Path) -> None:
    authority = Authority.create("lab", NOW)
    folder = tmp_path / "server"

    async def shown(port: int) -> str:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=https_client(authority.pem))
        told = writer.get_extra_info("peercert")
        writer.close()
        return str(told["serialNumber"])

    async def work() -> None:
        first = joined(authority, folder, "server", 1)
        options = Options(port=0, certificate=str(folder / "cert.pem"), key=str(folder / "key.pem"))
        async with running(tmp_path, options=options) as front:
            assert int(await shown(front.site.port), 16) == first.serial
            second = joined(authority, folder, "server", 1)
            assert int(await shown(front.site.port), 16) == first.serial
            front.site.show_certificate()
            assert int(await shown(front.site.port), 16) == second.serial != first.serial

    asyncio.run(work())
