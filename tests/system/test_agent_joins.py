"""Joining a site over HTTP, and hollow agents; the test speaks for the site."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from ssl import PEM_cert_to_DER_cert
from threading import Thread
from typing import Any

from tests.system.agent_site import HOST, Process, Site, end_keeper, now_ms

from fairlead.model.errors import Problem
from fairlead.model.keys import Keys
from fairlead.model.lifecycles import Outcome
from fairlead.model.orders import Ended, Hello, Leaving, Reported
from fairlead.programs.joining import Asking, Joined, join
from fairlead.shell.access.ca import Authority
from fairlead.shell.access.identity import request
from fairlead.shell.front.access import new_token


class Doorman(ThreadingHTTPServer):
    """`POST /v1/join` as a front answers it; one token opens."""

    daemon_threads = True

    def __init__(self, site: Site) -> None:
        super().__init__((HOST, 0), _Answering)
        self.site = site
        self.token = new_token("agent", PEM_cert_to_DER_cert(site.authority.pem)).text
        self.asked: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return f"{HOST}:{self.server_address[1]}"

    def answer(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked.append(asked)
        if asked["token"] != self.token:
            return 401, {"code": "bad_token", "message": "the token opens nothing", "retryable": False}
        count = asked.get("count", 1)
        members = [self._sign(number, asked) for number in range(1, count + 1)]
        said = {**members[0], "ca": self.site.authority.pem, "site": "site-a"}
        said |= {"control": self.site.addresses[:1], "output": self.site.addresses[1:]}
        return 201, said if count == 1 else {**said, "agents": members}

    def _sign(self, number: int, asked: dict[str, Any]) -> dict[str, Any]:
        issued = self.site.authority.issue(asked["csr"], "agent", number, now_ms())
        assert not isinstance(issued, Problem)
        return {"number": number, "name": f"{asked['name']}-{number}", "certificate": issued.pem}


class _Answering(BaseHTTPRequestHandler):
    server: Doorman

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, said = self.server.answer(asked)
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


@contextmanager
def doorman(site: Site) -> Iterator[Doorman]:
    door = Doorman(site)
    thread = Thread(target=door.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield door
    finally:
        door.shutdown()
        thread.join()
        door.server_close()


def test_an_agent_joins_once_and_afterwards_its_folder_is_enough(tmp_path: Path) -> None:
    async def conversation() -> None:
        site = Site(tmp_path)
        await site.open()
        home = tmp_path / "agent"
        with doorman(site) as door:
            joining = {"join": door.address, "token": door.token, "name": "big", "labels": ["zone=a", "ssd"]}
            agent = Process(home, cpus="3", memory="2GiB", resources=["gpu=2"], **joining)
            await site.until("a report", lambda: site.words(Reported))
            await agent.kill()
        hello = site.words(Hello)[0]
        totals = dict(zip(hello.names, hello.totals, strict=True))
        assert (totals["cpu"], totals["memory"], totals["gpu"]) == (3_000, 2 << 30, 2_000)
        assert {"zone=a", "ssd=true", "os=linux"} <= set(hello.labels)
        assert hello.fence is None
        assert door.asked[0]["name"] == "big"
        again = Process(home)
        await site.until("another report", lambda: len(site.words(Reported)) == 2)
        assert site.words(Hello)[1].fence == site.fence
        await again.kill()
        await end_keeper(home)
        await site.close()

    asyncio.run(conversation())


def test_a_site_that_did_not_make_the_token_is_not_believed(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.addresses = ["127.0.0.1:1", "127.0.0.1:1"]
    with doorman(site) as door:
        other = Authority.create("site-b", now_ms())
        door.token = new_token("agent", PEM_cert_to_DER_cert(other.pem)).text
        asking = Asking(door.token, request(tmp_path / "key"), "one")
        refused = join([door.address], asking)
        assert isinstance(refused, Problem)
        assert refused.code == "wrong_site"


def test_a_token_that_opens_nothing_is_said_at_once_and_a_secret_never_in_the_clear(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.addresses = ["127.0.0.1:1", "127.0.0.1:1"]
    stranger = new_token("agent", PEM_cert_to_DER_cert(site.authority.pem)).text
    with doorman(site) as door:
        refused = join([door.address], Asking(stranger, request(tmp_path / "key"), "one"))
        assert isinstance(refused, Problem)
        assert refused.code == "bad_token"
        assert isinstance(join([door.address], Asking(door.token, request(tmp_path / "key"), "one")), Joined)
    abroad = join(["http://192.0.2.1:7410"], Asking(stranger, request(tmp_path / "key"), "one"))
    assert isinstance(abroad, Problem)
    assert abroad.code == "not_encrypted"


def test_hollow_agents_join_with_one_call_and_finish_what_they_are_given(tmp_path: Path) -> None:
    async def conversation() -> None:
        site = Site(tmp_path)
        await site.open()
        with doorman(site) as door:
            fleet = Process(tmp_path / "fleet", hollow=12, join=door.address, token=door.token)
            await site.until("all of them", lambda: len(site.words(Reported)) == 12)
            assert len(door.asked) == 1
        keys = Keys([7, 7], [0, 5_000], [1_000, 10], [1, 1])
        for session in site.lines:
            site.start(keys, session=session, command=["never run"])
        await site.until("all ends", lambda: sum(e.keys.total() for e in site.words(Ended)) == 12 * 1_010)
        assert all(ended.keys == keys for ended in site.words(Ended))
        assert site.words(Ended)[0].outcome == [Outcome.succeeded] * 2
        fleet.signal(signal.SIGTERM)
        assert await fleet.ended() == 0
        assert len(site.words(Leaving)) == 12
        await site.close()

    asyncio.run(conversation())
