"""An agent's process: joins once, then runs on its folder. Wiring only."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import secrets
import shlex
import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.agent.core import Agent
from fairlead.agent.words import Settings, StopAsked
from fairlead.ctl.contexts import data_home
from fairlead.model.errors import Problem
from fairlead.model.storage import Fence
from fairlead.programs.agent_setup import Dialler, Options, environment, measured_totals, pair
from fairlead.programs.hollow import run_hollow_agents
from fairlead.programs.joining import Asking, join
from fairlead.programs.places import aside, closed, complain, make_folder, read_own
from fairlead.programs.renewing import Renewing, from_site, renew_at_start, where_now
from fairlead.shell.access import durable
from fairlead.shell.access.identity import KEY, Identity, install, load, request
from fairlead.shell.access.machine_mark import boot_id, machine_mark
from fairlead.shell.access.tls import channel_credentials
from fairlead.shell.blobs.codec import squeeze
from fairlead.shell.machine import measure
from fairlead.shell.machine.agent_loop import AgentLoop
from fairlead.shell.machine.control_port import ControlPort
from fairlead.shell.machine.keeper_link import KeeperLink
from fairlead.shell.machine.keeper_port import KeeperPort
from fairlead.shell.machine.memory import FENCE, SERVERS, Memory, Servers
from fairlead.shell.machine.output_port import OutputPort
from fairlead.shell.machine.spool import Spool

LOG = logging.getLogger("fairlead.agent")
FORMAT = 1
MEASURE_S = 5.0
LARGEST_SPOOL = 10 << 30


class Written(Struct, frozen=True):
    """Who may read the folder, whatever else a later release writes there."""

    oldest_reader: int = 0


class Folder(Struct, frozen=True):
    """What the folder says of itself: which release may read it, and whose it is."""

    format: int
    oldest_reader: int
    number: int
    name: str
    site: str
    # Where the site was joined, for all that is asked over HTTP: the next certificate.
    join: list[str] = []


def main(told: Mapping[str, Any]) -> int:
    """Run until TERM or Ctrl-C; the exit code."""
    given = {name: value for name, value in told.items() if value is not None}
    options = msgspec.convert({"dir": default_folder(), **given}, Options)
    logging.basicConfig(
        level=logging.DEBUG if options.debug else logging.INFO,
        format="%(asctime)s agent %(levelname)s %(name)s: %(message)s",
    )
    if options.hollow:
        problem = run_hollow_agents(options.hollow, options)
    else:
        try:
            problem = _run_folder(options)
        except PermissionError as fault:
            problem = closed(fault, Path(options.dir).resolve())
    return 0 if problem is None else complain(problem)


def default_folder() -> str:
    """Where an agent that was told no folder keeps what it is."""
    return f"{data_home()}-agent"


def _run_folder(options: Options) -> Problem | None:
    folder = Path(options.dir).resolve()
    refusal = make_folder(folder)
    if refusal is not None:
        return refusal
    # What cannot be is said before a token is spent.
    totals = measured_totals(folder, options)
    if isinstance(totals, Problem):
        return totals
    with open(folder / "agent.lock", "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            return _in_use(folder, lock.read().strip())
        lock.truncate(0)
        print(os.getpid(), file=lock, flush=True)
        known = _open_folder(folder, options)
        if isinstance(known, Problem):
            return known
        about, identity = known
        settings = _settings(folder, about, identity, options, totals)
        if isinstance(settings, Problem):
            return settings
        print(f"agent {about.name} of site {about.site} runs in {folder}", flush=True)
        renewing = Renewing(identity, from_site(about.join))
        asyncio.run(_serve(folder, about, renewing, settings, options.on_stop == "keep"))
    return None


def _in_use(folder: Path, holder: str) -> Problem:
    why = f"one folder serves one agent at a time, and process {holder or 'unknown'} has it"
    fix = f"kill {holder}" if holder else f"fuser -k {folder / 'agent.lock'}"
    return Problem("in_use", f"another agent runs in {folder}", why, "--dir", fix)


def _open_folder(folder: Path, options: Options) -> tuple[Folder, Identity] | Problem:
    """What the folder holds from an earlier start, else what a join gives it."""
    held = _about(folder, options)
    if isinstance(held, Problem):
        return held
    identity = load(folder / "identity")
    if held is not None and isinstance(identity, Identity):
        about = _with_addresses(folder, held, options)
        renewed = renew_at_start(identity, from_site(about.join))
        if isinstance(renewed, Identity):
            return about, renewed
        return _join(folder, options) if options.join and options.token else renewed
    if held is not None and isinstance(identity, Problem):
        return _lost_identity(folder, options, identity, held.join)
    if not options.join or not options.token:
        why = "at its first start an agent is told where a site is, and a token that lets it in"
        fix = '--join HOST:PORT --token "$(fairlead token create --role agent)"'
        return Problem("not_joined", f"{folder} has not joined a site yet", why, fix=_again(folder, fix))
    return _join(folder, options)


def _about(folder: Path, options: Options) -> Folder | Problem | None:
    """What the folder says of itself; a later release may say it otherwise."""
    path = folder / "agent.json"
    effect, fix = "whose it is cannot be known any more: join anew", _anew(folder, options)
    written = read_own(path, Written, effect, fix)
    if written is None or isinstance(written, Problem):
        return written
    if written.oldest_reader > FORMAT:
        return Problem(
            "later_format",
            f"{folder} was written by a later release",
            f"it needs a reader of format {written.oldest_reader}, this release reads up to {FORMAT}",
            "--dir",
            "pip install --upgrade fairlead",
        )
    return read_own(path, Folder, effect, fix)


def _lost_identity(folder: Path, options: Options, found: Problem, join: list[str]) -> Problem:
    """A machine that cannot show any more who it is joins as a new one."""
    why = f"{found.why}; join anew" if found.code == "identity_damaged" else "its certificate is gone"
    return Problem("identity_damaged", found.message, why, found.where, _anew(folder, options, join))


def _anew(folder: Path, options: Options, join: Sequence[str] = ()) -> str:
    """The line that joins this machine again, under another name and from a fresh folder."""
    fresh = aside(folder, "new")
    name = f"{options.name or _host()}-new-{secrets.token_hex(2)}"
    where = options.join or ",".join(join) or "HOST:PORT"
    token = '"$(fairlead token create --role agent)"'
    return _again(fresh, f"--join {shlex.quote(where)} --token {token} --name {shlex.quote(name)}")


def _host() -> str:
    return os.uname().nodename.split(".")[0]


def _with_addresses(folder: Path, about: Folder, options: Options) -> Folder:
    """A site that moved is said again, and kept."""
    told = options.join.split(",") if options.join else about.join
    if told != about.join:
        about = msgspec.structs.replace(about, join=told)
        durable.replace(folder / "agent.json", msgspec.json.encode(about))
    return about


def _again(folder: Path, told: str) -> str:
    return f"fairlead agent --dir {shlex.quote(str(folder))} {told}"


def _join(folder: Path, options: Options) -> tuple[Folder, Identity] | Problem:
    try:
        csr = request(folder / "identity")
    except (ValueError, TypeError) as fault:
        where = str(folder / "identity" / KEY)
        return Problem(
            "identity_damaged", "the key cannot be read", str(fault), where, _anew(folder, options)
        )
    asking = Asking(options.token or "", csr, options.name or _host(), list(options.labels))
    addresses = (options.join or "").split(",")
    joined = join(addresses, asking)
    if isinstance(joined, Problem):
        return joined
    identity = install(folder / "identity", joined.certificate, joined.ca)
    if isinstance(identity, Problem):
        return identity
    servers = msgspec.json.encode(Servers(joined.control, joined.output))
    durable.replace(folder / SERVERS, servers)
    about = Folder(FORMAT, FORMAT, joined.number, joined.name, joined.site, addresses)
    durable.replace(folder / "agent.json", msgspec.json.encode(about))
    return about, identity


def _servers(folder: Path, about: Folder, identity: Identity) -> Servers | Problem:
    """Where servers were last; the site is asked when that is not known."""
    effect = f"without it the site is asked, at {', '.join(about.join) or 'the address of --join'}"
    known = read_own(folder / SERVERS, Servers, effect)
    if known is not None:
        return known
    found = where_now(about.join, identity)
    return found if isinstance(found, Problem) else Servers(found.control, found.output)


def _settings(
    folder: Path, about: Folder, identity: Identity, options: Options, totals: dict[str, int]
) -> Settings | Problem:
    servers = _servers(folder, about, identity)
    if isinstance(servers, Problem):
        return servers
    fence = read_own(folder / FENCE, Fence, "without it the agent obeys the first leader that speaks to it")
    if isinstance(fence, Problem):
        return fence
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
        fence=fence,
        seed=secrets.randbits(63),
        environment=environment(),
        inherited={name: text for name, text in os.environ.items() if not name.startswith("FAIRLEAD_")},
        attempts=str(folder / "attempts"),
        spool=str(folder / "spool"),
        spool_bytes=min(LARGEST_SPOOL, totals["disk"] // 5),
    )


async def _serve(folder: Path, about: Folder, renewing: Renewing, settings: Settings, keep: bool) -> None:
    dialler = Dialler(lambda: channel_credentials(renewing.current()), about.site)
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
    loop.start(renewing.run())
    try:
        await loop.run()
    finally:
        output.close()


async def _measure(loop: AgentLoop) -> None:
    while True:
        loop.post(measure.measure())
        await asyncio.sleep(MEASURE_S)
