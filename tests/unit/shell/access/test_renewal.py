"""Who may have the next certificate."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.shell.access.made_site import NOW, joined

from fairlead.model.errors import Problem
from fairlead.shell.access.ca import DAY_MS, Authority
from fairlead.shell.access.identity import Identity, request
from fairlead.shell.access.peers import Peer
from fairlead.shell.access.renewal import renewable


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("lab", NOW)


def agent(authority: Authority, folder: Path, made_ms: int = NOW) -> Identity:
    return joined(authority, folder, "agent", 7, made_ms)


def judged(authority: Authority, identity: Identity, csr: str) -> Peer | Problem:
    return renewable(authority.pem, identity.certificate_pem.decode(), csr, NOW)


@pytest.mark.parametrize("expired_days", [-29, -1, 1, 89])
def test_the_same_key_may_go_on_also_when_its_certificate_expired_lately(
    authority: Authority, tmp_path: Path, expired_days: int
) -> None:
    old = agent(authority, tmp_path, NOW - (30 + expired_days) * DAY_MS)
    assert judged(authority, old, request(tmp_path)) == Peer("agent", 7, "lab")


def test_after_a_season_only_a_new_token_helps(authority: Authority, tmp_path: Path) -> None:
    old = agent(authority, tmp_path, NOW - 121 * DAY_MS)
    refused = judged(authority, old, request(tmp_path))
    assert isinstance(refused, Problem)
    assert (refused.code, refused.why) == ("not_renewed", "it expired 91 days ago, and 90 are the most")
    assert refused.fix.startswith("fairlead token create --role agent")


def test_another_key_gets_nothing_with_somebodys_certificate(authority: Authority, tmp_path: Path) -> None:
    refused = judged(authority, agent(authority, tmp_path / "mine"), request(tmp_path / "thief"))
    assert isinstance(refused, Problem)
    assert refused.why == "the request is for another key"


def test_another_authoritys_certificate_is_not_renewed(authority: Authority, tmp_path: Path) -> None:
    foreign = agent(Authority.create("lab", NOW), tmp_path)
    refused = judged(authority, foreign, request(tmp_path))
    assert isinstance(refused, Problem)
    assert refused.why == "it was not made by this site's authority"


@pytest.mark.parametrize(
    "text", ["", "no certificate", "\x00", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END"]
)
def test_what_cannot_be_read_is_refused_in_words(authority: Authority, tmp_path: Path, text: str) -> None:
    refused = renewable(authority.pem, text, request(tmp_path), NOW)
    assert isinstance(refused, Problem)
    assert refused.code == "not_renewed"
    mine = agent(authority, tmp_path).certificate_pem.decode()
    refused = renewable(authority.pem, mine, text, NOW)
    assert isinstance(refused, Problem)
    assert refused.code == "bad_request"


def test_the_authority_itself_names_nobody_and_is_not_renewed(authority: Authority, tmp_path: Path) -> None:
    assert isinstance(renewable(authority.pem, authority.pem, request(tmp_path), NOW), Problem)
