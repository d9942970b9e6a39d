"""Starts a process with what it is to have and nothing else, and finds all that descends from one.

Standard library only: the keeper loads this file by its path.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable
from typing import NamedTuple

TICK_MS = 1000 // os.sysconf("SC_CLK_TCK")
LATELY_S = 0.02
# All that can be: Python ignores some, and so may whoever started us. A program expects none of it.
DEFAULTS = tuple(number for number in range(1, 32) if number not in (signal.SIGKILL, signal.SIGSTOP))


# Who lives.


class Process(NamedTuple):
    parent: int
    session: int
    # Since the machine's boot.
    started_ms: int


Table = dict[int, Process]
_lately: tuple[float, Table] = (-LATELY_S, {})


def look(pid: int) -> Process | None:
    """None when it is gone; a zombie is."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read().rpartition(b") ")[2].split()
    except OSError:
        return None
    if not fields or fields[0] in (b"Z", b"X"):
        return None
    return Process(int(fields[1]), int(fields[3]), int(fields[19]) * TICK_MS)


def processes() -> Table:
    found = ((int(name), look(int(name))) for name in os.listdir("/proc") if name.isdigit())
    return {pid: process for pid, process in found if process}


def processes_lately(known: set[int]) -> Table:
    """At most 20 ms old, unless one of `known` is younger: ending a thousand is not to look a thousand times."""
    global _lately
    now = time.monotonic()
    if now - _lately[0] > LATELY_S or not known <= _lately[1].keys():
        _lately = now, processes()
    return _lately[1]


def own_children() -> set[int]:
    """The children of this process, which has one thread; zombies that it has not waited for included."""
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb", buffering=0) as file:
            return {int(child) for child in b"".join(iter(lambda: file.read(1 << 16), b"")).split()}
    except FileNotFoundError:
        return {child for child, process in processes().items() if process.parent == pid}


def below(roots: Iterable[int], table: Table) -> set[int]:
    """Those of `roots` that live, with all their descendants."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo += children.get(pid, ())
    return found & table.keys()


def marks(pid: int) -> dict[str, str]:
    """Whose a process is, by its environment; empty when it has cleared that or will not show it."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [
                item.partition(b"=") for item in file.read().split(b"\0") if item.startswith(b"FAIRLEAD_KE")
            ]
    except OSError:
        return {}
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def end_marked(name: str, value: str, patience_s: float) -> None:
    """Kill all that carries this mark in its environment, with its descendants and sessions."""
    clean, end = 0, time.monotonic() + patience_s
    # Clean three times: a child caught between fork and exec does not carry the mark yet.
    while clean < 3 and time.monotonic() < end:
        table = processes()
        marked = {pid for pid in table if marks(pid).get(name) == value}
        marked |= {pid for pid, process in table.items() if process.session in marked}
        tree = below(marked, table)
        send(tree, signal.SIGKILL)
        clean = 0 if tree else clean + 1
        time.sleep(0.005)


# Starting.


def find_program(name: str, path: str) -> str:
    if "/" in name:
        return name
    candidates = [f"{folder or '.'}/{name}" for folder in path.split(":")]
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    hidden = next(filter(os.path.exists, candidates), "")
    number = errno.EACCES if hidden else errno.ENOENT
    raise OSError(number, os.strerror(number), hidden or name)


def reason(fault: Exception) -> str:
    """Why it did not start, in the keeper's words."""
    if isinstance(fault, NotADirectoryError):
        return "no_such_dir"
    if isinstance(fault, FileNotFoundError):
        return "not_found"
    if isinstance(fault, PermissionError) or getattr(fault, "errno", 0) == errno.ENOEXEC:
        return "not_executable"
    return "spawn_failed"


def open_files(out: str | None, err: str | None, source: str | None) -> list[int]:
    """Standard input, output and error; the last two are one file when `err` is none."""
    files: list[int] = []
    writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        files.append(os.open(source or os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        files.append(os.open(out or os.devnull, writing, 0o600))
        if err:
            files.append(os.open(err, writing, 0o600))
    except OSError as fault:
        close(files)
        raise ValueError(str(fault)) from fault
    return files


def close(files: list[int]) -> None:
    for fd in files:
        os.close(fd)


def spawn(
    argv: list[str], cwd: str, env: dict[str, str], out: str | None, err: str | None, source: str | None
) -> int:
    """A new process, leader of its own session. It inherits three files; all others close on exec."""
    files = open_files(out, err, source)
    try:
        enter(cwd)
        program = find_program(argv[0], env.get("PATH", os.defpath))
        actions = [(os.POSIX_SPAWN_DUP2, files[min(n, len(files) - 1)], n) for n in range(3)]
        return os.posix_spawn(
            program, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=DEFAULTS
        )
    finally:
        os.chdir("/")
        close(files)


def enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as fault:
        raise NotADirectoryError(fault.errno, fault.strerror, folder) from fault


def make_folder(path: str) -> None:
    try:
        os.makedirs(path, 0o700, exist_ok=True)
    except OSError as fault:
        raise NotADirectoryError(fault.errno, fault.strerror, path) from fault


def remove_tree(path: str) -> int:
    """Remove a folder; the process that does it when that may take long, else 0."""
    try:
        os.rmdir(path)
        return 0
    except OSError as fault:
        if fault.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            return 0
    # Folders that their owner may not write to (caches of modules) resist the first attempt.
    script = 'rm -rf -- "$0" 2>/dev/null || { chmod -R u+rwX -- "$0"; rm -rf -- "$0"; }'
    try:
        return spawn(["sh", "-c", script, path], "/", {"PATH": os.defpath}, None, None, None)
    except OSError:
        # No room for another process; files left behind are no reason to end those that run.
        return 0
