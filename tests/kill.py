"""Kill it: SIGKILL and SIGSTOP of real processes at random moments, while real work runs.

    python -m tests.kill 100 [--seed S]

One site, three agents, work submitted all the time. Each round strikes some of control, front, agents and
keepers, brings back what died, and goes on. In the end every accepted job has ended once, no attempt was
started twice, every output is whole to the byte, and no process is left behind.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from fairlead.base.dice import Dice
from fairlead.programs.up import end, keeper_of, processes

AGENTS = 3
SETTLE_S = 90.0
BATCH = """\
name: batch
jobs:
- name: quick
  count: 20
  run: |
    echo "start $FAIRLEAD_JOB $FAIRLEAD_INDEX $FAIRLEAD_ATTEMPT $FAIRLEAD_TERM" >> LEDGER
    echo "out $FAIRLEAD_INDEX"; echo "err $FAIRLEAD_INDEX" >&2
- name: talker
  count: 4
  run: |
    echo "start $FAIRLEAD_JOB $FAIRLEAD_INDEX $FAIRLEAD_ATTEMPT $FAIRLEAD_TERM" >> LEDGER
    for part in 1 2 3 4 5; do seq 1 2000; sleep 0.3; done
- name: alone
  count: 2
  on_silence: overlap
  needs: [quick]
  run: |
    echo "start $FAIRLEAD_JOB $FAIRLEAD_INDEX $FAIRLEAD_ATTEMPT $FAIRLEAD_TERM" >> LEDGER
    sleep 1; echo done
