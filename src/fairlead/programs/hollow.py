"""Plays a fleet: one join, then processes of hollow agents, each agent with a session of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import secrets
import signal
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import grpc
from msgspec import Struct

from fairlead.agent.words import Settings
from fairlead.model.errors import Problem
from fairlead.programs.agent_setup import Dialler, Options, measured_totals
from fairlead.programs.joining import Asking, Joined, Member, join
from fairlead.shell.access.identity import KEY, request
from fairlead.shell.access.machine_mark import boot_id
from fairlead.shell.machine.hollow_loop import run_hollow

# Agents that one process plays, and that one join gives certificates to: open files are bounded.
IN_ONE_PROCESS = 4_000


class Fleet(Struct, frozen=True):
    """What one process plays."""

    members: list[Member]
    key: bytes
    ca: bytes
    site: str
    control: list[str]
    totals: dict[str, int]
    seconds: float


def run_hollow_agents(count: int, options: Options) -> Problem | None:
    """Join, and play until the time is over or TERM comes."""
    with tempfile.TemporaryDirectory(prefix="fairlead-hollow-") as folder:
        totals = measured_totals(Path(folder), options)
        if isinstance(totals, Problem):
            return totals
        csr = request(Path(folder))
        key = (Path(folder) / KEY).read_bytes()
    fleets: list[Fleet] = []
    for first in range(0, count, IN_ONE_PROCESS):
        size = min(IN_ONE_PROCESS, count - first)
        name = options.name or "hollow"
        asking = Asking(options.token or "", csr, name if not first else f"{name}-{first}", count=size)
        joined = join((options.join or "").split(","), asking)
        if isinstance(joined, Problem):
            return joined
        fleets.append(_fleet(joined, key, totals, options.seconds or 0.0))
    print(f"{count} hollow agents of site {fleets[0].site} in {len(fleets)} processes", flush=True)
    _play_all(fleets)
    return None


def _fleet(joined: Joined, key: bytes, totals: dict[str, int], seconds: float) -> Fleet:
    return Fleet(joined.members, key, joined.ca.encode(), joined.site, joined.control, totals, seconds)


def _play_all(fleets: Sequence[Fleet]) -> None:
    """A process for each; gRPC must not have been used before a fork, so none is forked."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_play, args=(fleet,)) for fleet in fleets]

    def end(*_: object) -> None:
        for process in processes:
            if process.pid is not None:
                process.terminate()

    for process in processes:
        process.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    for process in processes:
        process.join()


def _play(fleet: Fleet) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A session is a socket or two.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(_play_fleet(fleet))


def _same(credentials: grpc.ChannelCredentials) -> grpc.ChannelCredentials:
    return credentials


async def _play_fleet(fleet: Fleet) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    boot = boot_id()
    members = []
    for member in fleet.members:
        shown = grpc.ssl_channel_credentials(fleet.ca, fleet.key, member.certificate.encode())
        settings = Settings(
            name=member.name,
            boot=boot,
            mark=f"hollow {member.number}",
            names=list(fleet.totals),
            totals=list(fleet.totals.values()),
            labels=["hollow=true"],
            control=fleet.control,
            seed=secrets.randbits(63),
        )
        # A fleet does not live long enough to renew.
        members.append((settings, Dialler(partial(_same, shown), fleet.site).control))
    await run_hollow(members, fleet.seconds, stop)
