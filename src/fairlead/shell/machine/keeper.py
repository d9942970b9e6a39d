"""Starts processes, waits for them, keeps how they ended, and ends them in time, agent or none.

Run as `python -S -I keeper.py DIR [--without-groups]`. It imports the standard library alone and no package
of ours, so it starts at once and need not be restarted with the agent. An agent speaks to it over
DIR/keeper.sock: commands down, events up; a new connection is first told all that is held. What must outlive
the keeper is in DIR/keeper.journal. A watcher (`keeper.py --watch`) ends everything when the keeper is killed,
since a restarted parent cannot wait for its children.

Commands: spawn, deadline, stop, kill, signal, forget, lease, leave. Events: listed, started, failed, ended
(said when the whole tree is gone), refused (a command that makes no sense).
"""

from __future__ import annotations

import ctypes
import heapq
import importlib.util
import os
import selectors
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from . import cgroups, children, keeper_line, keeper_table
else:

    def _beside(name: str) -> Any:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
        spec = importlib.util.spec_from_file_location("fairlead_beside_" + name, path)
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    cgroups, children = _beside("cgroups"), _beside("children")
    keeper_line, keeper_table = _beside("keeper_line"), _beside("keeper_table")

Fields = dict[str, Any]
boot_ms = keeper_table.boot_ms

PROTOCOL: Final = 1
WITHOUT_GROUPS: Final = "--without-groups"
# How often folder and watcher are looked after; a watcher seen to die is replaced after the second.
CHECK_MS: Final = 5_000
REPLACE_MS: Final = 100
LEASE_MS: Final = 600_000
# Processes started before children are waited for and events sent again: about 10 ms of starting.
TURN: Final = 16
# Ends come with SIGCHLD; looking again serves for what is not our child. It doubles from first to last.
AGAIN_MS: Final = (1, 64)
PR_SET_CHILD_SUBREAPER: Final = 36


def sweep(identity: str, folders: list[str]) -> None:
    """End all that a dead keeper left: its groups, then all that carries its identity."""
    cgroups.destroy(folders)
    children.end_marked("FAIRLEAD_KEEPER", identity, cgroups.PATIENCE_S)


