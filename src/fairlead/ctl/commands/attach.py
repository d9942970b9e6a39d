"""`attach`: follow running work as `run` does; `wait`: until it is so."""

from __future__ import annotations

import time
from typing import Any

import click

from fairlead.ctl.client import HEARTBEAT, Client
from fairlead.ctl.failures import DID_NOT_SUCCEED, TIMED_OUT, Failure
from fairlead.ctl.names import Target, duration_ms, target
from fairlead.ctl.session import session
from fairlead.ctl.steering import follow_job

FAILED = frozenset({"failed", "cancelled", "timed_out", "refused", "stopped", "lost"})
ENDED = FAILED | {"succeeded"}
RUNNING = frozenset({"running", "ending", "updating"})


@click.command()
@click.argument("name")
def attach(name: str) -> int:
    """Follow NAME to its end; its output and exit code here, as `run` gives them."""
    wanted, client = target(name), session().client
    job = client.get("jobs", wanted.work)
    indices = (
        range(int(job["count"])) if wanted.instance is None else range(wanted.instance, wanted.instance + 1)
    )
    return follow_job(client, job["id"], job["name"], indices, ours=False)


@click.command()
@click.argument("name")
@click.option(
    "--for", "until", type=click.Choice(["ended", "succeeded", "running"]), default="ended", show_default=True
)
@click.option("--timeout", metavar="TIME", help="Give up then, with exit code 124.")
def wait(name: str, until: str, timeout: str | None) -> int:
    """Wait until NAME is so. Exit code 1: it can no longer be."""
    current = session()
    find = finder(current.client, target(name))
    begun = said = time.monotonic()
    left = duration_ms(timeout, "--timeout") / 1000 if timeout else float("inf")
    while True:
        # What runs is not announced by an end, so it is looked for more often.
        longest = 1.0 if until == "running" else min(HEARTBEAT, left)
        item = find(f"{int(min(longest, left) * 1000)}ms")
        state = str(item["state"])
        if (answer := verdict(state, until)) is not None:
            current.talk.say(f"{item.get('name', name)}  {state}")
            return answer
        now = time.monotonic()
        if timeout:
            left = begun + duration_ms(timeout, "--timeout") / 1000 - now
            if left <= 0:
                return TIMED_OUT
        if now - said >= (1.0 if current.talk.terminal else HEARTBEAT):
            current.talk.beat(f"{name}  {state}")
            said = now


def verdict(state: str, until: str) -> int | None:
    """0 it is so, 1 it can no longer be, None it may still be."""
    if until == "running" and state in RUNNING:
        return 0
    if state in ENDED:
        return 0 if until == "ended" or state == "succeeded" else DID_NOT_SUCCEED
    return None


def finder(client: Client, wanted: Target) -> Any:
    """How to look at a name: as a job or instance, or as a submission when there is no such job."""

    def as_job(wait: str) -> Any:
        return client.get(*wanted.parts(), wait=wait)

    def as_submission(wait: str) -> Any:
        return client.get("submissions", wanted.work, wait=wait)

    try:
        as_job("")
    except Failure as refused:
        if wanted.instance is not None or not refused.code.startswith("no_such"):
            raise
        try:
            as_submission("")
        except Failure:
            raise refused from None
        return as_submission
    return as_job