defaults: {retries: {infrastructure: 50}}
"""
TALK = "".join(f"{n}\n" for n in range(1, 2001)).encode() * 5


class Broken(AssertionError):
    """A promise did not hold."""


class Site:
    """The site under attack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.jobs: list[str] = []
        self.environment = {**os.environ, "FAIRLEAD_HOME": str(folder)}

    def command(self, *words: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """A command of a person."""
        return subprocess.run(
            [sys.executable, "-m", "fairlead", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def up(self) -> None:
        """Start what does not run."""
        done = self.command("up", "--detach", "--agents", str(AGENTS), "--listen", "127.0.0.1:0")
        if done.returncode:
            raise Broken(f"the site did not come up: {done.stderr}")

    def look(self, *words: str) -> Any:
        """What a command tells programs."""
        done = self.command(*words, "-o", "json")
        if done.returncode:
            raise Broken(f"{words}: {done.stderr}")
        return json.loads(done.stdout)

    def submit(self, number: int) -> None:
        """One more batch; what was accepted must end."""
        file = self.folder / f"batch-{number}.yaml"
        file.write_text(BATCH.replace("LEDGER", str(self.ledger)))
        done = self.command("submit", str(file))
        if done.returncode:
            raise Broken(f"a submit was not accepted: {done.stderr}")
        self.jobs.append(done.stdout.split()[0])

    def targets(self) -> dict[str, int]:
        """What can be struck, by name."""
        site = self.folder / "site"
        found = processes(site)
        server = found.get("server")
        if server:
            for child in psutil.Process(server).children():
                if "fairlead.programs.front" in child.cmdline():
                    found["front"] = child.pid
        for number in range(1, AGENTS + 1):
            if keeper := keeper_of((site / "agents" / str(number)).resolve()):
                found[f"keeper-{number}"] = keeper
        return found


def strike(site: Site, dice: Dice) -> str:
    """One round: some die, some stand still for a while."""
    targets = site.targets()
    names = sorted(targets)
    struck: list[str] = []
    everything = dice.chance(60)
    stopped: list[int] = []
    for name in names:
        if not (everything or dice.chance(300)):
            continue
        stop = dice.chance(250) and not everything
        struck.append(f"{'stop' if stop else 'kill'} {name}")
        try:
            os.kill(targets[name], signal.SIGSTOP if stop else signal.SIGKILL)
        except ProcessLookupError:
            continue
        if stop:
            stopped.append(targets[name])
    time.sleep(dice.between(0, 2_500) / 1000)
    for pid in stopped:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGCONT)
    return ", ".join(struck) or "nothing"


def settle(site: Site) -> None:
    """Everything that was accepted ends."""
    deadline = time.monotonic() + SETTLE_S
    open_jobs: list[str] = []
    while time.monotonic() < deadline:
        open_jobs = []
        for submission in site.jobs:
            for job in site.look("get", "jobs", "--submission", submission):
                if not job["ended"] or job["pending_output"]:
                    open_jobs.append(f"{submission}/{job['name']} {job['counts']} {job['pending_output']}")
        if not open_jobs:
            return
        time.sleep(0.3)
    raise Broken(f"these did not end in {SETTLE_S:.0f} s: {open_jobs}")


def judge(site: Site) -> dict[str, int]:
    """Once, whole, and nothing twice."""
    starts = Counter(site.ledger.read_text().split("\n"))
    twice = [line for line, count in starts.items() if line and count > 1]
    if twice:
        raise Broken(f"started twice: {twice}")
    figures = {"jobs": 0, "instances": 0, "reruns": 0, "incomplete": 0, "bytes": 0}
    for submission in site.jobs:
        for job in site.look("get", "jobs", "--submission", submission):
            figures["jobs"] += 1
            if job["state"] != "succeeded":
                raise Broken(f"{submission}/{job['name']} is {job['state']}: {job['counts']}")
            for instance in site.look("get", "instances", job["id"]):
                figures["instances"] += 1
                figures["reruns"] += instance["attempt"] - 1
                judge_output(site, job["name"], instance, figures)
    return figures


def judge_output(site: Site, name: str, instance: dict[str, Any], figures: dict[str, int]) -> None:
    """What was stored is what was written."""
    index = instance["index"]
    written = {
        "quick": (f"out {index}\n".encode(), f"err {index}\n".encode()),
        "talker": (TALK, b""),
        "alone": (b"done\n", b""),
    }[name]
    if instance["output"] != "complete":
        raise Broken(f"the output of {instance['id']} is {instance['output']}")
    for stream, expected in zip(("--stdout", "--stderr"), written, strict=True):
        done = subprocess.run(
            [sys.executable, "-m", "fairlead", "logs", instance["id"], stream],
            env=site.environment,
            capture_output=True,
            timeout=60,
            check=False,
        )
        read = done.stdout if stream == "--stdout" else done.stderr
        if read != expected:
            seen = hashlib.sha256(read).hexdigest()[:12]
            raise Broken(f"{instance['id']} {stream}: {len(read)} bytes ({seen}), not {len(expected)}")
        figures["bytes"] += len(expected)


def left_behind(folder: Path) -> list[str]:
    """Processes that still carry something of the site."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            told = " ".join(process.cmdline()) + " " + process.environ().get("FAIRLEAD_WORKSPACE", "")
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if str(folder) in told and process.pid != os.getpid():
            found.append(f"{process.pid} {told[:120]}")
    return found


def main(arguments: list[str]) -> int:
    """Rounds, then judgement."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill")
    parser.add_argument("rounds", type=int)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="fairlead-kill-")).resolve()
    site = Site(folder)
    dice = Dice(asked.seed)
    print(f"seed {asked.seed}, {asked.rounds} rounds, in {folder}", flush=True)
    began = time.monotonic()
    try:
        site.up()
        for number in range(asked.rounds):
            if number % 3 == 0:
                site.submit(number)
            print(f"round {number + 1}: {strike(site, dice)}", flush=True)
            site.up()
        settle(site)
        figures = judge(site)
    except Broken as broken:
        print(f"BROKEN with seed {asked.seed}: {broken}\nthe folder stays: {folder}", file=sys.stderr)
        end(folder / "site")
        return 1
    end(folder / "site")
    if orphans := left_behind(folder):
        print(f"BROKEN with seed {asked.seed}: left behind: {orphans}", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    told = ", ".join(f"{count} {name}" for name, count in figures.items())
    print(f"held: {asked.rounds} rounds in {time.monotonic() - began:.0f} s; {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
