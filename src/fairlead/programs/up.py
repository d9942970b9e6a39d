"""`up`: a whole site on this machine, in one folder: a server and agents, as processes of their own.

Starts, waits until it is ready, tells how to use it, and ends what it started. It restarts nothing that was
killed: the same line brings one back, for everything else is in the folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from msgspec import Struct

from fairlead.ctl.client import Client
from fairlead.ctl.contexts import Site, data_home, keep
from fairlead.ctl.failures import Failure
from fairlead.ctl.talk import Talk
from fairlead.model.errors import Problem
from fairlead.programs.places import (
    check_listen,
    complain,
    make_folder,
    read_json,
    read_own,
    told_options,
    write_json,
)

READY_S = 30.0
END_S = 15.0
LOST_AFTER = "5s"


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of `fairlead up`."""

    dir: str
    agents: int | None = None
    detach: bool = False
    listen: str = ""
    context: str = ""
    quiet: bool = False


def main(told: Mapping[str, Any]) -> int:
    """Bring the site up; without --detach stay until Ctrl-C or TERM, then end it."""
    options = told_options(Options, told)
    wrong = check_listen(options.listen)
    if wrong is not None:
        return complain(wrong)
    up = Up(options)
    up.start()
    up.tell()
    if options.detach or not up.started:
        return 0
    up.wait()
    up.talk.say("stopping")
    end(up.folder, None if "server" in up.started else up.started)
    return 0


class Up:
    """One site coming up."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.folder = Path(options.dir).resolve()
        self.agents = options.agents if options.agents is not None else known_agents(self.folder)
        self.talk = Talk(options.quiet)
        name = "local" if self.folder == Path(data_home()).resolve() else self.folder.name
        # What this call started, not what ran before it.
        self.started: set[str] = set()
        self.site = Site(options.context or name, f"unix://{self.folder / 'server' / 'api.sock'}")
        self.client = Client(self.site, READY_S, Talk(quiet=True))

    def start(self) -> None:
        """Start what does not run, and wait until all of it is ready."""
        self._make_folders()
        running = processes(self.folder)
        if "server" not in running:
            self.started.add("server")
            running["server"] = self._start_server()
        names: list[str] = []
        for number in range(1, self.agents + 1):
            name = f"agent-{number}"
            names.append(name)
            if name not in running:
                self.started.add(name)
                running[name] = self._start_agent(name, number)
            self._record(running)
        self._record(running)
        self._until_ready(set(names), running)
        keep(self.site)

    def _make_folders(self) -> None:
        server = self.folder / "server"
        refusal = make_folder(server)
        if refusal is not None:
            raise Failure(refusal.code, refusal.message, refusal.why, refusal.where, refusal.fix)
        settings = server / "settings.yaml"
        if not settings.exists():
            settings.write_text(
                f"# A machine of one's own notices a loss sooner.\nlost_after: {LOST_AFTER}\n"
            )

    def _record(self, running: Mapping[str, int]) -> None:
        started = {name: [pid, _started(pid)] for name, pid in running.items()}
        write_json(self.folder / "up.json", {"processes": started})

    def _start_server(self) -> int:
        folder = self.folder / "server"
        addresses = folder / "addresses.json"
        before = addresses.stat().st_mtime_ns if addresses.exists() else 0
        command = ["server", "--dir", str(folder), "--name", self.site.name]
        if self.options.listen:
            command += ["--listen", self.options.listen]
        process = _launch(command, folder / "server.log")
        deadline = time.monotonic() + READY_S
        while not addresses.exists() or addresses.stat().st_mtime_ns == before:
            if process.poll() is not None:
                raise _did_not_start("the server", folder / "server.log")
            if time.monotonic() > deadline:
                process.terminate()
                raise _did_not_start("the server", folder / "server.log")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
        self.client.get("status")
        return process.pid

    def _start_agent(self, name: str, number: int) -> int:
        folder = self.folder / "agents" / str(number)
        folder.mkdir(0o700, parents=True, exist_ok=True)
        cpus, memory = share(self.agents)
        command = ["agent", "--dir", str(folder), "--cpus", str(cpus), "--memory", f"{memory}B"]
        command += ["--join", self._http()]
        if not (folder / "identity" / "cert.pem").exists():
            token = self.client.post("tokens", body={"role": "agent"})["token"]
            command += ["--token", token, "--name", name]
        return _launch(command, folder / "agent.log").pid

    def _http(self) -> str:
        address: str = read_json(self.folder / "server" / "addresses.json")["http"]
        return address

    def _until_ready(self, names: set[str], running: Mapping[str, int]) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            agents = {agent["name"]: agent["state"] for agent in self.client.get("agents")["items"]}
            missing = sorted(
                name for name in names if agents.get(name) not in ("ready", "cordoned", "draining")
            )
            if not missing:
                return
            for name in missing:
                if not alive(running[name]):
                    log = self.folder / "agents" / name.removeprefix("agent-") / "agent.log"
                    raise _did_not_start(name, log)
            if time.monotonic() > deadline:
                why = f"after {READY_S:.0f} s {', '.join(missing)} is not ready"
                raise Failure("not_ready", "the site did not become ready", why, fix="fairlead status")
            time.sleep(0.02)

    def tell(self) -> None:
        """What stands, and what to do next."""
        cpus, memory = share(self.agents) if self.agents else (0, 0)
        ready = "ready " if self.started else "runs already "
        self.talk.say(f"{ready}  {self._http()}   folder {self.folder}")
        agents = self.agents
        if agents:
            self.talk.say(f"agents  {agents}, each with {cpus} CPUs and {memory / 2**30:.1f} GiB")
            if agents * cpus > (os.cpu_count() or 1):
                self.talk.say(f"note    that is more CPUs than this machine's {os.cpu_count()}")
        self.talk.say("next    fairlead run -- echo hello")
        self.talk.say("        fairlead token create --role agent    (to let another machine join)")

    def wait(self) -> None:
        """Until Ctrl-C or TERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


