"""A real site in a temporary folder: brought up, struck and ended by pid, and checked for what it left behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from fairlead.programs.up import keeper_of, processes

T = TypeVar("T")
BOUND_S = 30.0
BIN = str(Path(sys.executable).parent)
OURS = ("FAIRLEAD_", "EDITOR")


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said; its output as bytes, its talk as text."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Its output as text without the last line's end."""
        return self.out.decode().rstrip("\n")


class Person:
    """Somebody with a shell and a home of their own: commands as they are typed, without a terminal."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        path = os.pathsep.join([BIN, kept.get("PATH", os.defpath)])
        self.environment = {**kept, "PATH": path, "FAIRLEAD_HOME": str(home)}

    def run(self, *words: str, cwd: Path | None = None, timeout: float = BOUND_S, feed: bytes = b"") -> Done:
        """`fairlead WORDS`, to its end."""
        return self.program([sys.executable, "-m", "fairlead", *words], cwd, timeout, feed)

    def paste(self, line: str, cwd: Path | None = None, timeout: float = BOUND_S, **more: str) -> Done:
        """A line into the shell, as it is."""
        return self.program(["sh", "-c", line], cwd, timeout, more=more)

    def program(
        self,
        command: list[str],
        cwd: Path | None = None,
        timeout: float = BOUND_S,
        feed: bytes = b"",
        more: Mapping[str, str] = {},
    ) -> Done:
        """Any program, to its end."""
        done = subprocess.run(
            command,
            cwd=cwd or self.home,
            env={**self.environment, **more},
            input=feed,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr.decode())

    @contextmanager
    def started(self, *words: str, cwd: Path | None = None, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
        """`fairlead WORDS`, still running inside the block; killed at its end if it must be."""
        process = subprocess.Popen(
            [sys.executable, "-m", "fairlead", *words],
            cwd=cwd or self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            bufsize=0,  # What was not asked for stays in the pipe.
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more},
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def look(self, *words: str) -> Any:
        """What a command tells programs."""
        done = self.run(*words, "-o", "json")
        assert done.code == 0, f"{shlex.join(words)}: {done.err}"
        return json.loads(done.out)


class Site(Person):
    """One person's own machine with `fairlead up`."""

    def __init__(self, home: Path, agents: int = 2) -> None:
        super().__init__(home)
        self.agents = agents
        self.folder = home / "site"

    def up(self) -> None:
        """Start what does not run; returns when it is ready."""
        done = self.run("up", "--detach", "--agents", str(self.agents), "--listen", "127.0.0.1:0", timeout=60)
        assert done.code == 0, done.err

    def down(self) -> None:
        """End it as people do; the folder stays."""
        done = self.run("down", timeout=60)
        assert done.code == 0, done.err

    @property
    def address(self) -> str:
        """HOST:PORT of its HTTP."""
        told: str = json.loads((self.folder / "server" / "addresses.json").read_text())["http"]
        return told.split("://")[1]

    def pids(self) -> dict[str, int]:
        """What runs, by name: server, front, agent-1, keeper-1, …"""
        found = processes(self.folder.resolve())
        if "server" in found:
            for child in psutil.Process(found["server"]).children():
                if "fairlead.programs.front" in child.cmdline():
                    found["front"] = child.pid
        for number in range(1, self.agents + 1):
            if keeper := keeper_of((self.folder / "agents" / str(number)).resolve()):
                found[f"keeper-{number}"] = keeper
        return found

    def strike(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """A signal to one process of the site; its pid."""
        pid = self.pids()[name]
        os.kill(pid, number)
        if number == signal.SIGKILL:
            until(lambda: not running(pid), f"{name} is gone")
        return pid

    def instance(self, job: str, index: int = 0) -> dict[str, Any]:
        """One instance as it is now."""
        item: dict[str, Any] = self.look("get", f"{job}/{index}")
        return item

    def agent_of(self, job: str) -> str:
        """The number of the agent that runs it, once it does."""
        item = until(lambda: self._running(job), f"{job} runs")
        return str(item["agent"]).removeprefix("agent-")

    def _running(self, job: str) -> dict[str, Any] | None:
        item = self.instance(job)
        return item if item["state"] == "running" else None

    def close(self) -> None:
        """End everything, and check that nothing was left behind, and that no log has a traceback."""
        try:
            self.run("down", timeout=60)
            logs = list(self.folder.rglob("*.log"))
            broken = [str(path) for path in logs if "Traceback" in path.read_text(errors="replace")]
            orphans = left_behind(self.home)
            assert not broken, f"a traceback in {broken}"
            assert not orphans, f"left behind: {orphans}"
        finally:
            for pid in left_behind(self.home):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def left_behind(folder: Path) -> dict[int, str]:
    """Processes that still carry something of a folder, by pid; not those that look at it from outside."""
    found: dict[int, str] = {}
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            told = " ".join(process.cmdline())
            told += " " + process.environ().get("FAIRLEAD_WORKSPACE", "")
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if str(folder.resolve()) in told and process.pid != os.getpid():
            found[process.pid] = told[:160]
    return found


def running(pid: int) -> bool:
    """Whether a process lives; an unawaited end does not count as life."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until(found: Callable[[], T | None], what: str, bound_s: float = BOUND_S) -> T:
    """Look again until it is so, and not for ever."""
    end = time.monotonic() + bound_s
    while True:
        answer = found()
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {bound_s:.0f} s: {what}"
        time.sleep(0.03)  # between two looks


def three_lines(err: str) -> tuple[str, str, str]:
    """The parts of a refusal, which is exactly what, why and the way out, and never a traceback."""
    assert "Traceback" not in err, err
    lines = err.rstrip("\n").split("\n")
    heads = ("error: ", "  why: ", "  fix: ")
    assert len(lines) == 3 and all(line.startswith(head) for line, head in zip(lines, heads, strict=True)), (
        err
    )
    first, why, fix = (line.removeprefix(head) for line, head in zip(lines, heads, strict=True))
    assert first and why and fix, err
    return first, why, fix
