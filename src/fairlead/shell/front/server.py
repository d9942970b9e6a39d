"""Opens the two doors of a front, TCP and a UNIX socket, and serves until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from fairlead.model.blocks import Expand
from fairlead.model.errors import Problem

from .app import Front
from .link import Blobs, ControlLink, Sign
from .site import Options, Site, assemble

# A UNIX address holds no longer path; a longer one is reached through the open folder.
LONGEST_PATH = 107
BACKLOG = 2_048
# How long requests may take to end once the front is told to stop; streams are cut, their readers resume.
GRACE_S = 5.0
KEEP_ALIVE_S = 75


@dataclass(frozen=True, slots=True)
class Doors:
    """Sockets that listen."""

    tcp: socket.socket
    unix: socket.socket | None
    port: int

    def close(self, options: Options) -> None:
        """Listen no more, and leave no socket file."""
        self.tcp.close()
        if self.unix is not None:
            self.unix.close()
            with suppress(FileNotFoundError):
                os.unlink(options.socket)


def open_doors(options: Options) -> Doors | Problem:
    """Listen where the options say, or tell why that is not possible."""
    refusal = _plain_refusal(options)
    if refusal is not None:
        return refusal
    tcp = _open_tcp(options)
    if isinstance(tcp, Problem):
        return tcp
    unix = _open_unix(options.socket) if options.socket else None
    if isinstance(unix, Problem):
        tcp.close()
        return unix
    return Doors(tcp, unix, tcp.getsockname()[1])


def _plain_refusal(options: Options) -> Problem | None:
    if options.certificate or is_loopback(options.host):
        return None
    said = f"plain HTTP is not served on {options.host}"
    return Problem("plain_http", said, why="tokens would travel unprotected", fix="--listen 127.0.0.1")


def is_loopback(host: str) -> bool:
    """Does this name only this machine?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _open_tcp(options: Options) -> socket.socket | Problem:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as fault:
        said = f"{options.host} is no address of this machine"
        return Problem("bad_address", said, why=str(fault), where="--listen", fix="--listen 127.0.0.1:0")
    listening = socket.socket(family, kind, proto)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as fault:
        listening.close()
        return _not_bound(options, fault)
    return listening


def _not_bound(options: Options, fault: OSError) -> Problem:
    where = f"{options.host}:{options.port}"
    if fault.errno == errno.EADDRINUSE:
        said = f"port {options.port} of {options.host} is taken"
        fix = f"--listen {options.host}:0"
        return Problem("port_taken", said, why="another process listens there", where=where, fix=fix)
    said = f"nothing can listen on {where}"
    return Problem("bad_address", said, why=str(fault), where=where, fix="--listen 127.0.0.1:0")


def _open_unix(path: str) -> socket.socket | Problem:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(path) as short:
            if _answers(short):
                listening.close()
                said = f"another front serves {path}"
                return Problem(
                    "already_running",
                    said,
                    "one folder serves one server at a time",
                    path,
                    f"fuser -k {path}",
                )
            with suppress(FileNotFoundError):
                os.unlink(short)
            before = os.umask(0o177)
            try:
                listening.bind(short)
            finally:
                os.umask(before)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as fault:
        listening.close()
        return Problem("bad_address", f"nothing can listen on {path}", why=str(fault), where=path)
    return listening


def _answers(path: str) -> bool:
    """Does a process listen there? A socket file that nobody listens on was left by one that died."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trying:
        trying.settimeout(1.0)
        try:
            trying.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        return True


@contextmanager
def short_path(path: str) -> Iterator[str]:
    """The path, or while it is too long for a UNIX address a link to it through its open folder."""
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield path
        return
    folder = os.open(Path(path).parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{Path(path).name}"
    finally:
        os.close(folder)


class _Server(uvicorn.Server):
    """Leaves signals to the process it runs in."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _server(site: Site, local: bool) -> _Server:
    options = site.options
    secure = bool(options.certificate) and not local
    return _Server(
        uvicorn.Config(
            Front(site, local),
            loop="asyncio",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(GRACE_S),
            ssl_certfile=options.certificate if secure else None,
            ssl_keyfile=options.key if secure else None,
        )
    )


async def serve(
    options: Options,
    control: ControlLink,
    blobs: Blobs,
    expand: Expand,
    sign: Sign,
    stop: asyncio.Event,
    ready: Callable[[Site], None],
) -> Problem | None:
    """Serve until `stop` is set; `ready` is told the site, with its port, as soon as requests are taken."""
    doors = open_doors(options)
    if isinstance(doors, Problem):
        return doors
    site = assemble(options, control, blobs, expand, sign)
    site.port = doors.port
    try:
        async with asyncio.TaskGroup() as tasks:
            work = [
                tasks.create_task(one)
                for one in (site.feed.run(), site.feed.attend(), site.intake.run(), site.logs.poll())
            ]
            outer = _server(site, False)
            outer.config.load()
            site.secure = outer.config.ssl
            servers = [(outer, doors.tcp)]
            if doors.unix is not None:
                servers.append((_server(site, True), doors.unix))
            serving = [tasks.create_task(server.serve([listening])) for server, listening in servers]
            ready(site)
            await stop.wait()
            site.stopping = True
            for server, _ in servers:
                server.should_exit = True
            site.feed.ring_all()
            await asyncio.wait(serving)
            for task in work:
                task.cancel()
    finally:
        site.intake.close()
        doors.close(options)
    return None
