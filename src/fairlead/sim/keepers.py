"""A machine's keeper and its processes: the ground truth of what runs where.

A process does what its command says: so long, so many bytes, such an exit, so slow to go. The keeper answers as
the real one does: a repeated start is no second one, deadlines end work without an agent, ends are kept until
they are forgotten, and nothing outlives a killed keeper.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from hashlib import sha256

from msgspec import Struct

from fairlead.agent import words
from fairlead.agent.attempts import Note, read_note, write_note
from fairlead.agent.words import Why
from fairlead.model.reasons import Reason
from fairlead.sim.checkers.sights import Began, Finished
from fairlead.sim.world import World

# Without an agent for so long, everything is ended.
LONELY_MS = 30 * 60_000
WRITES = 3


class Command(Struct, frozen=True, gc=False):
    """What a simulated program does; its numbers are its arguments."""

    ms: int = 0
    exit: int = 0
    out: int = 0
    err: int = 0
    # How long it takes to go after TERM.
    term_ms: int = 10
    # Attempts with a lower number fail with exit 1.
    good_from: int = 1

    def argv(self) -> list[str]:
        """As a job's command."""
        return ["work", *(str(getattr(self, name)) for name in self.__struct_fields__)]


def read_command(argv: list[str]) -> Command | None:
    """What `argv` made; None is a program that does not exist."""
    return Command(*(int(word) for word in argv[1:])) if argv[0] == "work" else None


