"""Finds and reads stored output: which block holds a stream at an offset, memory first, then storage.

Every block that passed through this front or lies in the store is indexed in columns, some 20 bytes a row. A
reader opens a stream, which gathers its pieces by offset; blocks that come later are added to open streams
and ring their bells, so followers pull by offset and have no queue of their own.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator

from fairlead.model.blocks import END, Columns, Expand, Refusal, Sealed, parse, payload_of
from fairlead.model.intake import Acked, Stream

from .link import Blobs, Ring

log = logging.getLogger(__name__)

FRESH = "fresh/"
# Stored blocks kept as they came, and blocks kept expanded: what followers read again and again.
RECENT_BYTES = 64 << 20
EXPANDED_BYTES = 32 << 20
# What one read answers at most.
READ_BYTES = 256 << 10
# How often blocks of other fronts are looked for while somebody waits for bytes.
POLL_S = 1.0


class Block:
    """One block: its columns, and where its bytes are (`data` while in memory, `key` once stored)."""

    __slots__ = (
        "at", "attempt", "data", "flags", "index", "job", "key", "length", "number", "offset", "size",
        "starts", "stream", "term",
    )  # fmt: skip

    def __init__(self, number: int, columns: Columns, data: bytes | None, size: int) -> None:
        self.number = number
        self.data = data
        self.key = ""
        self.at = 0
        self.size = size
        self.job = narrow(columns.job)
        self.index = narrow(columns.index)
        self.attempt = narrow(columns.attempt)
        self.term = narrow(columns.term)
        self.stream = narrow(columns.stream)
        self.offset = narrow(columns.offset)
        self.length = narrow(columns.length)
        self.flags = narrow(columns.flags)
        self.starts = narrow(columns.starts())

    def members(self) -> dict[int, array[int]]:
        """The indices of each job in it, sorted."""
        jobs: dict[int, set[int]] = {}
        for job, index in zip(self.job, self.index, strict=True):
            jobs.setdefault(job, set()).add(index)
        return {job: narrow(sorted(indices)) for job, indices in jobs.items()}

    def rows(self, job: int, index: int) -> Iterator[int]:
        """The rows of one instance."""
        row = -1
        while True:
            try:
                row = self.index.index(index, row + 1)
            except ValueError:
                return
            if self.job[row] == job:
                yield row

    def pieces(self) -> Iterator[tuple[Stream, int, int, bool]]:
        """Row by row what is not a whole stream by itself: its stream, where it begins and ends, if it is last."""
        rows = zip(self.offset, self.length, self.flags, strict=True)
        for row, (offset, length, flags) in enumerate(rows):
            if offset or not flags & END:
                yield self.stream_of(row), offset, offset + length, bool(flags & END)

    def add_whole(self, acked: Acked) -> None:
        """Acknowledge the streams that are whole in one row, ends included: nothing before can be missing."""
        rows = [row for row, flags in enumerate(self.flags) if flags & END and not self.offset[row]]
        whole = (
            (acked.job, self.job), (acked.index, self.index), (acked.attempt, self.attempt),
            (acked.term, self.term), (acked.stream, self.stream),
        )  # fmt: skip
        for told, column in whole:
            told.extend([column[row] for row in rows])
        acked.offset.extend([self.length[row] + 1 for row in rows])

    def stream_of(self, row: int) -> Stream:
        """Which stream a row is a piece of."""
        return (self.job[row], self.index[row], self.attempt[row], self.term[row], self.stream[row])


def narrow(values: list[int]) -> array[int]:
    """A column in as few bytes a row as its largest value needs."""
    largest = max(values)
    return array(
        "B" if largest < 1 << 8 else "H" if largest < 1 << 16 else "I" if largest < 1 << 32 else "Q", values
    )


class Opened:
    """One stream that somebody reads: its pieces by offset, and the bells of those who wait.

    No piece lies within another, so starts and ends both rise and the last piece that starts at or before an
    offset is the one that reaches furthest.
    """

    __slots__ = ("bells", "ends", "places", "readers", "starts", "total")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.places: list[tuple[Block, int]] = []
        self.total: int | None = None
        self.readers = 0
        self.bells: set[Ring] = set()

    def add(self, block: Block, row: int) -> None:
        """One more row of this stream."""
        start = block.offset[row]
        end = start + block.length[row]
        if block.flags[row] & END:
            self.total = end
        if start == end:
            return
        at = bisect_left(self.starts, start)
        if at and self.ends[at - 1] >= end:
            return
        until = bisect_right(self.ends, end)
        if until <= at and at < len(self.starts) and self.starts[at] == start and self.ends[at] >= end:
            return
        place = (block, block.starts[row])
        self.starts[at : max(at, until)] = [start]
        self.ends[at : max(at, until)] = [end]
        self.places[at : max(at, until)] = [place]

    def find(self, offset: int) -> tuple[Block, int, int] | None:
        """The block, where in its payload that offset is, and how many bytes of the stream follow there."""
        at = bisect_right(self.starts, offset) - 1
        if at < 0 or self.ends[at] <= offset:
            return None
        block, start = self.places[at]
        return block, start + offset - self.starts[at], self.ends[at] - offset

    def following(self, offset: int) -> int | None:
        """Where bytes begin again behind a hole at that offset; None when there are none."""
        at = bisect_right(self.starts, offset)
        return self.starts[at] if at < len(self.starts) else None

    def drop(self, block: Block) -> None:
        """Its bytes are lost: what it held is a hole."""
        keep = [at for at, (held, _) in enumerate(self.places) if held is not block]
        self.starts = [self.starts[at] for at in keep]
        self.ends = [self.ends[at] for at in keep]
        self.places = [self.places[at] for at in keep]


class Logs:
    """All output this front knows of. One event loop only."""

    def __init__(self, boot: str, blobs: Blobs, expand: Expand) -> None:
        self._own = FRESH + boot
        self._blobs = blobs
        self._expand = expand
        self._numbers = 0
        self._jobs: dict[int, list[tuple[Block, array[int]]]] = {}
        self._opened: dict[Stream, Opened] = {}
        self._recent: deque[Block] = deque()
        self._recent_bytes = 0
        self._expanded: OrderedDict[int, bytes] = OrderedDict()
        self._expanded_bytes = 0
        self._fetching: dict[int, asyncio.Lock] = {}
        # The last object indexed of each boot of a front, by prefix.
        self._seen: dict[str, str] = {}
        self._lock = asyncio.Lock()
        self._refreshes = 0
        self.damaged = 0

    # Blocks come.

    def hold(self, sealed: Sealed, data: bytes) -> Block:
        """A block that has just arrived: readable at once, not stored yet."""
        return self._index(sealed.columns, data, sealed.size)

    def stored(self, key: str, blocks: list[Block]) -> None:
        """These lie in that object, one after the other; memory may let go of them."""
        at = 0
        for block in blocks:
            block.key, block.at = key, at
            at += block.size
            self._recent.append(block)
            self._recent_bytes += block.size
        while self._recent_bytes > RECENT_BYTES:
            oldest = self._recent.popleft()
            oldest.data = None
            self._recent_bytes -= oldest.size

    def _index(self, columns: Columns, data: bytes | None, size: int) -> Block:
        self._numbers += 1
        block = Block(self._numbers, columns, data, size)
        members = block.members()
        for job, indices in members.items():
            self._jobs.setdefault(job, []).append((block, indices))
        if self._opened:
            self._tell(block, members)
        return block

    def _tell(self, block: Block, members: dict[int, array[int]]) -> None:
        if len(self._opened) < len(block.job):
            rows = [
                row
                for stream in self._opened
                if _among(members.get(stream[0]), stream[1])
                for row in block.rows(stream[0], stream[1])
                if block.stream_of(row) == stream
            ]
        else:
            rows = [row for row in range(len(block.job)) if block.stream_of(row) in self._opened]
        for row in rows:
            opened = self._opened[block.stream_of(row)]
            opened.add(block, row)
            for bell in opened.bells:
                bell.set()

    # Readers.

    def terms(self, job: int, index: int, attempt: int) -> list[int]:
        """The terms under which there is output of that attempt, lowest first."""
        found: set[int] = set()
        for block, indices in self._jobs.get(job, ()):
            if _among(indices, index):
                found.update(
                    block.term[row] for row in block.rows(job, index) if block.attempt[row] == attempt
                )
        return sorted(found)

    def holds(self, stream: Stream, start: int, end: int) -> bool:
        """Are all these bytes stored, whoever took them?"""
        with self.open(stream) as reader:
            while start < end:
                found = reader.find(start)
                if found is None or not found[0].key:
                    return False
                start += found[2]
        return True

    def open(self, stream: Stream) -> Reader:
        """Begin to read a stream; the reader must be closed."""
        opened = self._opened.get(stream)
        if opened is None:
            opened = self._opened[stream] = Opened()
            for block, indices in self._jobs.get(stream[0], ()):
                if _among(indices, stream[1]):
                    for row in block.rows(stream[0], stream[1]):
                        if block.stream_of(row) == stream:
                            opened.add(block, row)
        opened.readers += 1
        return Reader(self, stream, opened)

    def close(self, stream: Stream, opened: Opened) -> None:
        """One reader less; the last one takes the pieces along."""
        opened.readers -= 1
        if not opened.readers:
            self._opened.pop(stream, None)

    def waiting(self) -> bool:
        """Does anybody wait for bytes?"""
        return any(opened.bells for opened in self._opened.values())

    async def raw(self, block: Block) -> bytes | None:
        """The expanded payload; None when it is damaged or gone, which is remembered as a hole."""
        known = self._expanded.get(block.number)
        if known is not None:
            self._expanded.move_to_end(block.number)
            return known
        if block.data is not None:
            return self._keep(block, self._unpack(block.data))
        fetching = self._fetching.setdefault(block.number, asyncio.Lock())
        try:
            async with fetching:
                known = self._expanded.get(block.number)
                if known is None:
                    data = await asyncio.to_thread(self._blobs.get, block.key, block.at, block.size)
                    known = self._keep(block, None if data is None else self._unpack(data))
                return known
        finally:
            self._fetching.pop(block.number, None)

    def _unpack(self, data: bytes) -> bytes | None:
        sealed = parse(data, self._expand)
        payload = sealed if isinstance(sealed, Refusal) else payload_of(sealed, self._expand)
        return None if isinstance(payload, Refusal) else payload

    def _keep(self, block: Block, payload: bytes | None) -> bytes | None:
        if payload is None:
            log.error("a block of %s at %d is damaged or gone: its output is a hole", block.key, block.at)
            self._lose(block)
            return None
        self._expanded[block.number] = payload
        self._expanded_bytes += len(payload)
        while self._expanded_bytes > EXPANDED_BYTES and len(self._expanded) > 1:
            self._expanded_bytes -= len(self._expanded.popitem(last=False)[1])
        return payload

    def _lose(self, block: Block) -> None:
        self.damaged += 1
        for job in set(block.job):
            self._jobs[job] = [entry for entry in self._jobs[job] if entry[0] is not block]
        for opened in self._opened.values():
            opened.drop(block)

    # Other fronts, and this one before it was restarted.

    async def refresh(self) -> None:
        """Index every object that is stored by now and not known yet."""
        mine = self._refreshes
        async with self._lock:
            # One that began after this call was made serves it too.
            if self._refreshes > mine + 1:
                return
            self._refreshes += 1
            after = ""
            while page := await asyncio.to_thread(self._blobs.list, FRESH, after):
                after = await self._read_page(page)

    async def _read_page(self, keys: list[str]) -> str:
        """Index the objects that are new; behind which key to go on."""
        for key in keys:
            boot = key.rsplit("/", 1)[0]
            seen = f"{boot}/~" if boot == self._own else self._seen.get(boot, "")
            if key <= seen:
                return seen
            await self._read_object(key)
            self._seen[boot] = key
        return keys[-1]

    async def _read_object(self, key: str) -> None:
        data = await asyncio.to_thread(self._blobs.get, key)
        if data is None:
            return
        at = 0
        while at < len(data):
            sealed = parse(data, self._expand, at)
            if not isinstance(sealed, Refusal):
                block = self._index(sealed.columns, None, sealed.size)
                block.key, block.at = key, at
            else:
                self.damaged += 1
                log.error("%s at %d: no block: %s", key, at, sealed.flaw.value)
            if not sealed.size:
                return
            at += sealed.size

    async def poll(self) -> None:
        """Look for blocks of other fronts as long as somebody waits for bytes; runs for ever."""
        while True:
            await asyncio.sleep(POLL_S)
            if not self.waiting():
                continue
            try:
                await self.refresh()
            except OSError as fault:
                log.warning("the store of output does not answer: %s", fault)


class Reader:
    """One reader of one stream; to be closed."""

    __slots__ = ("_logs", "_opened", "_stream")

    def __init__(self, logs: Logs, stream: Stream, opened: Opened) -> None:
        self._logs = logs
        self._stream = stream
        self._opened = opened

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Read no more."""
        self._logs.close(self._stream, self._opened)

    @property
    def total(self) -> int | None:
        """The length of the whole stream, once its end is known."""
        return self._opened.total

    def find(self, offset: int) -> tuple[Block, int, int] | None:
        """The block with that offset, where it is in its payload, and how many bytes follow there."""
        return self._opened.find(offset)

    async def read(self, offset: int) -> bytes:
        """Bytes from that offset on, as many as are at hand; none when there are none (yet)."""
        while (found := self.find(offset)) is not None:
            block, start, length = found
            payload = await self._logs.raw(block)
            if payload is not None:
                return payload[start : start + min(length, READ_BYTES)]
        return b""

    def following(self, offset: int) -> int | None:
        """Where bytes go on behind a hole at that offset."""
        return self._opened.following(offset)

    def listen(self, bell: Ring) -> None:
        """Ring when there may be more."""
        self._opened.bells.add(bell)

    def leave(self, bell: Ring) -> None:
        """Ring no more."""
        self._opened.bells.discard(bell)


def _among(indices: array[int] | None, index: int) -> bool:
    if indices is None:
        return False
    at = bisect_left(indices, index)
    return at < len(indices) and indices[at] == index
