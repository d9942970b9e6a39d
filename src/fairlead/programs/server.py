"""A server's process: control, and the front that it starts and brings back. Wiring only."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import shlex
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from fairlead.ctl import contexts
from fairlead.ctl.failures import Failure
from fairlead.model.errors import Problem
from fairlead.model.limits import Settings
from fairlead.model.quantities import read_duration
from fairlead.plane.plane import Plane
from fairlead.programs.front import READY, FrontPlace
from fairlead.programs.membership import become_member
from fairlead.programs.places import (
    check_listen,
    closed,
    complain,
    join_host,
    make_folder,
    read_own,
    split_listen,
    told_options,
    write_json,
)
from fairlead.programs.renewing import Renewing, from_authority, issue_own
from fairlead.shell.access.ca import open_authority
from fairlead.shell.access.identity import Identity, load
from fairlead.shell.access.tls import agent_of, is_server, server_credentials
from fairlead.shell.control.loop import ControlLoop
from fairlead.shell.store.choose import open_store
from fairlead.shell.wire.agents import AgentDoor
from fairlead.shell.wire.fronts import FrontDoor
from fairlead.shell.wire.listening import Listening, listen

LOG = logging.getLogger("fairlead.server")
FRONT_PAUSE_S = (0.1, 5.0)
# A front whose control was killed ends its streams before it goes.
LINGER_S = 15.0


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of `fairlead server`."""

    dir: str
    listen: str = ""
    store: str = ""
    blobs: str = ""
    join: str = ""
    token: str = ""
    name: str = ""
    on_ready: Callable[[dict[str, Any]], None] | None = None


def main(told: Mapping[str, Any]) -> int:
    """Serve until TERM or Ctrl-C."""
    options = told_options(Options, told)
    gc.enable()  # The command line lives too briefly to collect; a server does not.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s control %(levelname)s %(name)s: %(message)s")
    folder = Path(options.dir).resolve()
    try:
        problem = check_listen(options.listen) or make_folder(folder) or _start(options, folder)
    except PermissionError as fault:
        problem = closed(fault, folder)
    return 0 if problem is None else complain(problem)


def _start(options: Options, folder: Path) -> Problem | None:
    """The folder remembers where the site's store and blobs are: after the first start it is enough."""
    known = remembered(options, folder)
    if isinstance(known, Problem):
        return known
    return asyncio.run(_run(replace(options, store=known["store"], blobs=known["blobs"]), folder))


def remembered(options: Options, folder: Path) -> dict[str, str] | Problem:
    """Store and blobs as given now, else as this folder knows them; a folder keeps to one kind of store."""
    path = folder / "server.json"
    alone = {"store": "", "blobs": ""}
    here = (folder / "store.db").exists()
    effect = (
        "the store is the one in this folder" if here else "say --store and --blobs again at the next start"
    )
    kept = read_own(path, Kept, effect)
    if isinstance(kept, Problem):
        return kept
    known = msgspec.structs.asdict(kept) if kept else alone if here else None
    now = {"store": options.store, "blobs": options.blobs}
    if known is None:
        write_json(path, now)
        return now
    if options.store and bool(known["store"]) != bool(options.store):
        return Problem(
            "other_store",
            f"the server in {folder} has its store elsewhere",
            f"it was first started with {known['store'] or 'the store in its own folder'}",
            "--store",
            f"fairlead server --dir {folder}",
        )
    both = {name: now[name] or known[name] for name in now}
    if both != known:
        write_json(path, both)
    return both


async def _run(options: Options, folder: Path) -> Problem | None:
    settings = read_settings(folder)
    if isinstance(settings, Problem):
        return settings
    refusal = await asyncio.to_thread(become_member, options, folder)
    if refusal is not None:
        return refusal
    store = await open_store(options.store or folder)
    if isinstance(store, Problem):
        return store
    try:
        renewing = _identity(folder, store.site, split_listen(options.listen)[0], settings)
        if isinstance(renewing, Problem):
            return renewing
        return await _serve(options, folder, settings, store, renewing)
    finally:
        await store.close()


