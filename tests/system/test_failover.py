"""Three servers on three etcd members: the leader, or one member, is taken away while people work.

Each server has its own context, agents and people use any of them, and nobody is told who leads.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest
from tests.contracts.etcd_members import Etcd, running_etcd
from tests.system.site import Person, left_behind, until

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(180)]

# The shortest lease of a leader that the tests' etcd grants reliably, and how soon a silent agent is lost.
LEASE_S = 2.0
SETTINGS = "lost_after: 5s\nleader_lease: 2s\n"
PARTS, LINES = 60, 1_000
STREAM = f'for part in $(seq {PARTS}); do seq -f "$part %.0f" {LINES}; sleep 0.1; done; exit 6'
WHOLE = "".join(f"{part} {n}\n" for part in range(1, PARTS + 1) for n in range(1, LINES + 1)).encode()


class Cluster(Person):
    """Three servers, two agents, one etcd of three members, one folder of blobs."""

    def __init__(self, folder: Path, etcd: Etcd, stack: ExitStack) -> None:
        super().__init__(folder / "home")
        self.folder, self.etcd, self._stack = folder, etcd, stack
        self.store = f"etcd://{','.join(etcd.endpoints)}"
        self.servers: dict[str, subprocess.Popen[bytes]] = {}

    def open(self) -> None:
        """The first server makes the site; the others and the agents join it."""
        self.start("s1")
        for name in ("s2", "s3"):
            token = self.run("--context", "s1", "token", "create", "--role", "server").text
            self.start(name, "--join", self.address("s1"), "--token", token)
        everywhere = ",".join(self.address(name) for name in ("s1", "s2", "s3"))
        for name in ("a1", "a2"):
            token = self.run("--context", "s1", "token", "create", "--role", "agent").text
            folder = str(self.folder / name)
            options = ["--cpus", "4", "--join", everywhere, "--token", token, "--name", name]
            self._begin("agent", "--dir", folder, *options, log=self._log(name))
        until(lambda: self._ready("s1") == {"a1", "a2"}, "both agents are ready")

    def start(self, name: str, *joining: str) -> None:
        """A server, at first or again."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "settings.yaml").write_text(SETTINGS)
        addresses = folder / "addresses.json"
        before = addresses.stat().st_mtime_ns if addresses.exists() else 0
        options = ["--store", self.store, "--blobs", str(self.folder / "blobs"), "--name", name, *joining]
        words = ["server", "--dir", str(folder), "--listen", "127.0.0.1:0", *options]
        process = self.servers[name] = self._begin(*words, log=self._log(name))

        def serves() -> bool:
            assert process.poll() is None, (self.folder / f"{name}.log").read_text()
            return addresses.exists() and addresses.stat().st_mtime_ns != before

        until(serves, f"{name} serves")

    def address(self, name: str) -> str:
        """Where a server's HTTP is."""
        told: str = json.loads((self.folder / name / "addresses.json").read_text())["http"]
        return told.split("://")[1]

    def leader(self, bound_s: float = 30.0) -> str:
        """Who leads, as the living ones say."""
        return until(self._leading, "somebody leads", bound_s)

    def _leading(self) -> str | None:
        asked = next(name for name, process in self.servers.items() if process.poll() is None)
        done = self.run("--context", asked, "--connect-timeout", "1", "get", "servers", "-o", "json")
        if done.code:
            return None
        mine = {
            json.loads((self.folder / name / "addresses.json").read_text())["control"]: name
            for name in self.servers
        }
        found = [one for one in json.loads(done.out) if one["leader"]]
        return mine.get(found[0]["control"]) if found else None

    def others(self, leader: str) -> list[str]:
        """The living servers that follow."""
        return [name for name, one in self.servers.items() if name != leader and one.poll() is None]

    def strike(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """A signal to one server's control."""
        self.servers[name].send_signal(number)
        if number == signal.SIGKILL:
            self.servers[name].wait()

    def _ready(self, name: str) -> set[str]:
        agents = self.look("--context", name, "get", "agents")
        return {agent["name"] for agent in agents if agent["state"] == "ready"}

    def _begin(self, *words: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return self._stack.enter_context(self.started(*words, stdout=log, stderr=log))

    def _log(self, name: str) -> IO[bytes]:
        return self._stack.enter_context((self.folder / f"{name}.log").open("ab"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("three")
    with ExitStack() as stack:
        etcd = stack.enter_context(running_etcd(folder / "etcd", 3))
        made = Cluster(folder, etcd, stack)
        try:
            made.open()
            yield made
        finally:
            end(made)
    broken = [path.name for path in folder.glob("*.log") if "Traceback" in path.read_text(errors="replace")]
    assert not broken, f"a traceback in {broken} of {folder}"


def end(cluster: Cluster) -> None:
    """End agents, keepers and servers by their pids, the polite way first."""
    import os
    from contextlib import suppress

    for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
        mine = {pid: line for pid, line in left_behind(cluster.folder).items() if "etcd " not in line}
        for pid in mine:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGTERM:
            with suppress(AssertionError):
                until(lambda: all("etcd" in line for line in left_behind(cluster.folder).values()), "", 10)


@pytest.fixture(autouse=True)
def whole(cluster: Cluster) -> Iterator[None]:
    """Every test begins and ends with three servers that agree on a leader, and two ready agents."""
    yield
    for name, process in cluster.servers.items():
        if process.poll() is not None:
            cluster.start(name)
    until(lambda: cluster._ready(cluster.leader()) == {"a1", "a2"}, "all are back")


def told(output: bytes) -> tuple[int, str]:
    """Enough of some output to compare it."""
    return len(output), hashlib.sha256(output).hexdigest()


def first_bytes(process: subprocess.Popen[bytes], count: int) -> bytes:
    """So many of its output, or a few more."""
    assert process.stdout is not None
    read = b""
    while len(read) < count:
        piece = process.stdout.read(count)
        assert piece, "it ended early"
        read += piece
    return read


def test_every_server_serves_the_same_site(cluster: Cluster) -> None:
    number = cluster.run("--context", "s1", "run", "--detach", "--", "sh", "-c", "echo here; exit 3").text
    for name in ("s1", "s2", "s3"):
        done = cluster.run("--context", name, "attach", number)
        assert (done.code, done.out) == (3, b"here\n")
        assert cluster._ready(name) == {"a1", "a2"}


def test_a_killed_leader_costs_a_streaming_run_no_line_and_others_at_most_two_leases(
    cluster: Cluster,
) -> None:
    leader = cluster.leader()
    near, far = cluster.others(leader)
    with cluster.started("--context", near, "run", "--", "sh", "-c", STREAM) as process:
        begun = first_bytes(process, 60_000)
        cluster.strike(leader)
        killed = time.monotonic()
        done = cluster.run("--context", far, "run", "--", "echo", "new")
        took = time.monotonic() - killed
        rest, err = process.communicate(timeout=60)
        assert process.returncode == 6, err.decode()
    assert (done.code, done.out) == (0, b"new\n"), done.err
    assert told(begun + rest) == told(WHOLE)
    # Two leases, and as much as a loaded machine of two cores needs to run anything at all.
    assert took < 2 * LEASE_S + 4, took
    assert cluster.leader() != leader


def test_a_submission_is_taken_once_however_often_it_is_sent_during_a_failover(cluster: Cluster) -> None:
    leader = cluster.leader()
    near, far = cluster.others(leader)
    key = ["run", "--detach", "--key", "one-of-a-kind", "--", "echo", "once"]
    cluster.strike(leader)
    with cluster.started("--context", near, *key) as first, cluster.started("--context", far, *key) as second:
        numbers = {one.communicate(timeout=40)[0] for one in (first, second)}
    assert len(numbers) == 1
    done = cluster.run("--context", near, "attach", numbers.pop().decode().strip())
    assert (done.code, done.out) == (0, b"once\n")


def test_a_killed_member_of_etcd_is_not_noticed(cluster: Cluster) -> None:
    member = cluster.etcd.members[0]
    follower = cluster.others(cluster.leader())[0]
    with cluster.started("--context", follower, "run", "--", "sh", "-c", STREAM) as process:
        begun = first_bytes(process, 60_000)
        member.kill()
        try:
            for name in cluster.servers:
                done = cluster.run("--context", name, "run", "--", "echo", name)
                assert (done.code, done.out) == (0, f"{name}\n".encode()), done.err
            rest, err = process.communicate(timeout=60)
        finally:
            cluster.etcd.restart(member)
        assert process.returncode == 6, err.decode()
    assert told(begun + rest) == told(WHOLE)


def test_a_leader_that_stood_still_longer_than_its_lease_steps_down_and_doubles_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    leader = cluster.leader()
    near, far = cluster.others(leader)
    ledger = tmp_path / "ledger"
    line = f"echo $FAIRLEAD_INDEX $FAIRLEAD_ATTEMPT >> {ledger}; sleep 0.2; echo $FAIRLEAD_INDEX"
    with cluster.started("--context", near, "run", "--count", "20", "--", "sh", "-c", line) as process:
        until(ledger.exists, "it began")
        cluster.strike(leader, signal.SIGSTOP)
        try:
            done = cluster.run("--context", far, "run", "--", "echo", "went on", timeout=40)
            assert (done.code, done.out) == (0, b"went on\n"), done.err
        finally:
            cluster.strike(leader, signal.SIGCONT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err.decode()
    assert out.split() == [str(index).encode() for index in range(20)]
    assert sorted(ledger.read_text().split()[::2], key=int) == [str(index) for index in range(20)]
    assert cluster.leader() != leader
    back = cluster.run("--context", leader, "run", "--", "echo", "follows")
    assert (back.code, back.out) == (0, b"follows\n"), back.err


def test_an_agent_finds_the_leader_when_all_that_it_knew_first_is_gone(cluster: Cluster) -> None:
    for _ in range(2):
        leader = cluster.leader()
        cluster.strike(leader)
        follower = cluster.others(leader)[0]
        done = cluster.run("--context", follower, "run", "--", "echo", "found")
        assert (done.code, done.out) == (0, b"found\n"), done.err
        cluster.start(leader)
