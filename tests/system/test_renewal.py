"""Certificates of a real site, made to live for seconds: renewed in time, and by machines that were away."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.site import Site, running, three_lines, until

from fairlead.shell.access.ca import DAY_MS, Authority, open_authority
from fairlead.shell.access.identity import Identity, install, load, request

LIFE_S = 4


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    one = Site(tmp_path_factory.mktemp("renewal"), agents=1)
    server = one.folder / "server"
    server.mkdir(0o700, parents=True)
    (server / "settings.yaml").write_text(f"lost_after: 5s\ncertificates: {LIFE_S}s\n")
    one.up()
    yield one
    one.close()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def home(site: Site) -> Path:
    return site.folder / "agents" / "1"


def shown(folder: Path) -> Identity:
    found = load(folder)
    assert isinstance(found, Identity), found
    return found


def of_agent(site: Site) -> Identity:
    return shown(home(site) / "identity")


def test_agents_and_servers_renew_in_time_and_their_sessions_go_on(site: Site) -> None:
    folders = [home(site) / "identity", site.folder / "server" / "keys" / "server"]
    first = [shown(folder) for folder in folders]
    done = site.run("run", "--", "sh", "-c", f"sleep {LIFE_S + 2}; echo there")
    assert (done.code, done.text) == (0, "there")
    for folder, before in zip(folders, first, strict=True):
        after = until(lambda folder=folder, before=before: younger(folder, before), "a younger certificate")
        assert (after.peer, after.key_pem) == (before.peer, before.key_pem)
    log = (home(site) / "agent.log").read_text()
    assert log.count("connected to") == 1
    # Whoever dials anew shows, and sees, what is valid now.
    site.strike("agent-1", signal.SIGTERM)
    until(lambda: "agent-1" not in site.pids(), "the agent is gone")
    site.up()
    assert site.run("run", "--", "echo", "again").text == "again"


def younger(folder: Path, before: Identity) -> Identity | None:
    found = shown(folder)
    return found if found.until_ms > before.until_ms else None


def aged(site: Site, days: int) -> None:
    """The agent's machine was off, and its certificate expired so many days ago."""
    pid = site.pids()["agent-1"]
    os.kill(pid, signal.SIGTERM)
    until(lambda: not running(pid), "the agent is gone")
    authority = open_authority(site.folder / "server" / "keys", of_agent(site).peer.site, now_ms())
    assert isinstance(authority, Authority)
    identity, number = home(site) / "identity", of_agent(site).peer.number
    made = authority.issue(request(identity), "agent", number, now_ms() - (30 + days) * DAY_MS)
    assert not isinstance(install(identity, made.pem, authority.pem), str)  # type: ignore[union-attr]
    assert of_agent(site).until_ms < now_ms()


def test_an_agent_whose_certificate_expired_yesterday_comes_back_by_itself(site: Site) -> None:
    aged(site, 1)
    site.up()
    assert of_agent(site).until_ms > now_ms() - DAY_MS
    assert site.run("run", "--", "echo", "back").text == "back"


def test_keys_and_output_are_for_their_owner_alone(site: Site) -> None:
    server, agent = site.folder / "server", home(site)
    for folder in (server, server / "keys", server / "blobs", agent, agent / "identity", agent / "spool"):
        assert oct(folder.stat().st_mode & 0o777) == "0o700", folder
    keys = [server / "keys" / name for name in ("site.key", "authority", "server/key.pem")]
    for path in (*keys, server / "store.db", server / "api.sock", agent / "identity" / "key.pem"):
        assert oct(path.stat().st_mode & 0o777) == "0o600", path


def test_the_address_that_is_kept_is_enough_and_another_can_be_told(site: Site) -> None:
    about = json.loads((home(site) / "agent.json").read_text())
    assert about["join"] == [f"http://{site.address}"]


def test_after_91_days_the_agent_says_in_three_lines_that_it_needs_a_new_token(site: Site) -> None:
    aged(site, 91)
    starting = ["agent", "--dir", str(home(site))]
    refused = site.run(*starting)
    assert refused.code == 2
    first, why, fix = three_lines(refused.err)
    assert "the certificate is not renewed" in first
    assert why == "it expired 91 days ago, and 90 are the most"
    assert "fairlead token create --role agent" in fix
    token = site.run("token", "create", "--role", "agent").text
    joining = ["--join", site.address, "--token", token, "--name", "reborn"]
    with site.started(*starting, *joining) as agent:
        until(lambda: ready(site, "reborn"), "it is there again")
        agent.terminate()
        assert agent.wait(20) == 0


def ready(site: Site, name: str) -> bool:
    return any(one["name"] == name and one["state"] == "ready" for one in site.look("get", "agents"))
