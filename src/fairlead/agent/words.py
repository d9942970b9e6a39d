"""What goes into a step of an agent, and what comes out.

The process around the core and the simulator speak these words and no others. Times are milliseconds: `now`
of a step and every deadline count on the machine's boot clock, which runs through suspension and is the
keeper's clock too; `wall` and the stamps of ends are wall time, stored and never compared with another's.
An attempt's *key* names it between core, keeper and spool: `job.index.attempt.term`. A stream is one of
the two logs of an attempt, as blocks number them; with merged output only the first is written.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from fairlead.model.orders import Frame
from fairlead.model.reasons import Reason
from fairlead.model.storage import Fence


def key_of(job: int, index: int, number: int, term: int) -> str:
    """How core, keeper and spool name an attempt."""
    return f"{job}.{index}.{number}.{term}"


class Why(IntEnum):
    """What made the keeper see an end."""

    # It ended by itself: by its exit code, or by a signal that was not the keeper's.
    itself = 0
    # The keeper was asked to stop or to kill it, before it ended.
    ordered = 1
    run_limit = 2
    lease = 3
    out_of_memory = 4
    # The keeper ended everything: it was told to, or had been without an agent for too long.
    abandoned = 5


class Settings(Struct, frozen=True, gc=False):
    """What an agent knows of itself when it starts."""

    name: str
    boot: str
    mark: str
    names: list[str]
    totals: list[int]
    labels: list[str]
    # Where control may be dialled and output may be sent, as last kept.
    control: list[str]
    output: list[str] = []
    # The highest fence obeyed so far, as kept.
    fence: Fence | None = None
    # Draws of jitter come from this number.
    seed: int = 0
    # The environment every attempt starts from, and the one that `inherit_env` asks for.
    environment: dict[str, str] = {}
    inherited: dict[str, str] = {}
    # Folders, as texts that are put before the names of workspaces and spool files.
    attempts: str = "attempts"
    spool: str = "spool"
    spool_bytes: int = 10 << 30


# Into a step.


class Dialled(Struct, frozen=True, gc=False):
    """The stream to control that `Dial` asked for stands."""

    session: int


class Heard(Struct, frozen=True, gc=False):
    """A frame came down a session."""

    session: int
    frame: Frame


class Dropped(Struct, frozen=True, gc=False):
    """A session is over, or never came to stand; whoever ended it."""

    session: int


class FenceKept(Struct, frozen=True, gc=False):
    """The fence is on the disk, synced."""

    fence: Fence


class KeeperEnded(Struct, frozen=True, gc=False):
    """Processes that are over. Exactly one of `exit` and `signal` tells how: a signal of 0 is none."""

    key: list[str]
    exit: list[int]
    signal: list[int]
    why: list[Why]
    started: list[int]
    ended: list[int]
    out_length: list[int]
    err_length: list[int]


class KeeperStarted(Struct, frozen=True, gc=False):
    """Processes that run."""

    key: list[str]
    started: list[int]


class KeeperFailed(Struct, frozen=True, gc=False):
    """Processes that could not be started; `reason`: not_found, not_executable, no_such_dir, spawn_failed."""

    key: list[str]
    reason: list[Reason]


class KeeperListed(Struct, frozen=True, gc=False):
    """The first word of a keeper on a new connection: all it holds. What it does not name, it will not start.

    `meta` is, by key, what the core gave with `Spawn`; each key stands in one of the three lists.
    """

    meta: dict[str, str]
    running: KeeperStarted
    ended: KeeperEnded
    failed: KeeperFailed


class KeeperLost(Struct, frozen=True, gc=False):
    """The connection to the keeper is cut; a `KeeperListed` follows once there is one again."""


class Grew(Struct, frozen=True, gc=False):
    """Output files that are longer now; `length` is the whole length."""

    key: list[str]
    stream: list[int]
    length: list[int]


class OutputUnreadable(Struct, frozen=True, gc=False):
    """Output that was written and cannot be read back: it will never be whole."""

    key: list[str]
    stream: list[int]


class OutputDialled(Struct, frozen=True, gc=False):
    """The stream to a front that `DialOutput` asked for stands."""

    link: int


class OutputDropped(Struct, frozen=True, gc=False):
    """A stream to a front is over, or never came to stand."""

    link: int


class OutputStored(Struct, frozen=True, gc=False):
    """A front holds all bytes of these streams before `offset`, durably; one more than there are: the end too."""

    key: list[str]
    stream: list[int]
    offset: list[int]


class Measured(Struct, frozen=True, gc=False):
    """Load in thousandths of the machine."""

    cpu: int
    memory: int


class StopAsked(Struct, frozen=True, gc=False):
    """The agent shall stop: at once and leave its work running (`keep`), or when its work is over."""

    keep: bool


Event = (
    Dialled
    | Heard
    | Dropped
    | FenceKept
    | KeeperListed
    | KeeperStarted
    | KeeperFailed
    | KeeperEnded
    | KeeperLost
    | Grew
    | OutputUnreadable
    | OutputDialled
    | OutputDropped
    | OutputStored
    | Measured
    | StopAsked
)

# Out of a step.


class Dial(Struct, frozen=True, gc=False):
    """Open a stream to control; answered by `Dialled` or `Dropped`. Session numbers never repeat."""

    session: int
    address: str


class HangUp(Struct, frozen=True, gc=False):
    """End a session, after what was said on it before; nothing more is heard of it."""

    session: int


class Say(Struct, frozen=True, gc=False):
    """A frame up a session."""

    session: int
    frame: Frame


class KeepFence(Struct, frozen=True, gc=False):
    """Write the fence to disk and sync it; answered by `FenceKept`."""

    fence: Fence


class KeepAddresses(Struct, frozen=True, gc=False):
    """Remember where control and fronts are, for the next start."""

    control: list[str]
    output: list[str]


class Spawn(Struct, frozen=True, gc=False):
    """Start processes of one spec: what differs by attempt is columns."""

    argv: list[str]
    limit_ms: int
    grace_ms: int
    cpu: int
    memory: int
    key: list[str]
    # A fresh folder to make, and to remove at the end; empty: none.
    workspace: list[str]
    cwd: list[str]
    environment: list[dict[str, str]]
    out: list[str]
    # Empty: into `out` too.
    err: list[str]
    meta: list[str]
    # When each is ended unless `MoveDeadline` comes first; 0: never.
    lease_until: list[int]


class StopProcess(Struct, frozen=True, gc=False):
    """TERM, and KILL after the grace given at the start."""

    key: list[str]


class KillProcess(Struct, frozen=True, gc=False):
    """KILL at once."""

    key: list[str]


class MoveDeadline(Struct, frozen=True, gc=False):
    """Exclusive attempts live at least until then."""

    key: list[str]
    lease_until: list[int]


class Forget(Struct, frozen=True, gc=False):
    """The keeper may forget these ended attempts, and their output may be deleted."""

    key: list[str]


class DialOutput(Struct, frozen=True, gc=False):
    """Open a stream to a front; answered by `OutputDialled` or `OutputDropped`."""

    link: int
    address: str


class HangUpOutput(Struct, frozen=True, gc=False):
    """End a stream to a front; nothing more is heard of it."""

    link: int


class ReadOutput(Struct, frozen=True, gc=False):
    """Read these ranges from the spool and send them on that link, in this order.

    `end` is 1 where the range is the stream's last: its length is known then, and `length` may be 0.
    """

    link: int
    key: list[str]
    stream: list[int]
    offset: list[int]
    length: list[int]
    end: list[int]


class LeaveKeeper(Struct, frozen=True, gc=False):
    """Tell the keeper that this agent goes: work runs on (`keep`), or there is none and it may go too.

    With `keep`, an agent that is not back by then is taken for dead.
    """

    keep: bool
    back_within_ms: int


class Exit(Struct, frozen=True, gc=False):
    """Nothing is left to do: end the process after the effects before this one."""


Effect = (
    Dial
    | HangUp
    | Say
    | KeepFence
    | KeepAddresses
    | Spawn
    | StopProcess
    | KillProcess
    | MoveDeadline
    | Forget
    | DialOutput
    | HangUpOutput
    | ReadOutput
    | LeaveKeeper
    | Exit
)


class Outcome(Struct, frozen=True, gc=False):
    """Effects in order, and when to step again at the latest."""

    effects: list[Effect]
    deadline: int | None
