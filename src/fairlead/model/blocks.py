"""The block: one form for output from the agent's spool to the bucket.

Decides how rows of many attempts' output become one checked piece of bytes, and which pieces of bytes are
none. The head, with the columns, stands apart from the payload: whoever forwards or indexes a block checks
both checksums and reads the columns without expanding the payload. Head and payload are a skippable frame and
a frame of zstd, so the stock tool recovers the text of a block without us. `docs/formats.md` has every byte.

Compression is a pair of functions given by the caller. Bytes that are no block are a Refusal, never an
exception: they come from disks and networks. A block that was packed wrongly is a bug, and raises.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import accumulate
from zlib import crc32

from msgspec import Struct

VERSION = 1
# Small enough that a read at any offset expands little, large enough to cost only an eighth of the ratio.
BLOCK_BYTES = 256 << 10
# Bounds the columns of a block of tiny rows, and what one put may hold back.
BLOCK_ROWS = 5_000

OUT, ERR = 0, 1
END = 1

_FRAME = 0x184D2A5B  # one of zstd's skippable frames
_MAGIC = b"FLBK"
_HEAD = struct.Struct("<II4sBBHIIIIII")
_HEAD_BYTES = _HEAD.size
_COLUMNS_SQUEEZED, _PAYLOAD_SQUEEZED = 1, 2
_DIGEST = 32
_TOP = 1 << 63
# Kind, eight bytes of base and at most eight a row, for eight columns; a digest a row.
_COLUMNS_MOST = 8 * (17 + 8 * BLOCK_ROWS) + _DIGEST * BLOCK_ROWS

Squeeze = Callable[[bytes], bytes]
# Given the stored bytes and the length they must expand to; None when they do not.
Expand = Callable[[bytes, int], bytes | None]


class Flaw(Enum):
    """Why bytes are no block, or only the head of one."""

    short = "it ends too early"
    not_a_block = "it does not begin like a block"
    unknown_version = "a later release wrote it"
    head_damaged = "the checksum of the head does not match"
    payload_damaged = "the checksum of the payload does not match"
    too_large = "it is above the limits of a block"
    nonsense = "its columns contradict each other"
    does_not_expand = "it does not expand to the length it names"


class Columns(Struct, frozen=True, gc=False):
    """What the rows of a block are; the bytes of row n follow those of row n - 1 in the payload.

    `flags` is 1 (END) on the row with which its stream ends: offset + length is the stream's total length.
    `digests` holds the sha256 of the stream for each ending row, in order, but for those at offset 0: they
    hold the whole stream, so the digest is that of their bytes and short logs need not carry it.
    """

    job: list[int]
    index: list[int]
    attempt: list[int]
    term: list[int]
    stream: list[int]
    offset: list[int]
    length: list[int]
    flags: list[int]
    digests: list[bytes]

    def __len__(self) -> int:
        return len(self.job)

    def starts(self) -> list[int]:
        """Where the bytes of each row begin in the payload."""
        return list(accumulate(self.length, initial=0))[:-1]


class Row(Struct, frozen=True, gc=False):
    """A piece of one stream; `digest` is the sha256 of the whole stream on its ending row, else empty."""

    job: int
    index: int
    attempt: int
    term: int
    stream: int
    offset: int
    data: bytes
    end: bool = False
    digest: bytes = b""

    @property
    def key(self) -> tuple[int, int, int, int, int]:
        """The stream it is a piece of."""
        return (self.job, self.index, self.attempt, self.term, self.stream)

    @property
    def stop(self) -> int:
        """The offset behind its last byte."""
        return self.offset + len(self.data)


class Sealed(Struct, frozen=True, gc=False):
    """A block whose checksums match, its payload still as stored."""

    columns: Columns
    payload: bytes
    squeezed: bool
    raw: int
    """Length of the payload when expanded."""
    size: int
    """Bytes of the whole block."""


class Refusal(Struct, frozen=True, gc=False):
    """Why there is no block here.

    `columns` tells which rows are lost when the head is sound; `size` is how far the next block is, 0 when
    that is unknown. Nobody looks for the next head by its magic: an attempt may print bytes that look so.
    """

    flaw: Flaw
    columns: Columns | None = None
    size: int = 0


def pack(columns: Columns, payload: bytes, squeeze: Squeeze | None = None) -> bytes:
    """A block of these rows. ValueError for rows that no block may hold: limits are the caller's to keep."""
    flaw = _judge(columns, len(payload))
    if flaw is not None:
        raise ValueError(f"not to be packed: {flaw.value}")
    plain = _encode(columns)
    stored, body, packing = plain, payload, 0
    if squeeze is not None:
        body, packing = squeeze(payload), _PAYLOAD_SQUEEZED
        smaller = squeeze(plain)
        if len(smaller) < len(plain):
            stored, packing = smaller, packing | _COLUMNS_SQUEEZED
    front = _HEAD.pack(
        *(_FRAME, _HEAD_BYTES - 8 + len(stored), _MAGIC, VERSION, packing, 0),
        *(len(columns), len(plain), len(payload), len(body), crc32(body), 0),
    )[:-4]
    return b"".join((front, crc32(stored, crc32(front)).to_bytes(4, "little"), stored, body))


