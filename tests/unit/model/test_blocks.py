from __future__ import annotations

import hashlib
import zlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.blocks import (
    BLOCK_BYTES,
    BLOCK_ROWS,
    Columns,
    Flaw,
    Refusal,
    Row,
    Sealed,
    fill,
    merge,
    pack,
    parse,
    payload_of,
    rows_of,
)


def squeeze(data: bytes) -> bytes:
    return zlib.compress(data, 1)


def expand(data: bytes, length: int) -> bytes | None:
    try:
        out = zlib.decompress(data)
    except zlib.error:
        return None
    return out if len(out) == length else None


def stream_rows(key: tuple[int, int, int, int, int], text: bytes, cuts: list[int]) -> list[Row]:
    """The whole of one stream, cut at these places; the last piece ends it."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    digest = hashlib.sha256(text).digest()
    rows = [Row(*key, low, text[low:high]) for low, high in pairwise(places)]
    rows = rows or [Row(*key, 0, b"")]
    last = rows[-1]
    return [*rows[:-1], Row(*key, last.offset, last.data, True, digest)]


def written(rows: list[Row], squeezed: bool = True) -> list[bytes]:
    return [pack(columns, payload, squeeze if squeezed else None) for columns, payload in fill(rows)]


def read(block: bytes) -> list[Row]:
    sealed = parse(block, expand)
    assert isinstance(sealed, Sealed)
    assert sealed.size == len(block)
    payload = payload_of(sealed, expand)
    assert isinstance(payload, bytes)
    return list(rows_of(sealed.columns, payload))


numbers = st.integers(0, (1 << 62) - 1) | st.integers(0, 300)
keys = st.tuples(numbers, numbers, numbers, numbers, st.integers(0, 1))
cuttings = st.lists(st.integers(0, 400), max_size=6)
streams = st.dictionaries(keys, st.binary(max_size=300), min_size=1, max_size=4)


def piece(key: tuple[int, int, int, int, int], offset: int, data: bytes) -> Row:
    return Row(*key, offset, data)


small_rows = st.builds(piece, keys, st.integers(0, 1 << 40), st.binary(max_size=40))


@given(st.lists(small_rows, min_size=1, max_size=30), st.booleans())
def test_what_is_packed_is_read_back(rows: list[Row], squeezed: bool) -> None:
    assert [row for block in written(rows, squeezed) for row in read(block)] == rows


@given(streams, st.lists(cuttings, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_any_cutting_doubling_and_order_of_blocks_gives_the_streams_again(
    texts: dict[tuple[int, int, int, int, int], bytes], tries: list[list[int]], random: object
) -> None:
    rows = [row for cuts in tries for key, text in texts.items() for row in stream_rows(key, text, cuts)]
    random.shuffle(rows)  # type: ignore[attr-defined]
    blocks = [block for row in rows for block in written([row])]
    merged = merge([row for block in blocks for row in read(block)])
    assert {row.key: row.data for row in merged} == texts
    assert all(row.offset == 0 and row.end for row in merged)
    assert [row.digest for row in merged] == [hashlib.sha256(row.data).digest() for row in merged]


@given(streams, cuttings, st.sets(st.integers(0, 30)))
def test_merging_loses_nothing_and_merging_again_changes_nothing(
    texts: dict[tuple[int, int, int, int, int], bytes], cuts: list[int], lost: set[int]
) -> None:
    rows = [row for key, text in texts.items() for row in stream_rows(key, text, cuts)]
    rows = [row for at, row in enumerate(rows) if at not in lost]
    merged = merge(rows)
    assert merge(merged) == merged
    assert {(r.key, r.offset + i) for r in merged for i in range(len(r.data))} == {
        (r.key, r.offset + i) for r in rows for i in range(len(r.data))
    }
    assert all(texts[r.key][r.offset : r.stop] == r.data for r in merged)
    assert {(r.key, r.stop, r.digest) for r in merged if r.end} == {
        (r.key, r.stop, r.digest) for r in rows if r.end
    }


@settings(max_examples=30)
@given(st.lists(small_rows, min_size=1, max_size=4), st.booleans(), st.integers(1, 255))
def test_every_damaged_byte_is_found(rows: list[Row], squeezed: bool, damage: int) -> None:
    block = written(rows, squeezed)[0]
    for at in range(len(block)):
        damaged = bytearray(block)
        damaged[at] ^= damage
        assert isinstance(parse(bytes(damaged), expand), Refusal)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_make_it_raise(noise: bytes, cut: int) -> None:
    good = written([Row(1, 2, 3, 4, 0, 5, b"hello")])[0]
    assert isinstance(parse(noise, expand), Refusal)
    assert isinstance(parse(good[: cut % len(good)] + noise[:0], expand), Refusal)
    parse(good[: cut % len(good)] + noise, expand)


@given(st.binary(max_size=300), st.integers(1, BLOCK_ROWS), st.integers(0, 3))
def test_columns_with_a_right_checksum_that_say_nonsense_are_refused(
    noise: bytes, rows: int, packing: int
) -> None:
    """What a broken or hostile writer may send: the head itself is consistent."""
    good = pack(Columns([1], [0], [1], [1], [0], [0], [3], [0], []), b"abc")
    front = bytearray(good[:36])
    front[4:8] = (32 + len(noise)).to_bytes(4, "little")
    front[13] = packing
    front[16:20] = rows.to_bytes(4, "little")
    front[20:24] = len(noise).to_bytes(4, "little")
    crc = zlib.crc32(noise, zlib.crc32(front)).to_bytes(4, "little")
    found = parse(bytes(front) + crc + noise + b"abc", expand)
    assert isinstance(found, Refusal) or sum(found.columns.length) == found.raw


def test_the_columns_are_read_without_the_payload_being_expanded() -> None:
    def only_columns(data: bytes, length: int) -> bytes | None:
        out = expand(data, length)
        assert out is not None
        assert b"text" not in out
        return out

    rows = [Row(7, index, 1, 3, index % 2, 0, b"text") for index in range(500)]
    sealed = parse(written(rows)[0], only_columns)
    assert isinstance(sealed, Sealed)
    assert sealed.columns.index == list(range(500))
    assert sealed.columns.starts()[-1] == 499 * 4


def test_a_damaged_payload_still_tells_which_rows_are_lost_and_where_the_next_block_begins() -> None:
    first, second = written([Row(1, 2, 3, 4, 0, 100, b"lost")]) + written([Row(1, 2, 3, 4, 0, 104, b"kept")])
    both = first[:-1] + bytes([first[-1] ^ 1]) + second
    refusal = parse(both, expand)
    assert isinstance(refusal, Refusal)
    assert refusal.flaw is Flaw.payload_damaged
    assert refusal.columns is not None
    assert (refusal.columns.offset, refusal.columns.length) == ([100], [4])
    after = parse(both, expand, refusal.size)
    assert isinstance(after, Sealed)
    assert after.columns.offset == [104]


def test_a_later_version_is_stepped_over_by_its_size() -> None:
    block = bytearray(written([Row(1, 2, 3, 4, 0, 0, b"new")], squeezed=False)[0])
    block[12] = 2
    block[36:40] = zlib.crc32(block[40 : 8 + block[4]], zlib.crc32(block[:36])).to_bytes(4, "little")
    assert parse(bytes(block)) == Refusal(Flaw.unknown_version, None, len(block))


def test_a_short_log_carries_no_digest_of_its_own() -> None:
    text = b"20 bytes of result.\n"
    digest = hashlib.sha256(text).digest()
    rows = [Row(job, 0, 1, 1, 0, 0, text, True, digest) for job in range(BLOCK_ROWS)]
    (block,) = written(rows)
    assert len(block) < 2 * BLOCK_ROWS
    assert read(block) == rows


def test_rows_are_cut_into_blocks_by_bytes_and_by_number() -> None:
    rows = [Row(1, n, 1, 1, 0, 0, b"x") for n in range(2 * BLOCK_ROWS + 1)]
    assert [len(columns) for columns, _ in fill(rows)] == [BLOCK_ROWS, BLOCK_ROWS, 1]
    text = bytes(2 * BLOCK_BYTES + 1)
    long = Row(1, 0, 1, 1, 0, 10, text, True, hashlib.sha256(text).digest())
    assert [len(payload) for _, payload in fill([long])] == [BLOCK_BYTES, BLOCK_BYTES, 1]
    assert merge([row for block in written([long]) for row in read(block)])[-1].end


@pytest.mark.parametrize(
    "columns",
    [
        Columns([], [], [], [], [], [], [], [], []),
        Columns([1], [0], [1], [1], [0], [0], [4], [0], []),
        Columns([-1], [0], [1], [1], [0], [0], [3], [0], []),
        Columns([1], [0], [1], [1], [2], [0], [3], [0], []),
        Columns([1], [0], [1], [1], [0], [0], [3], [0], [bytes(32)]),
        Columns([1], [0], [1], [1], [0], [9], [3], [1], []),
        Columns([1, 1], [0], [1], [1], [0], [0], [3], [0], []),
    ],
)
def test_rows_that_no_block_may_hold_are_a_bug_of_the_writer(columns: Columns) -> None:
    with pytest.raises(ValueError, match="not to be packed"):
        pack(columns, b"abc")


def test_the_end_stays_apart_when_the_bytes_before_it_are_missing() -> None:
    digest = hashlib.sha256(b"abcdef").digest()
    key = (1, 0, 1, 1, 0)
    merged = merge([Row(*key, 6, b"", True, digest), Row(*key, 0, b"abc")])
    assert merged == [Row(*key, 0, b"abc"), Row(*key, 6, b"", True, digest)]


def test_a_digest_that_is_not_that_of_the_bytes_survives_merging() -> None:
    key = (1, 0, 1, 1, 0)
    other = hashlib.sha256(b"other").digest()
    merged = merge([Row(*key, 0, b"abc"), Row(*key, 3, b"", True, other)])
    assert [row for block in written(merged) for row in read(block)][-1].digest == other