@lru_cache(maxsize=4096)
def written(key: str, stream: int, length: int) -> bytes:
    """The bytes that an attempt writes: they differ by attempt, stream and offset."""
    seed = sha256(f"{key}/{stream}".encode()).digest()
    blocks = (sha256(seed + n.to_bytes(4, "little")).digest() for n in range(length // 32 + 1))
    return b"".join(blocks)[:length]


class Process:
    """One attempt's tree."""

    __slots__ = (
        "command",
        "ended",
        "grace_ms",
        "lease_until",
        "length",
        "note",
        "started",
        "stopping",
        "why",
    )

    def __init__(self, note: Note, command: Command, grace_ms: int, started: int) -> None:
        self.note = note
        self.command = command
        self.grace_ms = grace_ms
        self.started = started
        self.lease_until = 0
        self.length = [0, 0]
        self.why = Why.itself
        self.stopping = False
        # (exit, signal, ended at) once it is over.
        self.ended: tuple[int, int, int] | None = None


class Keeper:
    """One keeper; `line` is where its words go while an agent is connected."""

    def __init__(self, world: World, place: str, agent: int, wall: Callable[[], int]) -> None:
        self.world = world
        self.place = place
        self.agent = agent
        self.wall = wall
        self.boot_at = 0
        self.life = 0
        self.processes: dict[str, Process] = {}
        self.failed: dict[str, tuple[str, Reason]] = {}
        self.line: Callable[[object], None] | None = None
        self._alone_since = 0

    def clock(self) -> int:
        """The machine's boot clock, which the agent's deadlines count on too."""
        return self.world.now - self.boot_at + 1_000

    # The line to the agent.

    def connect(self, line: Callable[[object], None]) -> None:
        """An agent is there: tell it all that is held."""
        self.line = line
        meta = {key: write_note(process.note) for key, process in self.processes.items()}
        meta |= {key: text for key, (text, _) in self.failed.items()}
        running = [key for key, process in self.processes.items() if process.ended is None]
        ended = [key for key, process in self.processes.items() if process.ended is not None]
        line(
            words.KeeperListed(
                meta,
                words.KeeperStarted(running, [self.processes[key].started for key in running]),
                self._ended(ended),
                words.KeeperFailed(list(self.failed), [reason for _, reason in self.failed.values()]),
            )
        )
        for key in running:
            self._grew(key, self.processes[key])

    def disconnect(self) -> None:
        """The agent is gone."""
        self.line = None
        self._alone_since = self.world.now
        self._after(LONELY_MS, self._lonely)

    def _say(self, event: object) -> None:
        if self.line is not None:
            self.line(event)

    def _after(self, delay: int, act: Callable[[], None]) -> None:
        life = self.life
        self.world.after(delay, lambda: act() if self.life == life else None)

    def _lonely(self) -> None:
        if self.line is None and self.world.now - self._alone_since >= LONELY_MS:
            for key in self.live():
                self.stop(key, Why.abandoned)

    def live(self) -> list[str]:
        """Keys of processes that run."""
        return [key for key, process in self.processes.items() if process.ended is None]

    # Commands.

    def obey(self, command: object) -> None:
        """One effect of the agent's core."""
        if isinstance(command, words.Spawn):
            for row, key in enumerate(command.key):
                self._spawn(command, row, key)
        elif isinstance(command, words.StopProcess):
            for key in command.key:
                self.stop(key, Why.ordered)
        elif isinstance(command, words.KillProcess):
            for key in command.key:
                self._kill(key, Why.ordered)
        elif isinstance(command, words.MoveDeadline):
            for key, until in zip(command.key, command.lease_until, strict=True):
                process = self.processes.get(key)
                if process is not None and process.lease_until:
                    process.lease_until = max(process.lease_until, until)
        elif isinstance(command, words.Forget):
            for key in command.key:
                self.failed.pop(key, None)
                if key in self.processes and self.processes[key].ended is not None:
                    del self.processes[key]

    def _spawn(self, spawn: words.Spawn, row: int, key: str) -> None:
        known = self.processes.get(key)
        if known is not None:
            self._say(self._ended([key]) if known.ended else words.KeeperStarted([key], [known.started]))
            return
        note = read_note(spawn.meta[row], key)
        command = read_command(spawn.argv)
        assert note is not None
        if command is None:
            self.failed[key] = (spawn.meta[row], Reason.not_found)
            self._say(words.KeeperFailed([key], [Reason.not_found]))
            return
        process = self.processes[key] = Process(note, command, spawn.grace_ms, self.wall())
        exclusive = note.lease_ms > 0
        self.world.tell(
            Began(
                self.world.now, self.place, self.agent, note.job, note.index, note.number, note.term,
                dict(note.ask), exclusive,
            )
        )  # fmt: skip
        self._say(words.KeeperStarted([key], [process.started]))
        for write in range(1, WRITES + 1):
            self._after(command.ms * write // WRITES, partial(self._write, key, process, write))
        code = command.exit if note.number >= command.good_from else 1
        self._after(command.ms + 1, partial(self._end, key, process, code))
        if spawn.limit_ms:
            self._after(spawn.limit_ms, partial(self._stop_this, key, process, Why.run_limit))
        if spawn.lease_until[row]:
            process.lease_until = spawn.lease_until[row]
            self._watch_lease(key, process)

    def _watch_lease(self, key: str, process: Process) -> None:
        left = process.lease_until - self.clock()
        if process.ended is not None:
            return
        if left <= 0:
            self._stop_this(key, process, Why.lease)
        else:
            self._after(left, partial(self._watch_lease, key, process))

    def _write(self, key: str, process: Process, write: int) -> None:
        if process.ended is None:
            total = (process.command.out, process.command.err)
            process.length = [size * write // WRITES for size in total]
            self._grew(key, process)

    def _grew(self, key: str, process: Process) -> None:
        for stream in (0, 1):
            if process.length[stream]:
                self._say(words.Grew([key], [stream], [process.length[stream]]))

    # Ends.

    def stop(self, key: str, why: Why) -> None:
        """TERM now, KILL after the grace."""
        process = self.processes.get(key)
        if process is not None:
            self._stop_this(key, process, why)

    def _stop_this(self, key: str, process: Process, why: Why) -> None:
        if process.ended is not None or process.stopping:
            return
        process.stopping = True
        process.why = why
        patience = min(process.command.term_ms, process.grace_ms)
        signal = 15 if process.command.term_ms <= process.grace_ms else 9
        self._after(patience, partial(self._end, key, process, -signal))

    def _kill(self, key: str, why: Why) -> None:
        process = self.processes.get(key)
        if process is not None and process.ended is None:
            process.why = process.why or why
            process.stopping = True
            self._after(2, partial(self._end, key, process, -9))

    def _end(self, key: str, process: Process, code: int) -> None:
        if process.ended is not None or self.processes.get(key) is not process:
            return
        if not process.stopping:
            process.length = [process.command.out, process.command.err]
        process.ended = (code, 0, self.wall()) if code >= 0 else (0, -code, self.wall())
        note = process.note
        self.world.tell(
            Finished(
                self.world.now,
                self.place,
                note.job,
                note.index,
                note.number,
                note.term,
                code,
                *process.length,
            )
        )
        self._say(self._ended([key]))

    def _ended(self, keys: list[str]) -> words.KeeperEnded:
        rows = [self.processes[key] for key in keys]
        ends = [row.ended for row in rows if row.ended is not None]
        return words.KeeperEnded(
            keys,
            [code for code, _, _ in ends],
            [signal for _, signal, _ in ends],
            [row.why for row in rows],
            [row.started for row in rows],
            [at for _, _, at in ends],
            [row.length[0] for row in rows],
            [row.length[1] for row in rows],
        )

    # Disasters.

    def crash(self) -> None:
        """The keeper dies; its watcher kills what it kept, its journal brings the rest back."""
        self.life += 1
        for key in self.live():
            process = self.processes[key]
            process.stopping, process.why = True, Why.abandoned
            self._end(key, process, -9)
        self.line = None
        self._alone_since = self.world.now

    def reboot(self, keep_disk: bool) -> None:
        """The machine went down: nothing runs; what was not yet written to the disk is gone with it."""
        self.crash()
        self.boot_at = self.world.now
        if not keep_disk:
            self.processes, self.failed = {}, {}