def known_agents(folder: Path) -> int:
    """As many as the folder has from before; the first time it is one."""
    return len(list((folder / "agents").glob("*"))) or 1


def share(agents: int) -> tuple[int, int]:
    """CPUs and bytes of memory for each of so many agents on this machine."""
    cpus = max(1, (os.cpu_count() or 1) // max(agents, 1))
    return cpus, psutil.virtual_memory().total // max(agents, 1)


class Running(Struct, frozen=True):
    """What `up.json` remembers: pid and start of each process by name."""

    processes: dict[str, tuple[int, float]]


def processes(folder: Path) -> dict[str, int]:
    """What `up` started in this folder and still runs: name to pid."""
    known = read_own(folder / "up.json", Running, "what `up` has started here is then ended by hand")
    if isinstance(known, Problem):
        raise Failure(known.code, known.message, known.why, known.where, known.fix)
    began = known.processes.items() if known else ()
    return {name: pid for name, (pid, started) in began if alive(pid) and _started(pid) == started}


def end(folder: Path, only: Collection[str] | None = None) -> None:
    """End agents with what they run, then the server; or only those of them. The folder stays."""
    folder = folder.resolve()
    running = {name: pid for name, pid in processes(folder).items() if only is None or name in only}
    agents = {name: pid for name, pid in running.items() if name != "server"}
    _end_all(list(agents.values()))
    folders = [
        path for path in sorted(folder.glob("agents/*")) if only is None or f"agent-{path.name}" in only
    ]
    _end_all([pid for pid in map(keeper_of, folders) if pid])
    _end_all([pid for name, pid in running.items() if name == "server"])
    if only is None:
        (folder / "up.json").unlink(missing_ok=True)


def keeper_of(folder: Path) -> int:
    """The keeper that holds an agent's processes, which outlives its agent; 0 when there is none."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if len(words) > 2 and words[-2].endswith("keeper.py") and words[-1] == str(folder):
            return int(process.pid)
    return 0


def _end_all(pids: list[int]) -> None:
    found = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(found, END_S)
    for process in stubborn:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def alive(pid: int) -> bool:
    """Whether the process runs; one of ours that ended is waited for on the way."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _started(pid: int) -> float:
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return 0.0


def _launch(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "fairlead", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _did_not_start(what: str, log: Path) -> Failure:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    told = [line.strip() for line in lines[-3:]]
    first = next(
        (line.removeprefix("error: ") for line in told if line.startswith("error: ")), f"{what} ended"
    )
    why = next((line.removeprefix("why: ") for line in told if line.startswith("why: ")), f"its log is {log}")
    fix = next((line.removeprefix("fix: ") for line in told if line.startswith("fix: ")), f"tail {log}")
    if listen := re.search(r"--listen \S+", fix):
        fix = listen[0]  # Completed to the line that was typed here, not to the server's own.
    return Failure("did_not_start", first, why, fix=fix)