def parse(data: bytes, expand: Expand | None = None, at: int = 0) -> Sealed | Refusal:
    """The block that begins at `at`. `expand` is needed for squeezed columns; the payload is not expanded."""
    if len(data) - at < _HEAD_BYTES:
        return Refusal(Flaw.short)
    frame, rest, magic, version, packing, zero, rows, plain, raw, kept, body_crc, head_crc = (
        _HEAD.unpack_from(data, at)
    )
    if frame != _FRAME or magic != _MAGIC:
        return Refusal(Flaw.not_a_block)
    columns_at, body_at = at + _HEAD_BYTES, at + 8 + rest
    if body_at < columns_at or body_at > len(data):
        return Refusal(Flaw.short)
    stored = data[columns_at:body_at]
    if crc32(stored, crc32(data[at : columns_at - 4])) != head_crc:
        return Refusal(Flaw.head_damaged)
    size = body_at + kept - at
    if version != VERSION or packing > 3 or zero:
        return Refusal(Flaw.unknown_version, None, size)
    if not 0 < rows <= BLOCK_ROWS or raw > BLOCK_BYTES or plain > _COLUMNS_MOST:
        return Refusal(Flaw.too_large, None, size)
    columns = _open_columns(stored, packing, plain, rows, raw, expand)
    if isinstance(columns, Flaw):
        return Refusal(columns, None, size)
    body = data[body_at : body_at + kept]
    if len(body) != kept:
        return Refusal(Flaw.short, columns)
    if crc32(body) != body_crc:
        return Refusal(Flaw.payload_damaged, columns, size)
    return Sealed(columns, body, bool(packing & _PAYLOAD_SQUEEZED), raw, size)


def payload_of(sealed: Sealed, expand: Expand | None = None) -> bytes | Refusal:
    """The expanded bytes of all rows."""
    body: bytes | None = sealed.payload
    if sealed.squeezed:
        body = None if expand is None else expand(sealed.payload, sealed.raw)
    if body is None or len(body) != sealed.raw:
        return Refusal(Flaw.does_not_expand, sealed.columns, sealed.size)
    return body


def rows_of(columns: Columns, payload: bytes) -> Iterator[Row]:
    """Row by row, with bytes."""
    digests = iter(columns.digests)
    rows = zip(
        *(columns.job, columns.index, columns.attempt, columns.term, columns.stream),
        *(columns.offset, columns.length, columns.flags, columns.starts()),
        strict=True,
    )
    for job, index, attempt, term, stream, offset, length, flags, start in rows:
        data = payload[start : start + length]
        end = bool(flags & END)
        digest = b""
        if end:
            digest = next(digests) if offset else hashlib.sha256(data).digest()
        yield Row(job, index, attempt, term, stream, offset, data, end, digest)


