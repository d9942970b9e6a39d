"""A second or third server of a site: what it is told by a first one, and what is proved before it serves."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Protocol

from fairlead.model.errors import Problem
from fairlead.programs.front import SHARED_KEYS
from fairlead.programs.joining import Asking, Joined, join
from fairlead.shell.access import durable
from fairlead.shell.access.identity import install, request
from fairlead.shell.blobs.folder import FolderBlobs


class Options(Protocol):
    """What of the command line matters here."""

    @property
    def store(self) -> str: ...
    @property
    def blobs(self) -> str: ...
    @property
    def join(self) -> str: ...
    @property
    def token(self) -> str: ...


def become_member(options: Options, folder: Path) -> Problem | None:
    """Fetch the site's keys, once; a folder that has them needs nobody."""
    keys = folder / "keys"
    if not options.join or (keys / "authority").exists():
        return None
    refusal = _refusal(options)
    if refusal is not None:
        return refusal
    own = keys / "server"
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    asking = Asking(token=options.token, csr=request(own, ["127.0.0.1"]), role="server")
    joined = join(options.join.split(","), asking)
    if isinstance(joined, Problem):
        return joined
    return _take(joined, options, keys)


def _refusal(options: Options) -> Problem | None:
    if not options.store.startswith("etcd://"):
        return Problem(
            "store_alone",
            "several servers need a store that all of them see",
            "the store in a folder belongs to one server",
            "--store",
            "fairlead server --store etcd://127.0.0.1:2379 --join … --token …",
        )
    if not options.blobs:
        return Problem(
            "blobs_alone",
            "several servers need blobs that all of them see",
            "output taken by one front is read through another",
            "--blobs",
            "name the folder that all servers see: --blobs /mnt/shared/fairlead",
        )
    if not options.token:
        return Problem("no_token", "a server joins with a token", where="--token", fix=TOKEN_FIX)
    return None


def _take(joined: Joined, options: Options, keys: Path) -> Problem | None:
    told = joined.server
    if not {*SHARED_KEYS, "mark"} <= told.keys():
        return Problem("wrong_token", "this token is not for servers", where="--token", fix=TOKEN_FIX)
    if not FolderBlobs(Path(options.blobs)).prove(told["mark"]):
        return Problem(
            "blobs_apart",
            f"{options.blobs} is not the folder that the other server uses",
            "a mark that it left in its blobs is not here",
            "--blobs",
            "mount the same folder on both machines, and name it with --blobs on both",
        )
    for name in SHARED_KEYS:
        durable.create(keys / name, base64.b64decode(told[name]), 0o600)
    installed = install(keys / "server", joined.certificate, joined.ca)
    return installed if isinstance(installed, Problem) else None


TOKEN_FIX = "fairlead token create --role server   # on a server of the site"