async def _serve(
    options: Options, folder: Path, settings: Settings, store: Any, renewing: Renewing
) -> Problem | None:
    where = _where(options, folder)
    if isinstance(where, Problem):
        return where
    host, ports = where
    late = _Late()
    agents = AgentDoor(late.take, agent_of)
    fronts = FrontDoor(late.take, is_server)
    listening = await _listen(options, [agents, fronts], host, ports, renewing)
    if isinstance(listening, Problem):
        return listening
    control = join_host(host, listening.port)
    loop = ControlLoop(Plane(control, settings), store)
    loop.attach(agents, fronts)
    late.begin(loop.take)
    stop = asyncio.Event()

    def end() -> None:
        stop.set()
        loop.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    blobs = options.blobs or str(folder / "blobs")
    place = FrontPlace(
        str(folder), store.site, host, ports.http, ports.output, control, blobs, settings.certificate_ms
    )
    front = Front(place, folder, stop, options.on_ready, end, options.name)
    renewal = asyncio.get_running_loop().create_task(renewing.run())
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(loop.run())
            tasks.create_task(front.run())
    finally:
        renewal.cancel()
        await listening.close(0.2)
    return front.problem


class Ports(NamedTuple):
    """Where the three doors of a server are; 0 is any free port."""

    http: int
    control: int
    output: int


class Kept(msgspec.Struct, frozen=True):
    """What `server.json` remembers."""

    store: str
    blobs: str


class Addresses(msgspec.Struct, frozen=True):
    """What `addresses.json` says that matters at the next start."""

    http: str
    control: str
    output: str


def _where(options: Options, folder: Path) -> tuple[str, Ports] | Problem:
    """Free ports that were found once are taken again, so that those who know them find us."""
    effect = "other ports are taken then, unless --listen says which; agents ask at theirs"
    known = read_own(folder / "addresses.json", Addresses, effect)
    if isinstance(known, Problem):
        return known
    host, port = split_listen(options.listen)
    if known and not options.listen:
        host, port = split_listen(known.http.split("://")[-1])
    if known and (port == 0 or not options.listen):
        named = (known.http.split("://")[-1], known.control, known.output)
        return host, Ports(*(split_listen(one)[1] for one in named))
    return host, Ports(port, port + 1, port + 2) if port else Ports(0, 0, 0)


async def _listen(
    options: Options, doors: list[AgentDoor | FrontDoor], host: str, ports: Ports, renewing: Renewing
) -> Listening | Problem:
    """Control's door. A port that was only remembered may have been taken by another since."""
    credentials = server_credentials(renewing.current)
    listening = await listen(doors, host, ports.control, credentials)
    if isinstance(listening, Problem) and split_listen(options.listen)[1] == 0:
        return await listen(doors, host, 0, credentials)
    return listening


def read_settings(folder: Path) -> Settings | Problem:
    """`settings.yaml` may stand in the folder: durations by name."""
    path = folder / "settings.yaml"
    if not path.exists():
        return Settings()
    values: dict[str, int] = {}
    try:
        document = yaml.safe_load(path.read_text()) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        said = str(error).splitlines()[0]
        return Problem("bad_settings", "the settings cannot be read", said, str(path), _edit(path))
    names = {"lost_after": "lost_after_ms", "lease": "lease_ms", "leader_lease": "leader_ms"}
    names["certificates"] = "certificate_ms"
    for name, text in document.items() if isinstance(document, dict) else ():
        read = read_duration(str(text))
        if name not in names or isinstance(read, Problem):
            known = ", ".join(names)
            said = f"'{name}: {text}' is no setting"
            why = f"known are {known}, each with a time such as 5s"
            return Problem("bad_settings", said, why, str(path), _edit(path))
        values[names[name]] = read
    return Settings(**values)


def _edit(path: Path) -> str:
    return f"${{EDITOR:-vi}} {shlex.quote(str(path))}"


