"""What agents of either kind are set up with: options, totals, environment, and the way to servers."""

from __future__ import annotations

import os
import pwd
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path

import grpc
from msgspec import Struct

from fairlead.model.checks import LARGEST_TOTAL, LONGEST_NAME, MOST_DEVICES, MOST_NAMES
from fairlead.model.errors import Problem, quote
from fairlead.model.quantities import read_ask
from fairlead.shell.access.peers import server_name
from fairlead.shell.machine import measure
from fairlead.shell.machine.control_port import ControlStream
from fairlead.shell.machine.output_port import OutputStream
from fairlead.shell.wire.control_line import ControlLine
from fairlead.shell.wire.output import OutputLine


class Options(Struct, frozen=True):
    """The command line of `fairlead agent`."""

    dir: str
    join: str | None = None
    token: str | None = None
    name: str | None = None
    labels: tuple[str, ...] = ()
    cpus: str | None = None
    memory: str | None = None
    resources: tuple[str, ...] = ()
    on_stop: str = "keep"
    hollow: int | None = None
    seconds: float | None = None
    debug: bool = False


def measured_totals(folder: Path, options: Options) -> dict[str, int] | Problem:
    """What the machine has, as far as the options do not say otherwise; control would hang up on too much."""
    totals = measure.totals(folder)
    given = {"cpu": options.cpus, "memory": options.memory}
    # Of a name that stands twice the last one counts, as everywhere on a command line.
    for name, text in {**given, **dict(pair(text) for text in options.resources)}.items():
        if text is None:
            continue
        option = f"--{name}s" if name == "cpu" else "--memory" if name == "memory" else "--resource"
        amount = _amount(name, text, option)
        if isinstance(amount, Problem):
            return amount
        totals[name] = amount
    if len(totals) > MOST_NAMES:
        why = f"an agent has {MOST_NAMES} at most, with those that every machine has"
        fix = f"leave out {len(totals) - MOST_NAMES} of the options --resource"
        return Problem("too_many", f"{len(totals)} resources are too many", why, "--resource", fix)
    return totals


def _amount(name: str, text: str, option: str) -> int | Problem:
    largest = MOST_DEVICES * 1000 if name == "gpu" else LARGEST_TOTAL
    like = "1GiB" if name in ("memory", "disk") else "1"
    fix = f"{option} {shlex.quote(f'{name}={like}' if option == '--resource' else like)}"
    if not name or len(name) > LONGEST_NAME:
        why = f"a name has 1 to {LONGEST_NAME} letters"
        return Problem("not_a_name", f"{quote(name)} names no resource", why, option, "--resource ssd=1")
    amount = read_ask(name, text)
    if isinstance(amount, Problem):
        why = "; ".join(part for part in (amount.why, amount.fix) if part)
        return Problem(amount.code, f"{name}: {amount.message}", why, option, fix)
    if amount > largest:
        why = f"no machine has more than {MOST_DEVICES if name == 'gpu' else LARGEST_TOTAL}"
        return Problem("too_large", f"{quote(text)} is too much {name}", why, option, fix)
    return amount


def pair(text: str) -> tuple[str, str]:
    """`name=value`; a name alone is true."""
    name, equals, value = text.partition("=")
    return name, value if equals else "true"


def environment() -> dict[str, str]:
    """What every attempt sees, whoever started this agent."""
    user = pwd.getpwuid(os.getuid())
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.environ.get("HOME", user.pw_dir),
        "USER": user.pw_name,
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "TMPDIR": tempfile.gettempdir(),
    }


class Dialler:
    """Opens lines to servers of one site, each with the credentials of that moment."""

    def __init__(self, credentials: Callable[[], grpc.ChannelCredentials], site: str) -> None:
        self._credentials = credentials
        self._name = server_name(site)

    async def control(self, address: str) -> ControlStream | Problem:
        """A session with control."""
        return await ControlLine.dial(address, self._credentials(), name=self._name)

    async def output(self, address: str) -> OutputStream | Problem:
        """A line to a front."""
        return await OutputLine.dial(address, self._credentials(), name=self._name)
