"""Puts each attempt into a control group: one to kill it by, and to hold its memory, CPU and processes.

Finds out what this machine lets us do (v2, v1, both at once, nothing) and keeps a pool of groups, because
making them costs more than entering them. Whoever spawns enters a group, spawns, and leaves it again; only
then are the limits set, so that they never count, throttle or kill the one that spawned. Standard library
only: the keeper loads this file by its path.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# What sets a limit: (version, what) -> files and values; "%d" takes the number. Lifted in reverse order.
LIMITS: dict[tuple[int, str], tuple[tuple[str, str, str], ...]] = {
    (2, "memory"): (("memory.max", "%d", "max"), ("memory.swap.max", "0", "max")),
    (2, "cpu"): (("cpu.max", "%d 100000", "max 100000"),),
    (2, "pids"): (("pids.max", "%d", "max"),),
    (1, "memory"): (("memory.limit_in_bytes", "%d", "-1"), ("memory.memsw.limit_in_bytes", "%d", "-1")),
    (1, "cpu"): (("cpu.cfs_period_us", "100000", "100000"), ("cpu.cfs_quota_us", "%d", "-1")),
    (1, "pids"): (("pids.max", "%d", "max"),),
}
OOM_FILE = {1: "memory.oom_control", 2: "memory.events"}
USAGE_FILE = {1: "memory.usage_in_bytes", 2: "memory.current"}
CONTROLLERS = ("memory", "cpu", "pids")
# A group left with more than this charged to it (page cache, shared memory) is not used again.
LEFT_OVER = 32 << 20
# How long `destroy` waits for killed processes to go; one in uninterruptible sleep may take for ever.
PATIENCE_S = 30.0


def put(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def get(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts).decode()
    finally:
        os.close(fd)


def counter(path: str, name: str) -> int:
    """The number behind `name` in a file of "name number" lines; 0 when there is none."""
    try:
        return next(
            (int(line.split()[1]) for line in get(path).splitlines() if line.startswith(name + " ")), 0
        )
    except OSError:
        return 0


def within(folder: str) -> Iterator[str]:
    """The group and all groups below it, deepest first."""
    for path, _, _ in os.walk(folder, topdown=False):
        yield path


def occupied(folder: str, version: int) -> bool:
    try:
        if version == 2:
            return "populated 1" in get(folder + "/cgroup.events")
        return any(get(path + "/cgroup.procs") for path in within(folder))
    except FileNotFoundError:
        return False


def members(folder: str) -> list[int]:
    found: list[int] = []
    for path in within(folder):
        try:
            found += [int(pid) for pid in get(path + "/cgroup.procs").split()]
        except OSError as fault:
            if fault.errno not in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
                raise
    return [pid for pid in found if pid]


def kill(folder: str) -> None:
    """KILL to all that is in there; frozen meanwhile where the kernel has no single call for it."""
    if os.path.exists(folder + "/cgroup.kill"):
        put(folder + "/cgroup.kill", "1")
        return
    freezer = folder + "/freezer.state"
    if frozen := os.path.exists(freezer):
        put(freezer, "FROZEN")
    try:
        for pid in members(folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    finally:
        if frozen:
            put(freezer, "THAWED")


def remove(folder: str) -> bool:
    for path in within(folder):
        try:
            os.rmdir(path)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def destroy(folders: Iterable[str]) -> bool:
    """Kill all that is in these groups, wait until it is gone, remove them; false: something stayed."""
    end = time.monotonic() + PATIENCE_S
    left = list(folders)
    while left:
        for folder in left:
            if os.path.isdir(folder) and members(folder):
                kill(folder)
        left = [folder for folder in left if not remove(folder)]
        if left and time.monotonic() > end:
            return False
        if left:
            time.sleep(0.002)
    return True


def places() -> dict[str, tuple[int, str, str]]:
    """Where this process is: controller ("" for v2) -> (version, its own group, top of the hierarchy)."""
    own: dict[str, str] = {}
    for line in get("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        own.update((name, path) for name in names.split(","))
    found: dict[str, tuple[int, str, str]] = {}
    for line in get("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        root, top = left.split()[3:5]
        kind, _, options = right.split()[:3]
        if not kind.startswith("cgroup"):
            continue
        for name in [""] if kind == "cgroup2" else options.split(","):
            if name not in own or (name and name not in (*CONTROLLERS, "freezer")):
                continue
            below = os.path.relpath(own[name], root) if own[name].startswith(root) else "."
            path = os.path.normpath(os.path.join(top, below))
            found[name] = (1 if name else 2, path if os.path.isdir(path) else top, top)
    return found


def cede(group: str, top: str) -> bool:
    """Make way for controllers below a group that is ours alone: its processes move to a leaf of it."""
    try:
        ours = os.getxattr(group, "user.delegate") == b"1"
    except OSError:
        ours = False
    # The top of a container's own hierarchy has a type; the top of the machine's has none.
    if not (ours or (group == top and os.path.exists(group + "/cgroup.type"))):
        return False
    home = group + "/fairlead-home"
    os.makedirs(home, exist_ok=True)
    for pid in get(group + "/cgroup.procs").split():
        try:
            put(home + "/cgroup.procs", pid)
        except ProcessLookupError:
            continue
    return True


def grant(parent: str, top: str, base: str) -> set[str]:
    """Hand the controllers of a v2 group down to the groups in `base`; which of them arrived."""
    for folder in (parent, base):
        for name in CONTROLLERS:
            try:
                put(folder + "/cgroup.subtree_control", "+" + name)
            except OSError as fault:
                try:
                    if fault.errno == errno.EBUSY and folder == parent and cede(parent, top):
                        put(folder + "/cgroup.subtree_control", "+" + name)
                except OSError:
                    continue
    return set(get(base + "/cgroup.subtree_control").split()) & set(CONTROLLERS)


class Slot:
    """One pooled group: a folder in each hierarchy in use."""

    def __init__(self, pool: Pool, name: str) -> None:
        self.pool = pool
        self.folders = {role: f"{base}/{name}" for role, base in pool.bases.items()}
        for folder in set(self.folders.values()):
            os.makedirs(folder, exist_ok=True)
        self.track = self.folders["track"]
        self.limits: list[tuple[str, int]] = []
        self.entered: list[str] = []
        self.ooms_before = 0

    def enter(self, memory: int = 0, cpu: int = 0, pids: int = 0) -> None:
        """Move this process in; what it spawns until `leave` is born inside."""
        asked = (("memory", memory), ("cpu", cpu * 100 and max(1000, cpu * 100)), ("pids", pids))
        self.limits = [(what, number) for what, number in asked if number and what in self.folders]
        if memory and "memory" in self.folders:
            self.ooms_before = self._ooms()
        self.come(sorted({self.track, *(self.folders[what] for what, _ in self.limits)}))

    def come(self, folders: list[str]) -> None:
        """Move this process into these groups of the slot, and home from its others."""
        for folder in folders:
            if folder not in self.entered:
                put(folder + "/cgroup.procs", "0")
                self.entered.append(folder)
        for folder in [one for one in self.entered if one not in folders]:
            os.write(self.pool.homes[os.path.dirname(folder)], b"0")
            self.entered.remove(folder)

    def leave(self) -> None:
        """Move this process home and set the limits for those that stay."""
        self.come([])
        self.limit()

    def limit(self) -> None:
        """Set the limits for those that stay."""
        for what, number in self.limits:
            for file, value, _ in LIMITS[self.pool.versions[what], what]:
                path = f"{self.folders[what]}/{file}"
                try:
                    put(path, value % number if "%" in value else value)
                except FileNotFoundError:
                    continue
                except OSError as fault:
                    # It has outgrown its memory already.
                    if fault.errno != errno.EBUSY:
                        raise
                    kill(self.track)

    def occupied(self) -> bool:
        return occupied(self.track, self.pool.versions["track"])

    def members(self) -> list[int]:
        return members(self.track)

    def kill(self) -> None:
        kill(self.track)

    def oom(self) -> bool:
        """Was anything killed for memory since `enter`?"""
        return any(what == "memory" for what, _ in self.limits) and self._ooms() > self.ooms_before

    def _ooms(self) -> int:
        return counter(f"{self.folders['memory']}/{OOM_FILE[self.pool.versions['memory']]}", "oom_kill")

    def lift(self) -> bool:
        """Take the limits off; false when the group is not fit to be used again."""
        fit = True
        for what, _ in self.limits:
            version, folder = self.pool.versions[what], self.folders[what]
            for file, _, free in reversed(LIMITS[version, what]):
                if os.path.exists(f"{folder}/{file}"):
                    put(f"{folder}/{file}", free)
            if what == "memory":
                fit &= int(get(f"{folder}/{USAGE_FILE[version]}")) < LEFT_OVER
        self.limits = []
        return fit

    def discard(self) -> bool:
        return min([remove(folder) for folder in set(self.folders.values())])


class Pool:
    """The groups of one keeper. `bases` is empty where the machine allows none."""

    def __init__(self, name: str, wanted: bool = True, ahead: bool = False) -> None:
        self.ahead = ahead
        self.bases: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.homes: dict[str, int] = {}
        self.free: list[Slot] = []
        self.made = 0
        # With `ahead`, the group where this process waits for its next child: the first move after a rest costs
        # the kernel milliseconds, those right behind it nothing, so it is made behind the child before. Whoever
        # kills the groups of a pool must have gone home.
        self.next: Slot | None = None
        try:
            found = places() if wanted else {}
        except OSError:
            found = {}
        if "" in found:
            self._found_v2(name, *found[""][1:])
        for what in CONTROLLERS:
            if what in found and what not in self.bases:
                self._found_v1(name, what, found[what][1])
        if "track" not in self.bases and "freezer" in found:
            self._found_v1(name, "track", found["freezer"][1])
        for what in CONTROLLERS:
            if "track" not in self.bases and what in self.bases:
                self.bases["track"], self.versions["track"] = self.bases[what], self.versions[what]

    def _found_v2(self, name: str, own: str, top: str) -> None:
        best: tuple[str, set[str]] | None = None
        for parent in dict.fromkeys((own, top)):
            base = f"{parent}/{name}"
            try:
                os.makedirs(base, exist_ok=True)
                granted = grant(parent, top, base)
                offered = set(get(parent + "/cgroup.controllers").split()) & set(CONTROLLERS)
            except OSError:
                continue
            if best is None or granted > best[1]:
                if best:
                    remove(best[0])
                best = (base, granted)
            elif base != best[0]:
                remove(base)
            if granted >= offered:
                break
        # `cede` may have moved this process: its home is where it is now.
        if best and self._usable(best[0], places()[""][1]):
            for role in ("track", *best[1]):
                self.bases[role], self.versions[role] = best[0], 2

    def _found_v1(self, name: str, what: str, own: str) -> None:
        base = f"{own}/{name}"
        try:
            os.makedirs(base, exist_ok=True)
        except OSError:
            return
        if self._usable(base, own):
            self.bases[what], self.versions[what] = base, 1

    def _usable(self, base: str, home: str) -> bool:
        """Can this process go in there and come back?"""
        probe = f"{base}/probe"
        try:
            os.makedirs(probe, exist_ok=True)
            way_back = self.homes.get(base)
            if way_back is None:
                way_back = os.open(home + "/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
            self.homes[base] = way_back
            put(probe + "/cgroup.procs", "0")
            os.write(way_back, b"0")
        except OSError:
            if fd := self.homes.pop(base, None):
                os.close(fd)
            remove(base)
            return False
        return remove(probe)

    def facts(self) -> dict[str, str]:
        """What holds here, for people and for the agent: role -> "v1" or "v2"; empty: nothing."""
        return {role: f"v{self.versions[role]}" for role in self.bases}

    def folders(self) -> list[str]:
        return sorted(set(self.bases.values()))

    @contextmanager
    def entered(self, limits: dict[str, int]) -> Iterator[Slot | None]:
        """What is spawned in here is born in a group under these limits; none where there are no groups."""
        if not self.bases:
            yield None
            return
        slot = self._acquire()
        try:
            slot.enter(**limits)
        except OSError as fault:
            slot.leave()
            slot.discard()
            raise ValueError(f"the control group cannot be entered: {fault}") from fault
        try:
            yield slot
        finally:
            if self.ahead:
                self._move_on(slot)
            else:
                slot.leave()

    def _move_on(self, slot: Slot) -> None:
        """Out of this group, and into the next one: entering it moves this process out of the one before."""
        roles = {role for role, folder in slot.folders.items() if folder in slot.entered}
        self.next = ahead = self._acquire()
        try:
            ahead.come(sorted({ahead.folders[role] for role in roles}))
            slot.entered.clear()
        except OSError:
            self.go_home()
            slot.come([])
        slot.limit()

    def go_home(self) -> None:
        """Wait for the next child in no group."""
        if self.next is not None:
            self.next.come([])
            self.free.append(self.next)
            self.next = None

    def _acquire(self) -> Slot:
        if self.next is not None:
            slot, self.next = self.next, None
            if os.path.isdir(slot.track):
                return slot
            slot.come([])
        while self.free:
            # Someone may have cleaned up behind our back.
            if os.path.isdir((slot := self.free.pop()).track):
                return slot
        self.made += 1
        return Slot(self, f"s{self.made}")

    def release(self, slot: Slot) -> None:
        """Back into the pool, empty as it is; a group that cannot be cleaned is thrown away."""
        try:
            fit = slot.lift()
        except OSError:
            fit = False
        if fit:
            self.free.append(slot)
        else:
            slot.discard()