class Filling:
    """A block that is being filled."""

    __slots__ = ("_columns", "_digests", "_pieces", "size")

    def __init__(self) -> None:
        self._columns: list[list[int]] = [[] for _ in range(8)]
        self._digests: list[bytes] = []
        self._pieces: list[bytes] = []
        self.size = 0

    def __len__(self) -> int:
        return len(self._pieces)

    def has_room(self, length: int) -> bool:
        """Whether a row of so many bytes still fits."""
        return len(self._pieces) < BLOCK_ROWS and self.size + length <= BLOCK_BYTES

    def add(self, row: Row) -> None:
        """One more row, for which there must be room."""
        facts = (*row.key, row.offset, len(row.data), END if row.end else 0)
        for column, fact in zip(self._columns, facts, strict=True):
            column.append(fact)
        if row.end and row.offset:
            self._digests.append(row.digest)
        self._pieces.append(row.data)
        self.size += len(row.data)

    def done(self) -> tuple[Columns, bytes]:
        """What `pack` takes; the filling must not be added to afterwards."""
        job, index, attempt, term, stream, offset, length, flags = self._columns
        columns = Columns(job, index, attempt, term, stream, offset, length, flags, self._digests)
        return columns, b"".join(self._pieces)


def fill(rows: Iterable[Row]) -> Iterator[tuple[Columns, bytes]]:
    """Cut rows into as few blocks as their order allows; a row that no block can hold is cut too."""
    filling = Filling()
    for row in rows:
        for piece in _pieces(row):
            if not filling.has_room(len(piece.data)):
                yield filling.done()
                filling = Filling()
            filling.add(piece)
    if len(filling):
        yield filling.done()


def merge(rows: Iterable[Row]) -> list[Row]:
    """The same streams, sorted, each byte once; touching pieces become one.

    Bytes at the same place of the same stream are the same bytes, so which copy is kept does not matter and
    merging what was merged changes nothing.
    """
    streams: dict[tuple[int, int, int, int, int], list[Row]] = {}
    for row in rows:
        streams.setdefault(row.key, []).append(row)
    merged: list[Row] = []
    for key in sorted(streams):
        merged.extend(_merge_one(streams[key]))
    return merged


def _merge_one(rows: list[Row]) -> list[Row]:
    rows.sort(key=lambda row: row.offset)
    ending = next((row for row in rows if row.end), None)
    runs: list[tuple[int, list[bytes]]] = []
    reach = fill_level = 0
    for row in rows:
        fresh = row.data[max(reach - row.offset, 0) :]
        if not fresh:
            continue
        start = row.stop - len(fresh)
        if runs and start == reach and fill_level + len(fresh) <= BLOCK_BYTES:
            runs[-1][1].append(fresh)
            fill_level += len(fresh)
        else:
            runs.append((start, [fresh]))
            fill_level = len(fresh)
        reach = row.stop
    first = rows[0]
    merged = [Row(*first.key, start, b"".join(parts)) for start, parts in runs]
    return merged if ending is None else _with_end(merged, ending)


def _with_end(rows: list[Row], ending: Row) -> list[Row]:
    """The end goes to the piece that reaches it, else to a row of its own.

    Its own also when a piece at offset 0 does not have the digest: there it would no longer be written.
    """
    for at, row in enumerate(rows):
        if row.stop == ending.stop:
            if not row.offset and hashlib.sha256(row.data).digest() != ending.digest:
                continue
            rows[at] = Row(*row.key, row.offset, row.data, True, ending.digest)
            return rows
        if row.offset >= ending.stop:
            break
    else:
        at = len(rows)
    rows.insert(at, Row(*ending.key, ending.stop, b"", True, ending.digest))
    return rows


def _pieces(row: Row) -> Iterator[Row]:
    if len(row.data) <= BLOCK_BYTES:
        yield row
        return
    for start in range(0, len(row.data), BLOCK_BYTES):
        data = row.data[start : start + BLOCK_BYTES]
        last = row.end and start + len(data) == len(row.data)
        yield Row(*row.key, row.offset + start, data, last, row.digest if last else b"")