def watch(identity: str, folders: list[str]) -> None:
    """Wait for the keeper to be gone; its end of this pipe closes with it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        continue
    sweep(identity, folders)


class Keeper:
    """The loop: what the agent asks, what ended, whose time is up."""

    def __init__(self, folder: str, groups: bool) -> None:
        self.groups = groups
        self.folder = keeper_table.Folder(folder)
        self.identity = self.folder.identity
        self.table = keeper_table.Table(f"{self.folder.path}/keeper.journal")
        self.by_pid: dict[int, keeper_table.Attempt] = {}
        # Those whose process ended, or whose time is up: looked after until their tree is gone.
        self.leaving: dict[str, keeper_table.Attempt] = {}
        self.helpers: set[int] = set()
        self.timers: list[tuple[int, str]] = []
        self.lease_ms = LEASE_MS
        # When all ends unless an agent is there; 0: not while things stand as they do.
        self.agent_due = boot_ms() + LEASE_MS
        self.check_at, self.look_at, self.again_ms = 0, 0, AGAIN_MS[0]
        # `left`: the agent said that it leaves, and what runs goes on.
        self.left = self.quitting = self.terminated = False

    # Coming up.

    def come_up(self) -> None:
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "cannot become a subreaper")
        self.table.restore()
        sweep(self.identity, self.table.groups)
        self.pool = cgroups.Pool("fairlead-" + self.identity, self.groups, ahead=True)
        self.table.groups = self.pool.folders()
        self.table.rotate()
        self.start_watcher()
        self.selector = selectors.DefaultSelector()
        self.waker, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self.terminate)
        signal.signal(signal.SIGINT, self.terminate)
        self.selector.register(self.waker, selectors.EVENT_READ)
        self.line = keeper_line.Line(self.folder.path, self.selector, self.alone)
        for attempt in list(self.table.open.values()):
            attempt.why = "orphaned"
            self.finish(attempt)

    def start_watcher(self) -> None:
        watched, self.held = os.pipe2(os.O_CLOEXEC)
        python, program = sys.executable, os.path.abspath(__file__)
        argv = [python, "-S", "-I", program, "--watch", self.identity, *self.table.groups]
        actions = [(os.POSIX_SPAWN_DUP2, watched, 0), (os.POSIX_SPAWN_DUP2, self.folder.lock, 3)]
        self.watcher = os.posix_spawn(python, argv, {}, file_actions=actions, setsid=True)
        self.helpers.add(self.watcher)
        os.close(watched)

    def replace_watcher(self) -> None:
        os.close(self.held)
        try:
            self.start_watcher()
        except OSError as fault:
            # An upgrade may be replacing the interpreter; the next check tries again.
            self.watcher, self.held = -1, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            sys.stderr.write(f"no watcher: {fault}\n")

    # The loop.

    def run(self) -> None:
        self.come_up()
        while not self.done():
            ready = {key.fileobj for key, _ in self.selector.select(self.patience())}
            if self.waker in ready:
                os.read(self.waker, 4096)
            if self.line.door in ready and self.line.accept():
                self.welcome()
            elif self.line.agent in ready and not self.line.commands:
                self.line.read()
            reaped = self.reap()
            self.obey()
            self.look_at_clock(boot_ms())
            if self.leaving and (reaped or boot_ms() >= self.look_at):
                self.look_after_leaving()
            self.table.flush()
            self.line.write()
        self.table.flush()

    def done(self) -> bool:
        return self.quitting and not self.table.open and (self.terminated or not self.line.unsent)

    def patience(self) -> float:
        if self.line.commands:
            return 0
        times = [self.check_at, self.agent_due or self.check_at, *(at for at, _ in self.timers[:1])]
        if self.leaving:
            times.append(self.look_at)
        return max(0, min(times) - boot_ms()) / 1000

    def look_at_clock(self, now: int) -> None:
        while self.timers and self.timers[0][0] <= now:
            if attempt := self.table.open.get(heapq.heappop(self.timers)[1]):
                self.due(attempt, now)
        if self.agent_due and now >= self.agent_due:
            self.agent_due = 0
            self.end_all("lease")
        if now >= self.check_at:
            self.check_at = now + CHECK_MS
            if self.watcher not in self.helpers:
                self.replace_watcher()
            if self.folder.gone():
                self.end_all("killed", 0)
        if self.terminated and not self.quitting:
            self.end_all("stopped")
        self.quitting |= self.left and not self.table.open

    def due(self, attempt: keeper_table.Attempt, now: int) -> None:
        for why, at in (("limit", attempt.limit_at), ("lease", attempt.lease_at)):
            if at and now >= at:
                attempt.limit_at = attempt.lease_at = 0
                self.stop(attempt, why, attempt.grace_ms)
        if attempt.kill_at and now >= attempt.kill_at:
            self.look_after(attempt)
        elif at := attempt.next_at():
            heapq.heappush(self.timers, (at, attempt.key))

    def terminate(self, *_: object) -> None:
        self.terminated = True

    def end_all(self, why: str, grace_ms: int | None = None) -> None:
        self.quitting = True
        for attempt in list(self.table.open.values()):
            self.stop(attempt, why, attempt.grace_ms if grace_ms is None else grace_ms)

    # Ends.

    def reap(self) -> bool:
        """Wait for all that has ended; orphans of our trees come to us too."""
        reaped = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return reaped
            if not pid:
                return reaped
            reaped = True
            if attempt := self.by_pid.pop(pid, None):
                attempt.status = status
                attempt.kill_at = attempt.kill_at or boot_ms()
                self.look_after(attempt)
            self.helpers.discard(pid)
            if pid == self.watcher:
                self.check_at = min(self.check_at, boot_ms() + REPLACE_MS)

    def look_after(self, attempt: keeper_table.Attempt) -> None:
        self.leaving[attempt.key] = attempt
        self.again_ms, self.look_at = AGAIN_MS[0], 0

    def look_after_leaving(self) -> None:
        """Finish those whose tree is gone, kill what is left of those whose time is up."""
        strangers = self.strangers()
        now = boot_ms()
        for attempt in list(self.leaving.values()):
            lost = self.descended(attempt, strangers)
            if attempt.status is not None and not lost and not (attempt.slot and attempt.slot.occupied()):
                self.finish(attempt)
            elif now >= attempt.kill_at:
                self.signal_tree(attempt, signal.SIGKILL, lost)
        self.look_at, self.again_ms = now + self.again_ms, min(2 * self.again_ms, AGAIN_MS[1])

    def strangers(self) -> set[int]:
        """Orphans that came to us because their own parents are gone."""
        return children.own_children() - self.by_pid.keys() - self.helpers

    def descended(self, attempt: keeper_table.Attempt, strangers: set[int]) -> set[int]:
        """Those that came from this attempt, or can have come from no other that is open."""
        found = set()
        for pid in strangers:
            if not (process := children.look(pid)):
                continue
            marks = children.marks(pid)
            if marks.get("FAIRLEAD_KEEPER") == self.identity:
                ours = marks.get("FAIRLEAD_KEY") == attempt.key
            else:
                others = (other for other in self.table.open.values() if other is not attempt)
                ours = process.session == attempt.pid or all(
                    other.began_ms > process.started_ms + children.TICK_MS for other in others
                )
            if ours:
                found.add(pid)
        return found

    def signal_tree(self, attempt: keeper_table.Attempt, number: int, lost: set[int]) -> None:
        if attempt.slot and number == signal.SIGKILL:
            attempt.slot.kill()
        elif attempt.slot:
            children.send(attempt.slot.members(), number)
        roots = lost | ({attempt.pid} if attempt.status is None else set())
        if roots and (lost or not attempt.slot):
            children.send(children.below(roots, children.processes_lately(roots)), number)

    def finish(self, attempt: keeper_table.Attempt) -> None:
        self.close(attempt, attempt.how_it_ended())
        self.leaving.pop(attempt.key, None)
        if attempt.workspace and not attempt.hold:
            self.helpers.add(children.remove_tree(attempt.workspace))

    def close(self, attempt: keeper_table.Attempt, last_word: Fields) -> None:
        if attempt.slot:
            self.pool.release(attempt.slot)
            attempt.slot = None
        self.table.end(attempt, last_word)
        self.line.events.append(last_word)

    # What the agent asks.

    def welcome(self) -> None:
        self.agent_due, self.left = 0, False
        self.quitting = self.terminated
        entries = [attempt.entry() for attempt in self.table.all.values()]
        about = {"protocol": PROTOCOL, "pid": os.getpid(), "cgroups": self.pool.facts()}
        self.line.events.append({"type": "listed", "entries": entries, "damaged": self.table.damaged} | about)

    def alone(self) -> None:
        self.agent_due = self.agent_due if self.left else boot_ms() + self.lease_ms

    def obey(self) -> None:
        end = len(self.by_pid) + TURN
        while self.line.commands and len(self.by_pid) < end:
            command = self.line.commands.popleft()
            try:
                COMMANDS[command["type"]](self, command)
            except (KeyError, TypeError, ValueError, AttributeError) as fault:
                self.line.events.append({"type": "refused", "what": command, "message": repr(fault)})

    def spawn(self, command: Fields) -> None:
        if known := self.table.all.get(command["key"]):
            self.line.events.append(known.ended or self.started(known))
            return
        attempt = keeper_table.Attempt(command)
        try:
            if self.quitting:
                raise ValueError("the keeper is ending")
            if not self.table.put(attempt):
                raise ValueError("the journal cannot be written")
            self.start(attempt, command)
        except (OSError, ValueError, TypeError, LookupError) as fault:
            if attempt.pid:
                self.stop(attempt, "killed", 0)
            else:
                why = {"why": children.reason(fault), "message": str(fault)}
                self.close(attempt, {"type": "failed", "key": attempt.key} | why)
        else:
            self.line.events.append(self.started(attempt))

    def start(self, attempt: keeper_table.Attempt, command: Fields) -> None:
        env = command["env"] | {"FAIRLEAD_KEEPER": self.identity, "FAIRLEAD_KEY": attempt.key}
        if attempt.workspace:
            children.make_folder(attempt.workspace)
        limits = {what: command.get(what, 0) for what in cgroups.CONTROLLERS}
        files = attempt.out, attempt.err, command.get("stdin")
        with self.pool.entered(limits) as attempt.slot:
            attempt.pid = children.spawn(command["argv"], command["cwd"], env, *files)
            self.by_pid[attempt.pid] = attempt
        now = boot_ms()
        attempt.limit_at = now + command["limit_ms"] if command.get("limit_ms") else 0
        attempt.lease_at = now + command["lease_ms"] if command.get("lease_ms") else 0
        self.due(attempt, now)

    def started(self, attempt: keeper_table.Attempt) -> Fields:
        return {"type": "started", "key": attempt.key, "pid": attempt.pid, "at_ms": attempt.started_ms}

    def deadline(self, command: Fields) -> None:
        """Only ever later; one that has passed stays passed."""
        if attempt := self.table.open.get(command["key"]):
            attempt.lease_at = attempt.lease_at and max(attempt.lease_at, boot_ms() + command["in_ms"])

    def stop(self, attempt: keeper_table.Attempt, why: str, grace_ms: int) -> None:
        """TERM now, KILL after the grace; said again it only becomes sooner."""
        at, first = boot_ms() + grace_ms, not attempt.kill_at
        if attempt.status is None:
            attempt.why = attempt.why or why
        attempt.kill_at = at if first else min(at, attempt.kill_at)
        if first and grace_ms > 0:
            self.signal(attempt, signal.SIGTERM)
            self.signal(attempt, signal.SIGCONT)
        self.due(attempt, boot_ms())

    def signal(self, attempt: keeper_table.Attempt, number: int) -> None:
        self.signal_tree(attempt, number, self.descended(attempt, self.strangers()))

    def end_one(self, command: Fields) -> None:
        if not (attempt := self.table.open.get(command["key"])):
            return
        if command["type"] == "signal":
            self.signal(attempt, command["sig"])
        elif command["type"] == "kill":
            self.stop(attempt, "killed", 0)
        else:
            self.stop(attempt, "stopped", command.get("grace_ms", attempt.grace_ms))

    def forget(self, command: Fields) -> None:
        attempt = self.table.all.get(command["key"])
        if attempt and attempt.ended:
            self.table.forget(attempt)
            if attempt.workspace and attempt.hold:
                self.helpers.add(children.remove_tree(attempt.workspace))

    def lease(self, command: Fields) -> None:
        self.lease_ms = int(command["ms"])

    def leave(self, command: Fields) -> None:
        if command["keep"]:
            self.left = True
            back_ms = command.get("back_within_ms", 0)
            self.agent_due = boot_ms() + back_ms + self.lease_ms if back_ms else 0
        else:
            self.end_all("stopped")


COMMANDS = {"spawn": Keeper.spawn, "deadline": Keeper.deadline, "forget": Keeper.forget}
COMMANDS |= {"stop": Keeper.end_one, "kill": Keeper.end_one, "signal": Keeper.end_one}
COMMANDS |= {"lease": Keeper.lease, "leave": Keeper.leave}


def main(arguments: list[str]) -> None:
    if arguments[0] == "--watch":
        watch(arguments[1], arguments[2:])
    else:
        os.closerange(3, 1 << 20)
        Keeper(arguments[0], WITHOUT_GROUPS not in arguments).run()


if __name__ == "__main__":
    main(sys.argv[1:])
