"""A front as people meet it: a real site on loopback, and its front killed while output flows."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fairlead.shell.front.server import short_path

LINES = 400_000
ROUNDS = 6


class Site:
    """`fairlead up` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        line = [sys.executable, "-m", "fairlead", "up", "--dir", str(folder), "--agents", "1"]
        self.process = subprocess.Popen(
            [*line, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert first.startswith("ready"), first
        self.port = int(first.split()[1].rsplit(":", 1)[1])

    @property
    def socket(self) -> str:
        """Where its front serves the local command line."""
        return str(self.folder / "server" / "api.sock")

    def front(self) -> psutil.Process | None:
        """The front's process."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if "fairlead.programs.front" in process.cmdline():
                    return process
            except psutil.NoSuchProcess:
                continue
        return None

    def get(self, path: str) -> Any:
        """What its front answers on its socket."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(20)
            with short_path(self.socket) as short:
                line.connect(short)
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: front\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while piece := line.recv(65_536):
                answer += piece
        return json.loads(answer.split(b"\r\n\r\n", 1)[1])

    def stop(self) -> None:
        """As Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.communicate(timeout=30)
        finally:
            self.process.kill()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    up = Site(tmp_path / "site")
    try:
        yield up
    finally:
        up.stop()


def until(true: Callable[[], bool], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def blob_bytes(site: Site) -> int:
    found = (site.folder / "server" / "blobs").rglob("fresh/*/*")
    return sum(path.stat().st_size for path in found if path.is_file())


def test_a_front_killed_while_output_flows_loses_no_byte_and_repeats_none(site: Site) -> None:
    script = f"for i in $(seq {ROUNDS}); do seq {LINES}; sleep 0.2; done"
    run = subprocess.Popen(
        [sys.executable, "-m", "fairlead", "run", "--name", "talker", "--", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    killed = 0
    for size in (100_000, 600_000):
        until(lambda size=size: blob_bytes(site) > size or run.poll() is not None, "no output was stored")
        until(lambda: site.front() is not None, "there is no front")
        front = site.front()
        if front is not None and run.poll() is None:
            front.kill()
            front.wait(10)
            killed += 1
    out, err = run.communicate(timeout=40)
    wanted = b"".join(b"%d\n" % n for n in range(1, LINES + 1)) * ROUNDS
    assert killed == 2
    assert run.returncode == 0, err
    assert hashlib.sha256(out).hexdigest() == hashlib.sha256(wanted).hexdigest()
    stored = subprocess.run(
        [sys.executable, "-m", "fairlead", "logs", "talker"], capture_output=True, check=True, timeout=30
    )
    assert hashlib.sha256(stored.stdout).hexdigest() == hashlib.sha256(wanted).hexdigest()
    assert site.get("/v1/jobs/talker/instances/0")["output"] == "complete"


def test_a_front_speaks_of_itself_and_of_its_control(site: Site) -> None:
    status = site.get("/v1/status")
    assert status["agents"] == {"ready": 1}
    assert status["front"]["addresses"]["http"] == f"http://127.0.0.1:{site.port}"
    assert site.get("/readyz") == {"status": "ready"}
    assert site.get("/v1/nothing")["code"] == "no_such_route"
    assert site.get("/v1/agents")["next"] is None
