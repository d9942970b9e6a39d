"""A site for one measurement: a server and agents as processes of their own, in a folder that goes with it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from fairlead.ctl.client import Client
from fairlead.ctl.contexts import Site
from fairlead.ctl.talk import Talk

ROOT = Path(__file__).resolve().parent.parent
READY_S = 60.0
END_S = 20.0


class NotMeasured(Exception):
    """Why a figure cannot be had here."""


class BenchSite:
    """One server, or several, and what joined them. `options` are those that every server is started with."""

    def __init__(self, *options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fairlead-bench-"))
        self.options = options
        self.server = self.folder / "server"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.serving: subprocess.Popen[bytes] | None = None
        self.client = Client(Site("bench", f"unix://{self.server / 'api.sock'}"), READY_S, Talk(quiet=True))
        self.env = {**os.environ, "FAIRLEAD_HOME": str(self.folder / "home")}
        for name in ("FAIRLEAD_CONTEXT", "FAIRLEAD_API", "FAIRLEAD_TOKEN"):
            self.env.pop(name, None)

    def serve(self, name: str = "server", *joining: str) -> subprocess.Popen[bytes]:
        """Start a server, or start it again; returns when its front answers."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        addresses = folder / "addresses.json"
        before = addresses.stat().st_mtime_ns if addresses.exists() else 0
        where = () if before else ("--listen", "127.0.0.1:0")
        process = self._start("server", "--dir", str(folder), *where, *self.options, *joining)
        until(lambda: addresses.exists() and addresses.stat().st_mtime_ns != before, self._alive)
        if name == self.server.name:
            self.serving = process
            self.client.get("status")
        return process

    def told(self, name: str = "server") -> dict[str, Any]:
        """Where a server is reached."""
        read: dict[str, Any] = json.loads((self.folder / name / "addresses.json").read_text())
        return read

    def token(self, role: str) -> str:
        """A fresh one."""
        return str(self.client.post("tokens", body={"role": role})["token"])

    def join(self, count: int = 0, cpus: int = 1, name: str = "bench") -> None:
        """A real agent, or so many hollow ones; returns when all of them are ready."""
        token, address = self.token("agent"), self.told()["http"]
        hollow = ("--hollow", str(count)) if count else ()
        room = ("--cpus", str(cpus), "--memory", "64GiB")
        known = ("--join", address, "--token", token, "--name", name)
        before = self.ready_agents()
        self._start("agent", "--dir", str(self.folder / name), *known, *room, *hollow)
        until(lambda: self.ready_agents() >= before + (count or 1), self._alive, READY_S + count / 20)

    def ready_agents(self) -> int:
        """How many agents take work now."""
        return int(self.client.get("status")["agents"].get("ready", 0))

    def submit(self, count: int = 1, **fields: Any) -> str:
        """One job of so many instances; its id."""
        job = {"command": ["true"], "count": count, **fields}
        return str(self.client.post("submissions", body={"jobs": [job]})["jobs"][0])

    def ended(self, job: str) -> dict[str, Any]:
        """The job when all of its instances ended and a reader sees it."""
        while True:
            item = self.client.get("jobs", job, wait="30s")
            if item.get("ended"):
                return dict(item)

    def array(self, count: int, **fields: Any) -> float:
        """Instances a second, from the submit to the result that a reader sees."""
        began = time.perf_counter()
        item = self.ended(self.submit(count, **fields))
        took = time.perf_counter() - began
        if item["counts"] != {"succeeded": count}:
            raise NotMeasured(f"the array ended as {item['counts']}, not as {count} succeeded")
        return count / took

    def kill(self) -> None:
        """The server dies; its front goes with it."""
        assert self.serving is not None
        self.serving.send_signal(signal.SIGKILL)
        self.serving.wait()

    def control(self) -> psutil.Process:
        """The process that decides."""
        assert self.serving is not None
        return psutil.Process(self.serving.pid)

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{words[0]}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "fairlead", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.env,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def _alive(self) -> None:
        for process in self.processes:
            if process.poll() is not None and process.returncode != -signal.SIGKILL:
                raise NotMeasured(f"{' '.join(process.args[2:5])} ended: {self.tail()}")  # type: ignore[index]

    def tail(self) -> str:
        """The last lines of the logs."""
        logs = sorted(self.folder.glob("*.log"))
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()[-4:]]
        return "\n".join(lines)

    def close(self) -> None:
        """End all that was started, agents first; the folder goes too."""
        self.client.hang_up()
        for process in reversed(self.processes):
            end(process)
        keepers = [
            process
            for process in psutil.process_iter(["cmdline"])
            if (words := process.info["cmdline"]) and words[-1].startswith(str(self.folder))
        ]
        for keeper in keepers:
            with contextlib.suppress(psutil.NoSuchProcess):
                keeper.terminate()
        _, stubborn = psutil.wait_procs(keepers, END_S)
        for keeper in stubborn:
            with contextlib.suppress(psutil.NoSuchProcess):
                keeper.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """TERM, and KILL for the stubborn."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def site(*options: str) -> Iterator[BenchSite]:
    """A site that serves, and is gone afterwards."""
    made = BenchSite(*options)
    try:
        made.serve()
        yield made
    finally:
        made.close()


def until(
    done: Callable[[], Any], check: Callable[[], None] = lambda: None, seconds: float = READY_S
) -> None:
    """Return when it is so."""
    deadline = time.monotonic() + seconds
    while not done():
        check()
        if time.monotonic() > deadline:
            raise NotMeasured(f"it did not come to be in {seconds:.0f} s")
        time.sleep(0.01)


def script(name: str, *words: str) -> Any:
    """What another script here prints as JSON."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / name), *words], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise NotMeasured(f"bench/{name} failed: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)
