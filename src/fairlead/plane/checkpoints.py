"""Checkpoints: values that stand for older segments, so that the log stays short.

A round begins when the log has grown enough. Everything dirty is captured piece by piece, each piece at the
moment a batch is closed or all is durable, so that it includes exactly the segments up to a number it names.
It is put only after that segment is committed. A job's record is put after its pages and names their versions,
so a job is always whole. When the round is done, the log is trimmed below the segment it began at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from msgspec import Struct

from fairlead.controllers import records
from fairlead.controllers.ledger import Ledger
from fairlead.model import changes
from fairlead.model.changes import Change, Part, decode
from fairlead.model.keys import Keys
from fairlead.model.storage import Loaded, Put, Trim
from fairlead.plane.journal import RETRY_FIRST_MS, RETRY_LAST_MS, Journal, whole_batches

# A round begins after so many bytes of segments; a piece is captured in one go up to so many bytes.
ROUND_BYTES = 4 << 20
PIECE_BYTES = 512 << 10


class Piece(Struct, frozen=True, gc=False):
    """Values that include segments up to a number."""

    includes: int
    values: dict[str, bytes | None]


class Checkpoints:
    """The round that is going on, if any."""

    def __init__(self, ledger: Ledger, loaded: Loaded) -> None:
        self.ledger = ledger
        self.behind = sum(len(segment) for _, segment in loaded.segments)
        self.specs_put = {key.removeprefix("spec/") for key in loaded.values if key.startswith("spec/")}
        self.leftovers = records.leftovers(loaded.values, ledger)
        self.jobs: deque[int] = deque()
        self.site_due = False
        self.began_at: int | None = None
        self.pieces: deque[Piece] = deque()
        self.asked: Put | Trim | None = None
        self.retry_at: int | None = None
        self.pause = 0

    def committed(self, size: int) -> None:
        """The log grew by so many bytes."""
        self.behind += size

    def begin(self, head: int) -> None:
        """Start a round over what is dirty now."""
        self.began_at = head
        self.behind = 0
        self.jobs = deque(sorted(self.ledger.dirty))
        self.site_due = self.ledger.roster_dirty

    def capture(self, journal: Journal) -> None:
        """Take one piece of the state as it is, which includes all that was closed into segments so far."""
        if journal.open or self.pieces:
            return
        if self.began_at is None:
            if self.behind < ROUND_BYTES:
                return
            self.begin(journal.head)
        includes = journal.parts[-1].n if journal.parts else journal.head
        piece: dict[str, bytes | None] = {}
        size = 0
        for key, body in self._take_values(includes):
            weight = len(key) + len(body or b"")
            if piece and size + weight > PIECE_BYTES:
                self.pieces.append(Piece(includes, piece))
                piece, size = {}, 0
            piece[key] = body
            size += weight
        if piece:
            self.pieces.append(Piece(includes, piece))

    def _take_values(self, includes: int) -> Iterator[tuple[str, bytes | None]]:
        """Whole jobs, a bounded number of bytes and one job more."""
        for key in self.leftovers:
            yield key, None
        self.leftovers = []
        if self.site_due:
            self.site_due = self.ledger.roster_dirty = False
            yield from records.take_site(self.ledger, includes)
        size = 0
        while self.jobs and size < PIECE_BYTES:
            job = self.ledger.jobs[self.jobs.popleft()]
            if job.digest not in self.specs_put:
                self.specs_put.add(job.digest)
                yield "spec/" + job.digest, self.ledger.bodies[job.digest]
            for key, body in records.take_job(self.ledger, job, includes):
                size += len(key) + len(body or b"")
                yield key, body

    def next_op(self, journal: Journal, now: int) -> Put | Trim | None:
        """What to write now: a piece whose segment is durable, or the trim that ends the round."""
        if self.asked is not None or (self.retry_at is not None and now < self.retry_at):
            return None
        if self.pieces:
            if self.pieces[0].includes > journal.head:
                return None
            self.asked = Put(self.pieces[0].values)
        elif self.began_at is not None and not self.jobs and not self.site_due:
            self.asked = Trim(self.began_at + 1)
        return self.asked

    def done(self) -> None:
        """The store did what it was asked."""
        if isinstance(self.asked, Put):
            self.pieces.popleft()
        else:
            self.began_at = None
        self.asked, self.retry_at, self.pause = None, None, 0

    def unanswered(self, now: int) -> None:
        """Unknown: the same again, a little later each time."""
        self.asked = None
        self.pause = min(max(self.pause * 2, RETRY_FIRST_MS), RETRY_LAST_MS)
        self.retry_at = now + self.pause


def load_ledger(loaded: Loaded) -> tuple[Ledger, list[tuple[int, bytes]]]:
    """The ledger that values and segments make, and the segments that count, as they are stored.

    One batch at a time is read into records: those of a whole log are ten times its bytes.
    """
    ledger = Ledger()
    covered = records.load_values(ledger, loaded.values)
    counted: set[int] = set()
    for part in whole_batches(_decoded(loaded)):
        counted.add(part.n)
        for change in part.changes:
            kept = _uncovered(change, part.n, covered)
            if kept is not None:
                ledger.apply(kept, part.term, part.at)
    return ledger, [(n, segment) for n, segment in loaded.segments if n in counted]


def _decoded(loaded: Loaded) -> Iterator[Part]:
    for _, segment in loaded.segments:
        yield decode(segment)


def _uncovered(change: Change, n: int, covered: records.Covered) -> Change | None:
    """The rows of a change that no checkpoint includes yet."""
    if isinstance(change, changes.SpecsAdded):
        return change
    if isinstance(change, changes.Submitted | changes.CancelWanted | changes.Detached):
        return _some_rows(change, change.job, lambda job: covered.job(job) < n)
    keys = getattr(change, "keys", None)
    if isinstance(keys, Keys):
        return _some_rows(change, keys.job, lambda job: covered.job(job) < n)
    return change if covered.site < n else None


def _some_rows(change: Change, jobs: list[int], wanted: Callable[[int], bool]) -> Change | None:
    rows = [row for row, job in enumerate(jobs) if wanted(job)]
    if len(rows) == len(jobs):
        return change
    return changes.select(change, rows) if rows else None
