"""`run`: one command on the site, its output and exit code here."""

from __future__ import annotations

import os
import stat
from typing import Any

import click

from fairlead.ctl.client import new_key
from fairlead.ctl.failures import Failure
from fairlead.ctl.names import pairs, quoted
from fairlead.ctl.session import session
from fairlead.ctl.steering import follow_job


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--name", metavar="NAME", help="What it is called; else a speakable name is made.")
@click.option("--cpus", metavar="N", help='Cores: 2, or "500m".  [1]')
@click.option("--memory", metavar="SIZE", help="Such as 4GiB.")
@click.option("--gpus", metavar="N", help="Whole GPUs.")
@click.option("--resource", "resources", multiple=True, metavar="NAME=N", help="Any other resource.")
@click.option(
    "--count", type=click.IntRange(min=1), metavar="N", help="So many instances, FAIRLEAD_INDEX from 0."
)
@click.option("--parallel", type=click.IntRange(min=1), metavar="N", help="How many of them at once.")
@click.option("--limit", metavar="TIME", help="The longest that it may run.")
@click.option("--where", multiple=True, metavar="RULE", help='Over labels of agents: "region == eu".')
@click.option("--priority", type=click.IntRange(0, 1000), metavar="N", help="Higher first.  [100]")
@click.option("--needs", multiple=True, metavar="JOB", help="Start after this job succeeded.")
@click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="A variable; without value, yours.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="For finding it again.")
@click.option("--key", metavar="KEY", help="The same key starts it once, however often it is asked.")
@click.option("--detach", is_flag=True, help="Print the id and leave.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
def run(command: tuple[str, ...], key: str | None, detach: bool, **given: Any) -> int:
    """Run COMMAND on the site.

    On the local socket it works in this folder, elsewhere in a fresh workspace. The exit code is the command's own:
    126 not executable, 127 not found, 128+n ended by signal n, 124 its limit, 125 a fault of ours, 130 cancelled.

    Standard input is not passed on yet: the command reads an empty one.
    """
    current = session()
    local = bool(current.site.socket)
    job = document(command, given, local=local)
    job["on_caller_gone"] = "continue" if detach else "cancel"
    if not local and not detach:
        current.talk.say(
            f"{current.site.name} is elsewhere: it runs in a fresh workspace, not in this folder"
        )
    try:
        accepted = current.client.post("submissions", body={"jobs": [job]}, key=key or new_key())
    except Failure as refused:
        raise in_options(refused) from None
    if has_input():
        current.talk.say("note: standard input is not passed on yet")
    number, name = accepted["jobs"][0], accepted["names"][0]
    if detach:
        click.echo(number)
        current.talk.say(f"fairlead attach {name}\nfairlead why {name}")
        return 0
    return follow_job(current.client, number, name, range(given["count"] or 1), ours=True)


def document(command: tuple[str, ...], given: dict[str, Any], *, local: bool) -> dict[str, Any]:
    """The job, in the words of a job file."""
    job: dict[str, Any] = {"command": list(command)}
    env = environment(given["env"])
    if local:
        job["dir"] = here()
        env.setdefault("PATH", os.environ.get("PATH", os.defpath))
    resources: dict[str, Any] = {
        name: number(text) for name, text in pairs(given["resources"], "--resource", "disk=1GiB").items()
    }
    for option, resource in (("cpus", "cpu"), ("memory", "memory"), ("gpus", "gpu")):
        if given[option] is not None:
            resources[resource] = number(given[option])
    fields = {
        "name": given["name"],
        "env": env,
        "resources": resources,
        "count": given["count"],
        "parallel": given["parallel"],
        "limits": {"run": given["limit"]} if given["limit"] else None,
        "where": list(given["where"]),
        "priority": given["priority"],
        "needs": list(given["needs"]),
        "labels": pairs(given["labels"], "--label", "team=core"),
    }
    return job | {name: value for name, value in fields.items() if value not in (None, [], {}, ())}


def has_input() -> bool:
    """Whether something lies ready for the command to read: in a pipe, or in a file."""
    import fcntl
    import termios

    try:
        found = os.fstat(0)
        if stat.S_ISFIFO(found.st_mode):
            return any(fcntl.ioctl(0, termios.FIONREAD, bytes(4)))
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size > 0


def here() -> str:
    """The caller's folder, which may have been removed under its feet."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        why = "on the local socket a command works in the folder of its caller"
        raise Failure("no_such_dir", "this folder is not there any more", why, fix='cd "$HOME"') from None


# Field of a job: the option that fills it, and a value that is right anywhere.
OPTIONS = {
    "name": ("--name", "build"), "resources.cpu": ("--cpus", "1"), "resources.memory": ("--memory", "1GiB"),
    "resources.gpu": ("--gpus", "1"), "resources": ("--resource", "disk=1GiB"), "limits.run": ("--limit", "1h"),
    "where": ("--where", "arch in (x86_64, aarch64)"), "needs": ("--needs", "build"), "env": ("--env", "CI=true"),
    "labels": ("--label", "team=core"), "parallel": ("--parallel", "2"), "count": ("--count", "2"),
    "priority": ("--priority", "100"), "dir": ("the folder here", ""),
}  # fmt: skip


# Refusals whose fix is the value as it was probably meant.
WRITTEN = frozenset({"unit", "too_large", "out_of_range"})


def in_options(refused: Failure) -> Failure:
    """A refusal of a field, told as one of the option that was typed."""
    import re

    for each in [refused, *refused.others]:
        field = re.sub(r"^jobs\[0\]\.?", "", each.where)
        plain = re.sub(r"\[\d+\]", "", field)
        option, like = OPTIONS.get(plain) or OPTIONS.get(plain.split(".")[0]) or (field, "")
        each.where = option
        if like and not each.fix.startswith("fairlead "):
            written = re.fullmatch(r"write (\d\S*)", each.fix) if each.code in WRITTEN else None
            each.why = f"{each.why}; {each.fix}" if each.why and each.fix else each.why or each.fix
            each.fix = f"{option} {quoted(written[1] if written else like)}"
    return refused


def environment(given: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` as it stands, `NAME` with the caller's value."""
    read: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals and name not in os.environ:
            why = "without `=` the value is yours, and you have none"
            raise Failure("usage", f"{name} is not set here", why, "--env", f"--env {name}=")
        read[name] = value if equals else os.environ[name]
    return read


def number(text: str) -> int | float | str:
    """A number where it is one; sizes and the like stay as they are written."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text