def _identity(folder: Path, site: str, host: str, settings: Settings) -> Renewing | Problem:
    """This server's certificate; renewed at a start when it is due."""
    now = time.time_ns() // 1_000_000
    authority = open_authority(folder / "keys", site, now)
    if isinstance(authority, Problem):
        return authority
    life_ms = settings.certificate_ms
    own = folder / "keys" / "server"
    known = load(own)
    if not isinstance(known, Identity) or known.renewal_due(now) or known.peer.site != site:
        known = issue_own(authority, own, host, life_ms)
    return known if isinstance(known, Problem) else Renewing(known, from_authority(authority, host, life_ms))


class _Late:
    """Doors are made before the loop that they feed; nothing comes before they listen."""

    def __init__(self) -> None:
        self._take: Callable[[Any], None] | None = None

    def begin(self, take: Callable[[Any], None]) -> None:
        self._take = take

    def take(self, event: Any) -> None:
        assert self._take is not None
        self._take(event)


class Front:
    """The front's process, brought back whenever it ends."""

    def __init__(
        self,
        place: FrontPlace,
        folder: Path,
        stop: asyncio.Event,
        on_ready: Callable[[dict[str, Any]], None] | None,
        end: Callable[[], None],
        name: str,
    ) -> None:
        self._place = place
        self._folder = folder
        self._stop = stop
        self._on_ready = on_ready
        self._end = end
        self._name = name
        self.problem: Problem | None = None
        self._began = time.monotonic()
        self._served_before = (folder / "addresses.json").exists()

    async def run(self) -> None:
        """Until the server stops, or the front cannot start at all."""
        pause = FRONT_PAUSE_S[0]
        while not self._stop.is_set():
            began = time.monotonic()
            if await self._once() == "refused":
                if not self._may_linger():
                    self._end()
                    return
                await _first_of(self._stop.wait(), asyncio.sleep(FRONT_PAUSE_S[0]))
                continue
            pause = FRONT_PAUSE_S[0] if time.monotonic() - began > 10 else min(pause * 2, FRONT_PAUSE_S[1])
            if not self._stop.is_set():
                LOG.warning("the front ended; it is started again in %.1f s", pause)
                await _first_of(self._stop.wait(), asyncio.sleep(pause))

    def _may_linger(self) -> bool:
        """A port or socket that is taken may be held by the front that a killed server left, which is ending."""
        taken = self.problem is not None and self.problem.code in ("port_taken", "already_running")
        again = taken and self._served_before and time.monotonic() < self._began + LINGER_S
        if again:
            self.problem = None
        return again

    async def _once(self) -> str:
        place = msgspec.json.encode(self._place).decode()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "fairlead.programs.front",
            place,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stdin is not None
        said = "ended"
        loop = asyncio.get_running_loop()
        reading = loop.create_task(process.stdout.readline())
        stopping = loop.create_task(self._stop.wait())
        try:
            await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                said = self._heard(reading.result().decode())
            await _first_of(process.wait(), self._stop.wait())
        finally:
            stopping.cancel()
            reading.cancel()
            process.stdin.close()
            await process.wait()
        return said

    def _heard(self, line: str) -> str:
        if line.startswith(READY):
            self._ready(json.loads(line.removeprefix(READY)))
            return "ready"
        if line.startswith("{"):
            self.problem = msgspec.json.decode(line, type=Problem)
            return "refused"
        return "ended"

    def _ready(self, told: dict[str, Any]) -> None:
        """Ports that were free once are asked for again when the front comes back."""
        addresses = {**told, "control": self._place.control, "site": self._place.site}
        write_json(self._folder / "addresses.json", addresses)
        _, port = split_listen(told["http"].split("://")[1])
        _, output = split_listen(told["output"])
        self._place = msgspec.structs.replace(self._place, port=port, output_port=output)
        LOG.info("ready: %s", told["http"])
        _write_context(self._name, told["socket"])
        if self._on_ready is not None:
            self._on_ready(addresses)


def _write_context(name: str, socket: str) -> None:
    """The people of this machine find the server without being told; a broken file of theirs is left alone."""
    with contextlib.suppress(Failure, OSError):
        _, known = contexts.load()
        contexts.keep(contexts.Site(name or Path(socket).parent.name, f"unix://{socket}"), use=not known)


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
