"""The front's process: people and bytes. Control starts it and hands it its place; it wires the parts."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import secrets
import signal
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
from msgspec import Struct

from fairlead.model.errors import Problem
from fairlead.model.intake import Acked
from fairlead.programs.renewing import Renewing, from_folder
from fairlead.shell.access.ca import Authority, open_authority
from fairlead.shell.access.identity import Identity, load
from fairlead.shell.access.peers import server_name
from fairlead.shell.access.renewal import renewable
from fairlead.shell.access.tls import agent_of, channel_credentials, server_credentials
from fairlead.shell.blobs.codec import expand
from fairlead.shell.blobs.folder import FolderBlobs
from fairlead.shell.front.server import serve
from fairlead.shell.front.site import Options, Site
from fairlead.shell.wire.link import ControlLink
from fairlead.shell.wire.listening import Listening, listen
from fairlead.shell.wire.output import OutputDoor

READY = "ready "
SHARED_KEYS = ("site.key", "authority")


class FrontPlace(Struct, frozen=True):
    """What control tells its front, as JSON on its command line."""

    dir: str
    site: str
    host: str
    port: int
    output_port: int
    control: str
    blobs: str
    certificate_ms: int


def main(argv: list[str]) -> int:
    """Run until the process that started this one is gone, or asks to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s front %(levelname)s %(name)s: %(message)s")
    place = msgspec.json.decode(argv[0], type=FrontPlace)
    problem = asyncio.run(_run(place))
    if problem is None:
        return 0
    print(msgspec.json.encode(problem).decode(), flush=True)
    return 2


async def _run(place: FrontPlace) -> Problem | None:
    folder = Path(place.dir)
    authority = open_authority(folder / "keys", place.site, _now_ms())
    if isinstance(authority, Problem):
        return authority
    identity = load(folder / "keys" / "server")
    if isinstance(identity, Problem):
        return identity
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    watch = asyncio.get_running_loop().create_task(_until_orphaned(stop))
    try:
        return await _serve(place, authority, identity, stop)
    finally:
        watch.cancel()


async def _serve(
    place: FrontPlace, authority: Authority, identity: Identity, stop: asyncio.Event
) -> Problem | None:
    door = _Door()
    renewing = Renewing(identity, from_folder, door.show_certificate)
    credentials = server_credentials(renewing.current)
    listening = await listen([OutputDoor(door.take, agent_of)], place.host, place.output_port, credentials)
    if isinstance(listening, Problem):
        return listening
    output = f"{place.host}:{listening.port}"
    link = ControlLink(
        [place.control],
        lambda: channel_credentials(renewing.current()),
        name=server_name(place.site),
        control=place.control,
        output=output,
    )
    signer = _Signer(authority, place.certificate_ms)
    loopback = place.host in ("127.0.0.1", "::1", "localhost")
    options = Options(
        host=place.host,
        port=place.port,
        socket=str(Path(place.dir) / "api.sock"),
        authority=authority.pem,
        certificate="" if loopback else str(identity.folder / "cert.pem"),
        key="" if loopback else str(identity.folder / "key.pem"),
        control=(place.control,),
        output=(output,),
        version=_version(),
        share=lambda: _share(place),
        prove=signer.prove,
    )

    def ready(site: Site) -> None:
        door.site = site
        scheme = "https" if options.certificate else "http"
        told = {"http": f"{scheme}://{place.host}:{site.port}", "output": output, "socket": options.socket}
        print(READY + json.dumps(told), flush=True)

    renewal = asyncio.get_running_loop().create_task(renewing.run())
    try:
        return await serve(options, link, FolderBlobs(Path(place.blobs)), expand, signer.sign, stop, ready)
    finally:
        renewal.cancel()
        await _close(listening, link)


class _Signer:
    """What the front asks of the site's authority."""

    def __init__(self, authority: Authority, life_ms: int) -> None:
        self._authority = authority
        self._life_ms = life_ms

    def sign(self, csr: str, role: str, number: int) -> str:
        """A certificate for the key of this request."""
        issued = self._authority.issue(csr, role, number, _now_ms(), self._life_ms)
        if isinstance(issued, Problem):
            raise ValueError(issued.why or issued.message)
        return issued.pem

    def prove(self, certificate: str, csr: str) -> tuple[str, int] | Problem:
        """Whose certificate may be renewed by this request."""
        peer = renewable(self._authority.pem, certificate, csr, _now_ms())
        return peer if isinstance(peer, Problem) else (peer.role, peer.number)


def _share(place: FrontPlace) -> dict[str, str]:
    """The site's keys, and a fresh mark in our blobs that the new server has to see in its own."""
    keys = Path(place.dir) / "keys"
    mark = secrets.token_hex(16)
    FolderBlobs(Path(place.blobs)).mark(mark)
    shared = {name: base64.b64encode((keys / name).read_bytes()).decode() for name in SHARED_KEYS}
    return {**shared, "mark": mark}


async def _close(listening: Listening, link: ControlLink) -> None:
    await listening.close(1.0)
    await link.close()


class _Door:
    """Output may come before HTTP is served: it waits for the site."""

    def __init__(self) -> None:
        self._site: Site | None = None
        self._there = asyncio.Event()

    @property
    def site(self) -> Site | None:
        """The site, once it serves."""
        return self._site

    @site.setter
    def site(self, site: Site) -> None:
        self._site = site
        self._there.set()

    def show_certificate(self) -> None:
        """There is a new one."""
        if self._site is not None:
            self._site.show_certificate()

    async def take(self, agent: int, block: bytes) -> Acked | Problem:
        """A block of an agent's output."""
        await self._there.wait()
        assert self._site is not None
        return await self._site.intake.take(agent, block)


async def _until_orphaned(stop: asyncio.Event) -> None:
    """Control holds the other end of our standard input: its end is ours."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(4096):
        pass
    stop.set()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _version() -> str:
    try:
        return version("fairlead")
    except PackageNotFoundError:
        return "0"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
