"""The commit in flight, and the order in which effects may leave.

Changes of many steps gather in the open batch while an earlier one is being written. An effect waits for the
last batch that its state depends on: the open one, else the one in flight, else nothing. An unanswered commit
is repeated, the same bytes, until it is answered; there is no undo.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from fairlead.model import changes
from fairlead.model.changes import FORMAT, SEGMENT_BYTES, Change, Part, encode, weigh
from fairlead.model.keys import Keys
from fairlead.model.limits import WAITING_BYTES
from fairlead.model.storage import Commit
from fairlead.plane.words import Effect

RETRY_FIRST_MS = 20
RETRY_LAST_MS = 1_000


class ToSession(Struct, frozen=True, gc=False):
    """Orders for a session; they get their number when they leave."""

    session: int
    orders: list[object]


Heldback = Effect | ToSession


class Journal:
    """What is not yet durable, and what waits for it."""

    def __init__(self, head: int, term: int) -> None:
        self.head = head
        self.term = term
        self.open: list[Change] = []
        self.open_at = 0
        self.open_bytes = 0
        self.parts: deque[Part] = deque()
        self.asked: Commit | None = None
        # Batches are counted here only to order effects; segments have their own numbers.
        self.batch = 1
        self.durable = 0
        self.written: list[Part] = []
        self.held: deque[tuple[int, Heldback]] = deque()
        self.retry_at: int | None = None
        self.pause = 0

    def stamp(self, now: int) -> int:
        """The time that all changes of the open batch bear."""
        if not self.open:
            self.open_at = now
        return self.open_at

    def record(self, change: Change) -> None:
        """One more change of the open batch."""
        self.open.append(change)
        self.open_bytes += weigh(change)

    def hold(self, effect: Heldback) -> None:
        """An effect of the state as it is now."""
        after = self.batch if self.open else self.batch - 1 if self.parts else 0
        self.held.append((after, effect))

    def release(self) -> Iterator[Heldback]:
        """Effects whose state is durable, in order."""
        while self.held and self.held[0][0] <= self.durable:
            yield self.held.popleft()[1]

    @property
    def idle(self) -> bool:
        """Everything recorded is durable."""
        return not self.open and not self.parts

    @property
    def congested(self) -> bool:
        """So much waits for the store that input should wait too."""
        return self.open_bytes >= WAITING_BYTES

    def next_commit(self, now: int) -> Commit | None:
        """What to write now, if nothing is being written."""
        if self.asked is not None or (self.retry_at is not None and now < self.retry_at):
            return None
        if not self.parts and self.open:
            self._close()
        if not self.parts:
            return None
        part = self.parts[0]
        self.asked = Commit(part.n, encode(part))
        return self.asked

    def committed(self, n: int) -> list[Part]:
        """Segment n is durable; the parts of a batch are returned with its last."""
        self.asked, self.retry_at, self.pause = None, None, 0
        part = self.parts.popleft()
        assert part.n == n, (part.n, n)
        self.head = n
        self.written.append(part)
        if part.more:
            return []
        self.durable = self.batch - 1
        told, self.written = self.written, []
        return told

    def unanswered(self, now: int) -> None:
        """The outcome is unknown: the same commit again, a little later each time."""
        self.asked = None
        self.pause = min(max(self.pause * 2, RETRY_FIRST_MS), RETRY_LAST_MS)
        self.retry_at = now + self.pause

    def _close(self) -> None:
        pieces = list(_pack(self.open))
        first = self.head + 1
        for at, piece in enumerate(pieces):
            more = at < len(pieces) - 1
            self.parts.append(Part(FORMAT, first + at, first, more, self.term, self.open_at, piece))
        self.open = []
        self.open_bytes = 0
        self.batch += 1


def _pack(batch: list[Change]) -> Iterator[list[Change]]:
    """The batch in pieces that each fit a segment."""
    piece: list[Change] = []
    size = 0
    for change in batch:
        for slim in _slim(change):
            weight = weigh(slim)
            if piece and size + weight > SEGMENT_BYTES * 9 // 10:
                yield piece
                piece, size = [], 0
            piece.append(slim)
            size += weight
    yield piece


def _slim(change: Change) -> Iterator[Change]:
    """A change that is too large for a segment, by rows."""
    weight = weigh(change)
    most = SEGMENT_BYTES * 8 // 10
    if weight <= most:
        yield change
        return
    keys = getattr(change, "keys", None)
    rows = len(keys) if isinstance(keys, Keys) else len(getattr(change, "hashes", ()))
    if rows < 2:
        yield change
        return
    half = rows // 2
    yield from _slim(changes.select(change, range(half)))
    yield from _slim(changes.select(change, range(half, rows)))


def whole_batches(parts: Iterator[Part]) -> Iterator[Part]:
    """The parts that count: a batch whose last part does not follow its others is void, wherever it stands."""
    waiting: list[Part] = []
    for part in parts:
        if waiting and (part.batch, part.term) != (waiting[0].batch, waiting[0].term):
            waiting = []
        if not waiting and part.n != part.batch:
            continue
        waiting.append(part)
        if not part.more:
            yield from waiting
            waiting = []
