"""What a front asks of control for the people behind it, and what it is answered.

Every change carries a key, given by the caller or by the front, so that asking twice does once. Looking is
bounded: at most `LOOK_ROWS` items an answer, the rest by cursor.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .changes import Part
from .errors import Problem

LOOK_ROWS = 500


class Submit(Struct, frozen=True, gc=False, tag="submit"):
    """Jobs submitted together. `specs` are encoded JobSpecs, checked by the front and again here."""

    key: str
    digest: str
    name: str
    tenant: str
    caller: str
    specs: list[bytes]


class Cancel(Struct, frozen=True, gc=False, tag="cancel"):
    """End the named work; names, ids, `SUBMISSION/JOB`."""

    names: list[str]
    tenant: str
    reason: int


class Detach(Struct, frozen=True, gc=False, tag="detach"):
    """The caller of a job leaves it on purpose; it does not end for that."""

    name: str
    tenant: str


class Attend(Struct, frozen=True, gc=False, tag="attend"):
    """Somebody waits for these jobs, by number: their callers are not gone. Said again and again."""

    jobs: list[int]


class Look(Struct, frozen=True, gc=False, tag="look"):
    """List a kind, or show one of it."""

    kind: str
    tenant: str
    name: str = ""
    after: int = 0
    limit: int = 100
    filters: dict[str, str] = {}


class Explain(Struct, frozen=True, gc=False, tag="why"):
    """Why does it wait, or how did it end?"""

    name: str
    tenant: str


class History(Struct, frozen=True, gc=False, tag="history"):
    """What happened to a job, or to one instance of it, in order."""

    name: str
    tenant: str


class AddToken(Struct, frozen=True, gc=False, tag="token"):
    """Keep a token's digest; its secret never gets here."""

    id: str
    digest: str
    role: str
    tenant: str
    uses: int
    ttl_ms: int


class RevokeToken(Struct, frozen=True, gc=False, tag="revoke"):
    """Let a token open nothing any more."""

    id: str


class Admit(Struct, frozen=True, gc=False, tag="admit"):
    """A machine presents a join token and wants a number; or so many at once, for one that plays them."""

    token: str
    digest: str
    role: str
    name: str
    count: int = 1


class Check(Struct, frozen=True, gc=False, tag="check"):
    """Which role and tenant does a bearer token carry?"""

    token: str
    digest: str


class WantAgent(Struct, frozen=True, gc=False, tag="agent"):
    """Cordon, drain, ban, or open an agent."""

    name: str
    wanted: int
    reason: str


class Follow(Struct, frozen=True, gc=False, tag="follow"):
    """Tell me every segment from this one on, as it becomes durable; -1: from now.

    A front says here where its own server can be reached, for agents to know: its control's address and the
    address where it takes output.
    """

    since: int
    control: str = ""
    output: str = ""


Request = (
    Submit
    | Cancel
    | Attend
    | Detach
    | Look
    | Explain
    | History
    | AddToken
    | RevokeToken
    | Admit
    | Check
    | WantAgent
    | Follow
)


class Ask(Struct, frozen=True, gc=False):
    """A request on a front's link, numbered by the front."""

    id: int
    request: Request


class Accepted(Struct, frozen=True, gc=False, tag="accepted"):
    """A submission is durable."""

    submission: str
    jobs: list[str]
    names: list[str]


class Changed(Struct, frozen=True, gc=False, tag="changed"):
    """A change is durable; by name what became of it (`ok`, or a sentence)."""

    names: list[str]
    said: list[str]


class Admitted(Struct, frozen=True, gc=False, tag="admitted"):
    """The first number, and the names, under which the machines are known from now on."""

    number: int
    names: list[str]
    site: str


class Principal(Struct, frozen=True, gc=False, tag="principal"):
    """Who a token stands for."""

    role: str
    tenant: str


class Seen(Struct, frozen=True, gc=False, tag="seen"):
    """Items looked at, as they are shown in JSON, and the cursor of the next page (0: no more)."""

    items: list[dict[str, Any]]
    next: int = 0


class Following(Struct, frozen=True, gc=False, tag="following"):
    """Segments will be told from `since` on; `resync` when older ones were asked for than are kept."""

    since: int
    resync: bool


class Elsewhere(Struct, frozen=True, gc=False, tag="elsewhere"):
    """This control does not lead; ask there (empty: not known yet)."""

    leader: str


Reply = Accepted | Changed | Admitted | Principal | Seen | Following | Elsewhere | Problem


class Told(Struct, frozen=True, gc=False):
    """To a following front: a segment that is durable now."""

    part: Part


class Answer(Struct, frozen=True, gc=False):
    """The reply to the ask of that number."""

    id: int
    reply: Reply
