"""An agent's process: joins once, then runs on its folder. Wiring only."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import secrets
import signal
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.agent.core import Agent
from fairlead.agent.words import Settings, StopAsked
from fairlead.model.errors import Problem, render
from fairlead.programs.agent_setup import Dialler, Options, environment, measured_totals, pair
from fairlead.programs.hollow import run_hollow_agents
from fairlead.programs.joining import Asking, join
from fairlead.programs.places import read_json, write_json
from fairlead.shell.access import durable
from fairlead.shell.access.identity import Identity, install, load, request
from fairlead.shell.access.machine_mark import boot_id, machine_mark
from fairlead.shell.access.tls import channel_credentials
from fairlead.shell.blobs.codec import squeeze
from fairlead.shell.machine import measure
from fairlead.shell.machine.agent_loop import AgentLoop
from fairlead.shell.machine.control_port import ControlPort
from fairlead.shell.machine.keeper_link import KeeperLink
from fairlead.shell.machine.keeper_port import KeeperPort
from fairlead.shell.machine.memory import Memory, Servers, read_fence, read_servers
from fairlead.shell.machine.output_port import OutputPort
from fairlead.shell.machine.spool import Spool

LOG = logging.getLogger("fairlead.agent")
FORMAT = 1
MEASURE_S = 5.0
LARGEST_SPOOL = 10 << 30


class Folder(Struct, frozen=True):
    """What the folder says of itself: which release may read it, and whose it is."""

    format: int
    oldest_reader: int
    number: int
    name: str
    site: str


def main(told: Mapping[str, Any]) -> int:
    """Run until TERM or Ctrl-C; the exit code."""
    options = msgspec.convert(told, Options)
    logging.basicConfig(
        level=logging.DEBUG if options.debug else logging.INFO,
        format="%(asctime)s agent %(levelname)s %(name)s: %(message)s",
    )
    if options.hollow:
        problem = run_hollow_agents(options.hollow, options)
    else:
        problem = _run_folder(options)
    if problem is None:
        return 0
    print(render(problem), file=sys.stderr)
    return 2


def _run_folder(options: Options) -> Problem | None:
    folder = Path(options.dir).resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(folder / "agent.lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return Problem(
                "in_use", f"another agent runs in {folder}", where="--dir", fix="use another folder"
            )
        known = _open_folder(folder, options)
        if isinstance(known, Problem):
            return known
        about, identity = known
        settings = _settings(folder, about, options)
        if isinstance(settings, Problem):
            return settings
        print(f"agent {about.name} of site {about.site} runs in {folder}", flush=True)
        asyncio.run(_serve(folder, about, identity, settings, options.on_stop == "keep"))
    return None


def _open_folder(folder: Path, options: Options) -> tuple[Folder, Identity] | Problem:
    """What the folder holds from an earlier start, else what a join gives it."""
    held = read_json(folder / "agent.json")
    if held is not None and held.get("oldest_reader", 0) > FORMAT:
        return Problem(
            "later_format",
            f"{folder} was written by a later release",
            where="--dir",
            fix="install that release, or join again with an empty folder",
        )
    identity = load(folder / "identity")
    if held is not None and isinstance(identity, Identity):
        return msgspec.convert(held, Folder), identity
    if not options.join or not options.token:
        why = "this folder has not joined a site yet"
        return Problem("not_joined", why, fix="fairlead agent --join HOST:PORT --token TOKEN --dir DIR")
    return _join(folder, options)


def _join(folder: Path, options: Options) -> tuple[Folder, Identity] | Problem:
    name = options.name or os.uname().nodename.split(".")[0]
    asking = Asking(options.token or "", request(folder / "identity"), name, list(options.labels))
    joined = join((options.join or "").split(","), asking)
    if isinstance(joined, Problem):
        return joined
    identity = install(folder / "identity", joined.certificate, joined.ca)
    if isinstance(identity, Problem):
        return identity
    servers = msgspec.json.encode(Servers(joined.control, joined.output))
    durable.replace(folder / "servers.json", servers)
    about = Folder(FORMAT, FORMAT, joined.number, joined.name, joined.site)
    write_json(folder / "agent.json", msgspec.to_builtins(about))
    return about, identity


def _settings(folder: Path, about: Folder, options: Options) -> Settings | Problem:
    totals = measured_totals(folder, options)
    if isinstance(totals, Problem):
        return totals
    servers = read_servers(folder)
    labels = {**measure.labels(), **dict(pair(text) for text in options.labels)}
    return Settings(
        name=about.name,
        boot=boot_id(),
        mark=machine_mark(folder),
        names=list(totals),
        totals=list(totals.values()),
        labels=[f"{name}={value}" for name, value in labels.items()],
        control=servers.control,
        output=servers.output,
        fence=read_fence(folder),
        seed=secrets.randbits(63),
        environment=environment(),
        inherited={name: text for name, text in os.environ.items() if not name.startswith("FAIRLEAD_")},
        attempts=str(folder / "attempts"),
        spool=str(folder / "spool"),
        spool_bytes=min(LARGEST_SPOOL, totals["disk"] // 5),
    )


async def _serve(folder: Path, about: Folder, identity: Identity, settings: Settings, keep: bool) -> None:
    dialler = Dialler(channel_credentials(identity), about.site)
    loop = AgentLoop(Agent(settings))
    spool = Spool(folder / "spool", squeeze)
    (folder / "attempts").mkdir(mode=0o700, exist_ok=True)

    def begin(keys: Collection[str]) -> None:
        spool.keep_only(keys)
        loop.start(spool.follow(loop.post))

    keeper = KeeperPort(loop, KeeperLink(folder), begin)
    output = OutputPort(loop, dialler.output, spool)
    control = ControlPort(loop, dialler.control)
    memory = Memory(loop, folder, durable.replace)
    for port in (keeper, spool, output, control, memory):
        loop.serve(port.handlers())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, loop.post, StopAsked(keep))
    loop.start(keeper.work())
    loop.start(_measure(loop))
    try:
        await loop.run()
    finally:
        output.close()


async def _measure(loop: AgentLoop) -> None:
    while True:
        loop.post(measure.measure())
        await asyncio.sleep(MEASURE_S)
