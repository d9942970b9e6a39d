"""Kill it: SIGKILL and SIGSTOP of real processes at random moments, while real work runs.

    python -m tests.kill 100 [--seed S]

One site, three agents, work submitted all the time, most of it while nobody is there to take it. Each round
strikes some of control, front, agents, keepers and their watchers, brings back what died, and goes on. In the
end every accepted job has ended once, no attempt was started twice, every output is whole to the byte, and no
process is left behind.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from fairlead.base.dice import Dice
from fairlead.ctl.client import Client
from fairlead.ctl.commands.look import pages
from fairlead.ctl.contexts import Site as Context
from fairlead.ctl.failures import Failure
from fairlead.ctl.talk import Talk
from fairlead.programs.up import end, keeper_of, processes

AGENTS = 3
SETTLE_S = 90.0
ANSWER_S = 60.0
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


JOBS = BATCH.count("- name: ")


class Broken(AssertionError):
    """A promise did not hold."""


class Site:
    """The site under attack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.jobs: list[str] = []
        self.waiting: list[subprocess.Popen[str]] = []
        self.environment = {**os.environ, "FAIRLEAD_HOME": str(folder)}
        socket = folder / "site" / "server" / "api.sock"
        self.client = Client(Context("kill", f"unix://{socket}"), ANSWER_S, Talk(quiet=True))

    def command(self, *words: str) -> subprocess.Popen[str]:
        """A command of a person, begun."""
        return subprocess.Popen(
            [sys.executable, "-m", "fairlead", *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def up(self) -> None:
        """Start what does not run."""
        up = self.command("up", "--detach", "--agents", str(AGENTS), "--listen", "127.0.0.1:0")
        _, said = up.communicate(timeout=ANSWER_S)
        if up.returncode:
            raise Broken(f"the site did not come up: {said}")

    def submit(self, number: int) -> None:
        """Begin to submit one more batch; during an outage the command waits."""
        file = self.folder / f"batch-{number}.yaml"
        file.write_text(BATCH.replace("LEDGER", str(self.ledger)))
        self.waiting.append(self.command("--connect-timeout", str(ANSWER_S), "submit", str(file)))

    def accepted(self) -> None:
        """Every submit succeeds once the site is back; what was accepted must end."""
        while self.waiting:
            submit = self.waiting.pop()
            told, said = submit.communicate(timeout=2 * ANSWER_S)
            if submit.returncode:
                raise Broken(f"a submit was not accepted: {said}")
            self.jobs.append(told.split()[0])

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
                if watcher := watcher_of(keeper):
                    found[f"watcher-{number}"] = watcher
        return found


def watcher_of(keeper: int) -> int:
    """Who ends everything when this keeper dies; 0 when there is none just now."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(keeper).children():
            with suppress(psutil.NoSuchProcess):
                if "--watch" in child.cmdline():
                    return child.pid
    return 0


def strike(site: Site, dice: Dice, meanwhile: Callable[[], None]) -> str:
    """One round: some die, some stand still for a while, in which something else is begun."""
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
    meanwhile()
    time.sleep(dice.between(0, 2_500) / 1000)
    for pid in stopped:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGCONT)
    return ", ".join(struck) or "nothing"


def nothing() -> None:
    """Begun meanwhile in most rounds."""


def settle(site: Site) -> list[dict[str, Any]]:
    """Everything that was accepted ends; every job with its submission, as it is then."""
    deadline = time.monotonic() + SETTLE_S
    ended: list[dict[str, Any]] = []
    for submission in site.jobs:
        while unfinished := [job for job in jobs_of(site, submission) if open_still(job)]:
            if time.monotonic() > deadline:
                told = [f"{job['name']} {job['counts']} {job['pending_output']}" for job in unfinished]
                raise Broken(f"these of {submission} did not end in {SETTLE_S:.0f} s: {told}")
            time.sleep(0.1)
        ended += jobs_of(site, submission)
    return ended


def jobs_of(site: Site, submission: str) -> list[dict[str, Any]]:
    """All jobs of a submission."""
    return pages(site.client, "jobs", submission=submission)


def open_still(job: dict[str, Any]) -> bool:
    """Whether something of it is still to come."""
    return not job["ended"] or bool(job["pending_output"])


def judge(site: Site, jobs: list[dict[str, Any]]) -> dict[str, int]:
    """Once, whole, and nothing twice."""
    starts = Counter(site.ledger.read_text().split("\n"))
    twice = [line for line, count in starts.items() if line and count > 1]
    if twice:
        raise Broken(f"started twice: {twice}")
    if len(jobs) != JOBS * len(site.jobs):
        raise Broken(f"{len(site.jobs)} submissions have {len(jobs)} jobs")
    figures = {"jobs": 0, "instances": 0, "reruns": 0, "incomplete": 0, "bytes": 0}
    for job in jobs:
        figures["jobs"] += 1
        if job["state"] != "succeeded":
            raise Broken(f"{job['id']} {job['name']} is {job['state']}: {job['counts']}")
        instances = pages(site.client, "jobs", job["id"], "instances")
        if sorted(instance["index"] for instance in instances) != list(range(job["count"])):
            raise Broken(f"{job['id']} {job['name']} has {len(instances)} instances, not {job['count']}")
        for instance in instances:
            figures["instances"] += 1
            figures["reruns"] += instance["attempt"] - 1
            judge_output(site, job, instance, figures)
    return figures


def judge_output(site: Site, job: dict[str, Any], instance: dict[str, Any], figures: dict[str, int]) -> None:
    """What was stored is what was written."""
    index = instance["index"]
    written = {
        "quick": (f"out {index}\n".encode(), f"err {index}\n".encode()),
        "talker": (TALK, b""),
        "alone": (b"done\n", b""),
    }[job["name"]]
    if instance["output"] != "complete":
        raise Broken(f"the output of {instance['id']} is {instance['output']}")
    for stream, expected in zip(("out", "err"), written, strict=True):
        read = site.client.stream("jobs", job["id"], "instances", index, "logs", stream=stream).body()
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
            meanwhile = partial(site.submit, number) if number % 3 == 0 else nothing
            print(f"round {number + 1}: {strike(site, dice, meanwhile)}", flush=True)
            site.up()
            site.accepted()
        figures = judge(site, settle(site))
    except (Broken, Failure, subprocess.TimeoutExpired) as broken:
        for submit in site.waiting:
            submit.kill()
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
