from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.shell.access.made_site import NOW, issued, joined

from fairlead.model.errors import Problem
from fairlead.shell.access import identity
from fairlead.shell.access.ca import DAY_MS, Authority
from fairlead.shell.access.machine_mark import boot_id, machine_mark
from fairlead.shell.access.peers import Peer, peer_of_uris


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("lab", NOW)


def test_an_identity_is_loaded_as_it_was_installed(authority: Authority, tmp_path: Path) -> None:
    made = joined(authority, tmp_path, "agent", 7)
    assert identity.load(tmp_path) == made
    assert made.peer == Peer("agent", 7, "lab")
    assert {path.name for path in tmp_path.iterdir()} == {"key.pem", "cert.pem", "ca.pem"}
    assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600
    assert "PRIVATE" not in repr(made)


def test_the_key_stays_through_requests_and_renewals(authority: Authority, tmp_path: Path) -> None:
    first = joined(authority, tmp_path, "agent", 7)
    second = joined(authority, tmp_path, "agent", 7, NOW + 20 * DAY_MS)
    assert first.key_pem == second.key_pem
    assert second.until_ms == pytest.approx(first.until_ms + 20 * DAY_MS, abs=1000)


def test_renewal_is_due_at_two_thirds_and_not_for_all_at_once(authority: Authority, tmp_path: Path) -> None:
    made = [joined(authority, tmp_path / str(n), "agent", n) for n in range(8)]
    for one in made:
        assert not one.renewal_due(NOW + 19 * DAY_MS)
        assert one.renewal_due(NOW + 22 * DAY_MS)
    assert len({one.renew_at_ms for one in made}) > 1


def test_a_machine_that_never_joined_has_none(tmp_path: Path) -> None:
    refusal = identity.load(tmp_path / "identity")
    assert isinstance(refusal, Problem)
    assert refusal.code == "no_identity"


def test_what_does_not_belong_together_is_refused(authority: Authority, tmp_path: Path) -> None:
    other = Authority.create("lab", NOW)
    mine, foreign = tmp_path / "mine", tmp_path / "foreign"
    good = issued(authority, mine, "agent", 7).pem
    for pem, trusted, why in [
        (issued(authority, foreign, "agent", 7).pem, authority.pem, "another key"),
        (good, other.pem, "not signed"),
        (good, issued(authority, foreign, "agent", 8).pem, "cannot be read"),
        ("noise", authority.pem, "cannot be read"),
        (authority.pem, authority.pem, "no role"),
    ]:
        refusal = identity.install(mine, pem, trusted)
        assert isinstance(refusal, Problem), why
        assert why in refusal.why
    assert isinstance(identity.load(mine), Problem)
    assert not isinstance(identity.install(mine, good, authority.pem), Problem)
    (mine / "key.pem").unlink()
    assert isinstance(identity.load(mine), Problem)


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["fairlead://lab/agent/"],
        ["fairlead://lab/agent/-1"],
        ["fairlead://lab/agent/07"],
        ["fairlead://lab/admin/1"],
        ["fairlead://lab/agent/1\n"],
        ["https://lab/agent/1"],
        ["fairlead://lab/agent/1", "fairlead://lab/server/1"],
    ],
)
def test_names_that_are_not_exactly_one_of_ours_are_nobodys(uris: list[str]) -> None:
    assert peer_of_uris(uris) is None


def test_the_mark_is_the_folders_and_stays(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    mark = machine_mark(one)
    (one / "file").write_text("x")
    one.chmod(0o700)
    assert machine_mark(one) == mark != machine_mark(other)
    assert len(mark) == 32
    assert boot_id() == boot_id() != ""
