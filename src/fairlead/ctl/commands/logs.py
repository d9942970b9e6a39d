"""`logs`: what work has printed, exact to the byte."""

from __future__ import annotations

from typing import Any

import click

from fairlead.ctl.client import Client
from fairlead.ctl.failures import INTERRUPTED
from fairlead.ctl.following import ERR, OUT, Follower, Interrupted, Signals, write_out
from fairlead.ctl.http import Cut
from fairlead.ctl.names import target
from fairlead.ctl.session import session


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option("-f", "--follow", is_flag=True, help="Go on until it ended.")
@click.option("--stdout", "only", flag_value="out", help="Only this stream.")
@click.option("--stderr", "only", flag_value="err", help="Only this stream.")
@click.option("--offset", type=click.IntRange(min=0), default=0, metavar="BYTES", help="Begin there.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="An earlier one.  [the newest]")
def logs(names: tuple[str, ...], follow: bool, only: str | None, offset: int, attempt: int | None) -> int:
    """Print the output of each NAME: its stdout to stdout, its stderr to stderr.

    Of a job with several instances it is the output of each in turn; `JOB/INDEX` is one of them.
    """
    client = session().client
    for name in names:
        wanted = target(name)
        job = client.get("jobs", wanted.work)
        count = int(job["count"])
        for index in range(count) if wanted.instance is None else (wanted.instance,):
            if follow and only is None and offset == 0 and attempt is None:
                if not printed(client, job["id"], index):
                    return INTERRUPTED
            else:
                for stream in [only] if only else ["out", "err"]:
                    copy(
                        client,
                        (job["id"], index),
                        stream,
                        offset,
                        {"follow": 1 if follow else None, "attempt": attempt},
                    )
    return 0


def printed(client: Client, job: str, index: int) -> bool:
    """Both streams as they come, to the end; false when the person leaves before it."""
    with Signals() as signals:
        try:
            Follower(client, job, index, write_out).to_end(signals)
        except Interrupted:
            return False
    return True


def copy(client: Client, instance: tuple[Any, int], stream: str, offset: int, asked: dict[str, Any]) -> None:
    """One stream from an offset on, over every cut; `asked` is what else is asked for."""
    job, index = instance
    kind = OUT if stream == "out" else ERR
    while True:
        answer = client.stream("jobs", job, "instances", index, "logs", stream=stream, offset=offset, **asked)
        try:
            for piece in answer.chunks():
                write_out(kind, piece)
                offset += len(piece)
            return
        except Cut:
            client.hang_up()
