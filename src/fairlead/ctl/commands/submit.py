"""`submit`: a job file, as it is, to the site that reads and checks it."""

from __future__ import annotations

import shlex
import sys
import time
from typing import Any

import click

from fairlead.ctl.client import Client, new_key, quote
from fairlead.ctl.failures import DID_NOT_SUCCEED, INTERRUPTED, WRONG_INPUT, Failure
from fairlead.ctl.mending import in_file
from fairlead.ctl.session import Session, session
from fairlead.ctl.talk import span

from .attach import ENDED

LARGEST_FILE = 4 << 20


@click.command()
@click.argument("file")
@click.option("--wait", is_flag=True, help="Show progress, and end with 1 unless everything succeeded.")
@click.option("--key", metavar="KEY", help="The same key submits it once, however often it is asked.")
def submit(file: str, wait: bool, key: str | None) -> int:
    """Submit the jobs of FILE, or of standard input as `-`; its id is the first line of stdout."""
    current = session()
    headers = {
        "Content-Type": "application/json" if file.endswith(".json") else "application/yaml",
        "X-File-Name": quote("stdin" if file == "-" else file),
        "Idempotency-Key": key or new_key(),
    }
    body = read(file)
    try:
        accepted = current.client.send("submissions", body=body, headers=headers)
    except Failure as refused:
        raise in_file(refused, file) if refused.status == WRONG_INPUT else refused from None
    name, jobs = accepted["submission"], accepted["jobs"]
    click.echo(name)
    if not wait:
        counted = f"{len(jobs)} job{'s' if len(jobs) != 1 else ''}"
        current.talk.say(f"{counted}: {', '.join(accepted['names'][:8])}")
        current.talk.say(f"fairlead wait {name}\nfairlead get jobs --submission {name}")
        return 0
    try:
        return follow(current, name)
    except KeyboardInterrupt:
        current.talk.say(
            f"detached  {name} goes on    back: fairlead wait {name}    end: fairlead cancel {name}"
        )
        return INTERRUPTED


def read(file: str) -> bytes:
    """What stands in a file."""
    try:
        body = sys.stdin.buffer.read(LARGEST_FILE + 1) if file == "-" else _read_file(file)
    except OSError as fault:
        fix = "fairlead submit - < FILE" if file == "-" else f"ls -l {shlex.quote(file)}"
        raise Failure(
            "no_such_file", f"{file} cannot be read", fault.strerror or str(fault), fix=fix
        ) from fault
    if len(body) > LARGEST_FILE:
        why = f"a submission is at most {LARGEST_FILE >> 20} MiB; split it, or use `count`"
        raise Failure("too_large", f"{file} is too large", why, fix=f"du -h {shlex.quote(file)}")
    return body


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(LARGEST_FILE + 1)


def jobs_of(client: Client, submission: str) -> list[dict[str, Any]]:
    """All jobs of a submission."""
    jobs: list[dict[str, Any]] = []
    after: Any = None
    while True:
        page = client.get("jobs", submission=submission, after=after, limit=500)
        jobs += page["items"]
        after = page.get("next")
        if not after:
            return jobs


def follow(current: Session, submission: str) -> int:
    """Until all jobs ended: a picture on a terminal, a line for each end elsewhere."""
    client, talk, begun = current.client, current.talk, time.monotonic()
    told: set[str] = set()
    while True:
        jobs = jobs_of(client, submission)
        # What failed stands before what ended in the same moment because of it.
        for job in sorted(jobs, key=lambda job: (job.get("ended") or 0, not started(job))):
            if job["state"] in ENDED and job["id"] not in told:
                told.add(job["id"])
                talk.say(line(job))
        unfinished = [job for job in jobs if job["id"] not in told]
        if not unfinished:
            break
        running = [job for job in unfinished if job["state"] == "running"] or unfinished
        talk_of(talk, jobs, running)
        # Answered as soon as that job ended; the others are looked at when it did, or after this long.
        client.get("jobs", running[0]["id"], wait="1s" if talk.terminal else "5s")
    good = all(job["state"] == "succeeded" for job in jobs)
    took = span((time.monotonic() - begun) * 1000)
    talk.say(f"{submission}  {word(jobs)} in {took}  {done(jobs)}{losses(jobs)}")
    if not good:
        bad = min((job for job in jobs if job["state"] != "succeeded"), key=_is_cause)
        # What never started has printed nothing.
        logs = f"\nfairlead logs {bad['name']}" if started(bad) else ""
        talk.say(f"fairlead why {bad['name']}{logs}")
    return 0 if good else DID_NOT_SUCCEED


def _is_cause(job: dict[str, Any]) -> tuple[bool, bool, int]:
    """What failed first goes before what was closed because of it."""
    return job["state"] != "failed", not started(job), int(job.get("ended") or 0)


def started(job: dict[str, Any]) -> bool:
    """Whether any instance of a job that ended had begun."""
    return int(job.get("never_started") or 0) < int(job["count"])


def word(jobs: list[dict[str, Any]]) -> str:
    """How jobs ended together."""
    states = {job["state"] for job in jobs}
    return "failed" if "failed" in states else "cancelled" if "cancelled" in states else "succeeded"


def losses(jobs: list[dict[str, Any]]) -> str:
    """How many jobs failed, were cancelled, and never came to run."""
    never = sum(not started(job) for job in jobs)
    counts = {
        "failed": sum(job["state"] == "failed" for job in jobs),
        "cancelled": sum(job["state"] == "cancelled" and started(job) for job in jobs),
        "never started": never - sum(job["state"] == "failed" and not started(job) for job in jobs),
    }
    told = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    return f"; of {len(jobs)} job{'s' if len(jobs) != 1 else ''} {told}" if told else ""


def talk_of(talk: Any, jobs: list[dict[str, Any]], running: list[dict[str, Any]]) -> None:
    """The live line; off a terminal the ends speak for themselves."""
    if talk.terminal:
        names = ", ".join(f"{job['name']} {job['state']}" for job in running[:3])
        talk.beat(f"{done(jobs)}  {names}")


def done(jobs: list[dict[str, Any]]) -> str:
    """How many instances ended, of how many."""
    ended = sum(int(number) for job in jobs for state, number in job["counts"].items() if state in ENDED)
    return f"{ended} of {sum(int(job['count']) for job in jobs)}"


def line(job: dict[str, Any]) -> str:
    """One job's end."""
    took = span(int(job.get("ended") or 0) - int(job.get("created") or 0))
    several = job["count"] > 1
    counts = ", ".join(f"{number} {state}" for state, number in sorted(job["counts"].items()) if number)
    more = counts if several else "" if started(job) else "never started"
    return f"  {job['name']:<20} {job['state']:<10} {took:>8}  {more}".rstrip()
