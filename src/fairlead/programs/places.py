"""Where things lie in the folders of servers and agents, and how addresses are written."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fairlead.ctl.contexts import data_home
from fairlead.ctl.failures import WRONG_INPUT, Failure
from fairlead.ctl.mending import mend
from fairlead.model.errors import Problem

T = TypeVar("T")

DEFAULT_LISTEN = "127.0.0.1:7410"
LAST_PORT = 65_533


def split_listen(text: str) -> tuple[str, int]:
    """HOST[:PORT], [HOST]:PORT or :PORT."""
    text = text or DEFAULT_LISTEN
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), 7410
    return host.strip("[]") or "127.0.0.1", int(port)


def check_listen(text: str) -> Problem | None:
    """Why nobody can listen at what was typed; three ports are taken from the first on."""
    try:
        _, port = split_listen(text)
    except ValueError:
        port = -1
    if 0 <= port <= LAST_PORT:
        return None
    why = f"a port is a number up to {LAST_PORT}, or 0 for any free one"
    return Problem("bad_address", f"{text} is no HOST:PORT", why, "--listen", "--listen 127.0.0.1:0")


def make_folder(folder: Path) -> Problem | None:
    """Make it, for its owner alone, with what is above it; or say why that cannot be."""
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
    except OSError as fault:
        why = fault.strerror or str(fault)
        fix = f"--dir {data_home()}"
        return Problem("no_such_dir", f"the folder {folder} cannot be made", why, "--dir", fix)
    return None


def complain(problem: Problem) -> int:
    """Say why the program ends, and how to go on from here; the exit code."""
    told = Failure(problem.code, problem.message, problem.why, problem.where, problem.fix)
    mend(told, sys.argv[1:])
    print(told.lines(), file=sys.stderr)
    return WRONG_INPUT


def join_host(host: str, port: int) -> str:
    """The other way round."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def write_json(path: Path, content: Any) -> None:
    """Whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(fresh, path)


def read_json(path: Path) -> Any:
    """What was written, or None."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def read_own(path: Path, kind: type[T], effect: str, fix: str = "") -> T | Problem | None:
    """A small file that we wrote; None when it is not there, and when it is damaged, what mends that.

    Unless another fix is given the file is deleted; `effect` says what is then otherwise.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except PermissionError:
        return not_yours(path)
    except (OSError, ValueError, msgspec.MsgspecError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else str(fault)
        fix = fix or f"rm -r {shlex.quote(str(path))}"
        return Problem("damaged", f"{path} is damaged", f"{why}; {effect}", fix=fix)


def not_yours(path: Path) -> Problem:
    """Why this user cannot go on with a folder: it is that of another, or closed."""
    there = next(place for place in (path, *path.parents) if os.access(place, os.F_OK))
    owner, ours = there.stat().st_uid, os.geteuid()
    if owner == ours:
        why, fix = "its mode lets nobody in", f"chmod -R u+rwX {shlex.quote(str(there))}"
    else:
        why = f"{there} belongs to {_user(owner)}, and this is {_user(ours)}"
        fix = f"sudo -u {_user(owner)} {shlex.join(['fairlead', *sys.argv[1:]])}"
    return Problem("not_yours", f"{path} cannot be opened", why, fix=fix)


def closed(fault: PermissionError, folder: Path) -> Problem:
    """The same, as the system said it of something in this folder."""
    return not_yours(Path(fault.filename) if isinstance(fault.filename, str) else folder)


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"


def aside(path: Path, word: str) -> Path:
    """A name beside this one that nothing has yet."""
    found = path.with_name(f"{path.name}.{word}")
    number = 1
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name}.{word}-{number}")
    return found


def told_options(kind: type[T], told: Mapping[str, Any]) -> T:
    """What a program was told, without what it does not ask for; nothing said is the default."""
    assert is_dataclass(kind)
    names = {field.name for field in fields(kind)}
    made: T = kind(**{name: value for name, value in told.items() if name in names and value is not None})
    return made
