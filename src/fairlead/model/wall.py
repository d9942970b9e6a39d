"""The wall between what should exist (controllers) and where (scheduler).

A repeat is a no-op by key. A new session starts from state: controllers offer all that is not over, agents
report all that they hold. The same words stand in `controller.proto` for a stranger's controller.
"""

from __future__ import annotations

from msgspec import Struct

from fairlead.model.keys import Keys
from fairlead.model.lifecycles import Wanted
from fairlead.model.orders import Ended, How, OutputDone, Stages, What
from fairlead.model.reasons import Reason


class Shape(Struct, frozen=True, gc=False):
    """What makes two instances equal for placement: amounts, and rules over labels."""

    ask: tuple[tuple[str, int], ...]
    where: tuple[str, ...] = ()


# Controllers to scheduler.


class Offer(Struct, frozen=True, gc=False):
    """Instances of one job that want a place, as a lot: spans of one attempt number."""

    job: int
    shape: Shape
    spec: str
    attempt: int
    first: list[int]
    count: list[int]
    priority: int
    arrival: int
    # 0: overlap; else the lease of an exclusive attempt.
    lease_ms: int
    # An agent that just lost or refused this instance is tried last; 0: none.
    avoid: int = 0
    # Not placed at once: given back as `Full` instead of queued.
    refuse_when_full: bool = False


class Bodies(Struct, frozen=True, gc=False):
    """What the specs named in offers say; told once, before the first offer that names them."""

    hashes: list[str]
    bodies: list[bytes]


class Resume(Struct, frozen=True, gc=False):
    """Attempts that were placed under an earlier term: held until their agent reports or is given up."""

    keys: Keys
    agent: list[int]
    term: list[int]
    shape: Shape
    spec: str
    lease_ms: int


class Sealed(Struct, frozen=True, gc=False):
    """All that is not over has been offered."""


class Over(Struct, frozen=True, gc=False):
    """Every instance of these jobs is closed: what is remembered of them may go."""

    jobs: list[int]


class Withdraw(Struct, frozen=True, gc=False):
    """Take these instances out of the queue; what is placed already is not touched."""

    job: int
    first: list[int]
    count: list[int]


class Confirm(Struct, frozen=True, gc=False):
    """These placements are in the segment being written: their orders may follow it."""

    keys: Keys


class Stop(Struct, frozen=True, gc=False):
    """End these attempts; repeated to every new session until they are reported ended."""

    keys: Keys
    how: How
    reason: Reason


class Agents(Struct, frozen=True, gc=False):
    """The durable roster, or what changed of it."""

    number: list[int]
    name: list[str]
    wanted: list[Wanted]
    boot: list[str]
    mark: list[str]


class Ack(Struct, frozen=True, gc=False):
    """These facts are in the segment being written; the agent is told after it."""

    agent: int
    keys: Keys
    what: What


# Scheduler to controllers.


class Placed(Struct, frozen=True, gc=False):
    """Where attempts shall run. Durable before any start order leaves."""

    keys: Keys
    agent: list[int]


class AgentEnded(Struct, frozen=True, gc=False):
    """An agent's report of ends, unchanged."""

    agent: int
    ended: Ended


class AgentOutput(Struct, frozen=True, gc=False):
    """An agent's report of whole output, unchanged."""

    agent: int
    output: OutputDone


class AgentStages(Struct, frozen=True, gc=False):
    """An agent's report of progress, unchanged and soft."""

    agent: int
    stages: Stages


class Refused(Struct, frozen=True, gc=False):
    """The agent would not start these; each closes its attempt and charges no budget."""

    agent: int
    keys: Keys
    reason: list[int]


class Full(Struct, frozen=True, gc=False):
    """Instances of a lot that would have had to wait, and whose job does not want to."""

    job: int
    first: list[int]
    count: list[int]


class Lost(Struct, frozen=True, gc=False):
    """These attempts are over without a word from their agent: dead, silent or vanished."""

    agent: int
    keys: Keys
    reason: Reason


class AgentSeen(Struct, frozen=True, gc=False):
    """An agent said hello with this boot and mark."""

    agent: int
    boot: str
    mark: str


class AgentGone(Struct, frozen=True, gc=False):
    """An agent left on purpose (`agent_leaving`), fell silent, or is proven dead."""

    agent: int
    reason: Reason


ToScheduler = Bodies | Offer | Resume | Sealed | Over | Withdraw | Confirm | Stop | Agents | Ack
ToControllers = (
    Placed | AgentEnded | AgentOutput | AgentStages | Refused | Full | Lost | AgentSeen | AgentGone
)
