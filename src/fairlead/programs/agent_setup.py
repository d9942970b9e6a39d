"""What agents of either kind are set up with: options, totals, environment, and the way to servers."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Callable
from pathlib import Path

import grpc
from msgspec import Struct

from fairlead.model.errors import Problem
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
    """What the machine has, as far as the options do not say otherwise."""
    totals = measure.totals(folder)
    given = [("cpu", options.cpus), ("memory", options.memory)]
    for name, text in [*given, *(pair(text) for text in options.resources)]:
        if text is None:
            continue
        amount = read_ask(name, text)
        if isinstance(amount, Problem):
            return amount
        totals[name] = amount
    return totals


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
