"""Real etcd members on free loopback ports, in folders of their own: started, killed, frozen, started again."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

START_S = 20.0
QUICK = ("--heartbeat-interval=20", "--election-timeout=200")
"""Elections in a fifth of a second, and with them the shortest lease that etcd grants: one second."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on just now."""
    with contextlib.ExitStack() as open_sockets:
        taken = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]


class Member:
    """One etcd process and its folder."""

    def __init__(self, folder: Path, number: int, ports: list[int], flags: Sequence[str], tls: bool) -> None:
        self.name = f"m{number}"
        self.folder = folder / self.name
        self.client, self.peer, self.health = ports
        self.endpoint = f"127.0.0.1:{self.client}"
        self._flags = flags
        self._scheme = "https" if tls else "http"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, cluster: str) -> None:
        """Start it, on what its folder holds if it ran before."""
        client, peer = f"{self._scheme}://{self.endpoint}", f"http://127.0.0.1:{self.peer}"
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [
            "etcd",
            f"--name={self.name}",
            f"--data-dir={self.folder / 'data'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--listen-metrics-urls=http://127.0.0.1:{self.health}",
            f"--initial-cluster={cluster}",
            "--initial-cluster-state=new",
            "--logger=zap",
            *self._flags,
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait_healthy(self) -> None:
        """Return when it answers and knows a leader."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            assert self._process is not None and self._process.poll() is None, self.tail()
            if self._healthy():
                return
            time.sleep(0.02)  # between two looks, not instead of one
        raise AssertionError(f"{self.name} is not healthy after {START_S} s: {self.tail()}")

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/health", timeout=1) as answer:
                return b'"true"' in answer.read()
        except OSError:
            return False

    def freeze(self) -> None:
        """It keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on as if nothing had been."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """It is gone at once; its folder stays."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def tail(self) -> str:
        """The end of its log."""
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


class Etcd:
    """One to three members that are one etcd."""

    def __init__(self, folder: Path, count: int = 1, flags: Sequence[str] = (), tls: bool = False) -> None:
        ports = free_ports(3 * count)
        self.members = [
            Member(folder, n, ports[3 * n : 3 * n + 3], (*QUICK, *flags), tls) for n in range(count)
        ]
        self.cluster = ",".join(f"{one.name}=http://127.0.0.1:{one.peer}" for one in self.members)

    @property
    def endpoints(self) -> list[str]:
        """Where clients may ask."""
        return [member.endpoint for member in self.members]

    def start(self) -> None:
        """Start all members and wait until they serve."""
        for member in self.members:
            member.start(self.cluster)
        for member in self.members:
            member.wait_healthy()

    def restart(self, member: Member) -> None:
        """Bring one back on its folder."""
        member.start(self.cluster)
        member.wait_healthy()

    def stop(self) -> None:
        """End all members."""
        for member in self.members:
            member.kill()


@contextlib.contextmanager
def running_etcd(
    folder: Path, count: int = 1, flags: Sequence[str] = (), tls: bool = False
) -> Iterator[Etcd]:
    """An etcd for as long as the block runs."""
    etcd = Etcd(folder, count, flags, tls)
    try:
        etcd.start()
        yield etcd
    finally:
        etcd.stop()
