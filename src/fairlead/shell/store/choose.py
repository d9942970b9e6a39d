"""Which store a server uses: the folder it is given, or the etcd that an `etcd://` address names."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import parse_qsl

from fairlead.model.errors import Problem
from fairlead.shell.store.etcd import DEADLINE_MS, EtcdStore, open_etcd
from fairlead.shell.store.etcd_calls import Address
from fairlead.shell.store.sqlite import SqliteStore, in_use, open_sqlite

Store = SqliteStore | EtcdStore
"""What both are: `site`, `generation`, `await perform(op) -> answer`, `await close()`."""

EXAMPLE = "etcd://HOST:2379,HOST:2379?ca=FILE&cert=FILE&key=FILE&prefix=fairlead/"
OPTIONS = ("ca", "cert", "key", "prefix")


async def open_store(where: str | Path, deadline_ms: int = DEADLINE_MS) -> Store | Problem:
    """Open the store at a folder or an `etcd://` address for one server's use."""
    text = str(where)
    if "://" in text:
        address = read_address(text)
        return address if isinstance(address, Problem) else await open_etcd(address, deadline_ms)
    return await asyncio.to_thread(_open_folder, Path(where))


def read_address(text: str) -> Address | Problem:
    """The parts of an `etcd://` address, or what is wrong with it."""
    scheme, _, rest = text.partition("://")
    if scheme != "etcd":
        return _bad(text, f"{scheme}:// is no store that fairlead knows")
    # By hand: `urlsplit` knows one host, not several.
    place, _, query = rest.partition("?")
    hosts, slash, path = place.partition("/")
    endpoints = [_with_port(end.strip()) for end in hosts.split(",") if end.strip()]
    if not endpoints:
        return _bad(text, "it names no host")
    if path:
        return _bad(text, f"{slash}{path} is not part of an address: keys stand under ?prefix=")
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in OPTIONS:
            return _bad(text, f"{name} is not an option; there are {', '.join(OPTIONS)}")
        options[name] = value
    if bool(options.get("cert")) != bool(options.get("key")):
        return _bad(text, "cert and key come together")
    prefix = options.pop("prefix", "fairlead/")
    return Address(endpoints, prefix if prefix.endswith("/") else prefix + "/", **options)


def _open_folder(folder: Path) -> SqliteStore | Problem:
    return in_use(folder) or open_sqlite(folder)


def _with_port(endpoint: str) -> str:
    bare = endpoint.rsplit("]", 1)[-1]  # an IPv6 address stands in brackets and is full of colons
    return endpoint if ":" in bare else f"{endpoint}:2379"


def _bad(text: str, why: str) -> Problem:
    return Problem(
        code="store_address",
        message=f"{text} cannot be used",
        why=why,
        where="--store",
        fix=f"--store '{EXAMPLE}'",
    )
