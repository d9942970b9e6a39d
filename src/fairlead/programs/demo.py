"""The demonstration: a site of three agents, a pipeline, a machine that dies in the middle, and what became of it.

Everything is done by the commands a person would type; each is printed before its output. `KEEP=1` leaves the
site running.
"""

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
from pathlib import Path
from typing import Any

from fairlead.programs.places import read_json
from fairlead.programs.up import end, keeper_of

PIPELINE = """\
name: ci
jobs:
- name: build
  run: |
    echo compiling
    sleep 0.3
    echo built
- name: unit
  needs: [build]
  count: 8
  run: |
    sleep 0.2
    echo "unit test $FAIRLEAD_INDEX of $FAIRLEAD_COUNT passed on $FAIRLEAD_AGENT"
- name: soak
  needs: [build]
  run: |
    for step in 1 2 3 4; do echo "soak step $step on $FAIRLEAD_AGENT, attempt $FAIRLEAD_ATTEMPT"; sleep 1; done
- name: style
  needs: [build]
  run: |
    echo "src/a.py:3: line too long" >&2
    exit 3
- name: package
  needs: [unit, soak]
  run: echo packed
"""
EXPECTED = {
    "build": "succeeded",
    "unit": "succeeded",
    "soak": "succeeded",
    "style": "failed",
    "package": "succeeded",
}
WAIT_S = 45.0


def main() -> int:
    """Show it; 0 when everything ended as it should."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-demo-"))
    os.environ["FAIRLEAD_HOME"] = str(folder)
    for name in ("FAIRLEAD_CONTEXT", "FAIRLEAD_API", "FAIRLEAD_TOKEN"):
        os.environ.pop(name, None)
    demo = Demo(folder)
    try:
        code = demo.show()
    finally:
        if os.environ.get("KEEP") == "1":
            print(f"\nIt runs on. To use it:  export FAIRLEAD_HOME={folder}")
            print(f"To stop it:             FAIRLEAD_HOME={folder} fairlead down")
        else:
            end(folder / "site")
            shutil.rmtree(folder, ignore_errors=True)
    return code


class Demo:
    """One showing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = folder / "site"

    def show(self) -> int:
        """The whole of it."""
        began = time.monotonic()
        self.say("A site on this machine: one server, three agents, mutual TLS, a durable store.")
        self.command("up", "--detach", "--agents", "3", "--listen", "127.0.0.1:0")
        self.say("One action. Its output and its exit code come back.")
        code = self.command("run", "--", "sh", "-c", "echo hello from $FAIRLEAD_AGENT; exit 7")
        if code != 7:
            return self.failed(f"`run` returned {code} instead of 7")
        self.say("A pipeline: dependencies, an array of eight, one job that fails.")
        pipeline = self.folder / "ci.yaml"
        pipeline.write_text(PIPELINE)
        self.command("submit", str(pipeline))
        victim = self.kill_the_agent_of("soak")
        if victim is None:
            return self.failed("the job `soak` did not start")
        self.command("logs", "-f", "soak")
        self.wait_for_all()
        self.command("get", "jobs")
        self.command("get", "agents")
        self.command("history", "soak")
        self.command("why", "style")
        return self.judge(victim, time.monotonic() - began)

    def kill_the_agent_of(self, job: str) -> str | None:
        """Kill the machine under a running job: its agent and its keeper, with SIGKILL."""
        name = self.wait_until_running(job)
        if name is None:
            return None
        number = name.removeprefix("agent-")
        processes = read_json(self.site / "up.json")["processes"]
        self.say(f"{name} runs `{job}`. It is killed now, and its keeper with it: kill -9.")
        keeper = keeper_of(self.site / "agents" / number)
        for pid in (processes[name][0], keeper):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return name

    def wait_until_running(self, job: str) -> str | None:
        """The agent that runs it and has said its first word."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            found = self.look("get", "instances", job)
            if found and found[0]["state"] == "running":
                agent: str = found[0]["agent"]
                return agent
            time.sleep(0.1)
        return None

    def wait_for_all(self) -> None:
        """Until every job of the pipeline is over."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            if all(job["ended"] for job in self.look("get", "jobs")):
                return
            time.sleep(0.1)

    def judge(self, victim: str, seconds: float) -> int:
        """Say what became of it all."""
        jobs = {job["name"]: job for job in self.look("get", "jobs")}
        wrong = {
            name: jobs[name]["state"] for name, state in EXPECTED.items() if jobs[name]["state"] != state
        }
        soak = self.look("get", "instances", "soak")[0]
        if wrong:
            return self.failed(f"ended otherwise than expected: {wrong}")
        if soak["attempt"] < 2 or soak["agent"] == victim:
            return self.failed(f"`soak` was not finished elsewhere: {soak}")
        page = read_json(self.site / "server" / "addresses.json")["http"]
        self.say("Done.")
        print(f"  {len(jobs)} jobs accepted, {len(jobs)} ended, each once; `style` failed, as it should")
        print(
            f"  {victim} died with its keeper; `soak` was finished by {soak['agent']}, attempt {soak['attempt']}"
        )
        print(f"  the API of this site: {page}/openapi.json")
        print(f"  {seconds:.0f} s in all")
        return 0

    def failed(self, why: str) -> int:
        """Say what went wrong, with what the server said."""
        print(f"\nThe demonstration failed: {why}", file=sys.stderr)
        for log in sorted(self.site.glob("**/*.log")):
            tail = log.read_text(errors="replace").splitlines()[-10:]
            print(f"--- {log.name}", *tail, sep="\n", file=sys.stderr)
        return 1

    def say(self, text: str) -> None:
        """Between commands."""
        print(f"\n# {text}", flush=True)

    def command(self, *words: str) -> int:
        """Run one, as a person would."""
        shown = " ".join(f"'{word}'" if " " in word else word for word in words)
        print(f"$ fairlead {shown}", flush=True)
        return subprocess.run([sys.executable, "-m", "fairlead", *words], check=False).returncode

    def look(self, *words: str) -> list[dict[str, Any]]:
        """What a command tells programs."""
        command = [sys.executable, "-m", "fairlead", *words, "-o", "json"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            return []
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found


if __name__ == "__main__":
    sys.exit(main())