def _judge(columns: Columns, raw: int) -> Flaw | None:
    """What is wrong with these rows, if anything."""
    facts = (columns.job, columns.index, columns.attempt, columns.term, columns.offset, columns.length)
    rows = len(columns)
    if any(len(column) != rows for column in (*facts, columns.stream, columns.flags)):
        return Flaw.nonsense
    if not 0 < rows <= BLOCK_ROWS or raw > BLOCK_BYTES:
        return Flaw.too_large
    if any(min(column) < 0 or max(column) >= _TOP for column in facts) or sum(columns.length) != raw:
        return Flaw.nonsense
    if not (set(columns.stream) <= {OUT, ERR} and set(columns.flags) <= {0, END}):
        return Flaw.nonsense
    carried = sum(1 for offset, flags in zip(columns.offset, columns.flags, strict=True) if flags and offset)
    if carried != len(columns.digests) or any(len(digest) != _DIGEST for digest in columns.digests):
        return Flaw.nonsense
    return None


# Columns as bytes. Each is one kind byte, then by kind: the one value; the first value and the step; the
# least value and what each row has above it, in one, two, four or eight bytes.

_CONSTANT, _STEP = 0, 9
_VALUE = struct.Struct("<Q")
_PAIR = struct.Struct("<Qq")
_WIDTHS = {1: "B", 2: "H", 4: "I", 8: "Q"}


def _encode(columns: Columns) -> bytes:
    keys = (columns.job, columns.index, columns.attempt, columns.term, columns.stream)
    lists = (*keys, columns.offset, columns.length, columns.flags)
    return b"".join((*(_encode_column(values) for values in lists), *columns.digests))


def _encode_column(values: list[int]) -> bytes:
    base = min(values)
    above = max(values) - base
    if not above:
        return bytes((_CONSTANT,)) + _VALUE.pack(base)
    first, step = values[0], values[1] - values[0]
    stop = first + step * len(values)
    if step and values[-1] == stop - step and values == list(range(first, stop, step)):
        return bytes((_STEP,)) + _PAIR.pack(first, step)
    width = next(width for width in _WIDTHS if above < 1 << 8 * width)
    over = values if not base else [value - base for value in values]
    return bytes((width,)) + _VALUE.pack(base) + struct.pack(f"<{len(over)}{_WIDTHS[width]}", *over)


def _open_columns(
    stored: bytes, packing: int, plain: int, rows: int, raw: int, expand: Expand | None
) -> Columns | Flaw:
    data: bytes | None = stored
    if packing & _COLUMNS_SQUEEZED:
        data = None if expand is None else expand(stored, plain)
    if data is None or len(data) != plain:
        return Flaw.does_not_expand
    columns = _decode(data, rows)
    if columns is None:
        return Flaw.nonsense
    return _judge(columns, raw) or columns


def _decode(data: bytes, rows: int) -> Columns | None:
    lists: list[list[int]] = []
    at = 0
    for _ in range(8):
        read = _decode_column(data, at, rows)
        if read is None:
            return None
        values, at = read
        lists.append(values)
    if (len(data) - at) % _DIGEST:
        return None
    digests = [data[start : start + _DIGEST] for start in range(at, len(data), _DIGEST)]
    job, index, attempt, term, stream, offset, length, flags = lists
    return Columns(job, index, attempt, term, stream, offset, length, flags, digests)


def _decode_column(data: bytes, at: int, rows: int) -> tuple[list[int], int] | None:
    """The values, and where the next column begins."""
    if len(data) - at < 9:
        return None
    kind = data[at]
    (base,) = _VALUE.unpack_from(data, at + 1)
    if kind == _CONSTANT:
        return [base] * rows, at + 9
    if kind == _STEP:
        if len(data) - at < 17:
            return None
        first, step = _PAIR.unpack_from(data, at + 1)
        if not step:
            return None
        return list(range(first, first + step * rows, step)), at + 17
    letter = _WIDTHS.get(kind)
    if letter is None or len(data) - at - 9 < kind * rows:
        return None
    over = struct.unpack_from(f"<{rows}{letter}", data, at + 9)
    return [base + value for value in over] if base else list(over), at + 9 + kind * rows
