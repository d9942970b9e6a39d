"""docs/formats.md and the code say the same, and what was written once stays readable."""

from __future__ import annotations

import re
import struct
import typing
from hashlib import sha256
from pathlib import Path

import msgspec

from fairlead.model import changes
from fairlead.model.blocks import Row, Sealed, fill, pack, parse, payload_of, rows_of
from fairlead.model.keys import one

TEXT = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")

# A block of the first release. It is never made anew: releases to come must read this one.
FIRST_BLOCK = bytes.fromhex(
    "5b2a4d18a0000000464c424b0100000002000000800000000800000008000000cd2d763577fb2c1f0007000000000000"
    "000003000000000000000001000000000000000002000000000000000000000000000000000900000000000000000500"
    "000000000000090500000000000000feffffffffffffff0900000000000000000100000000000000f6c9737012d25c41"
    "df35f6d5d03d8d84912795326ffd5d429ce73977526c67c668656c6c6f616263"
)


def in_row(first: str) -> str:
    """The text of the table row that begins with this word in backquotes."""
    found = re.search(rf"^\| `{re.escape(first)}` \|(.*)$", TEXT, re.MULTILINE)
    assert found, f"docs/formats.md has no row for {first}"
    return found[1]


def test_every_kind_of_change_and_its_fields_are_documented() -> None:
    for kind in typing.get_args(changes.Change):
        info = msgspec.inspect.type_info(kind)
        assert isinstance(info, msgspec.inspect.StructType)
        words = set(re.findall(r"\w+", in_row(str(info.tag))))
        missing = [field.name for field in info.fields if field.name not in words]
        assert not missing, f"{info.tag}: {missing}"


def test_a_part_is_the_map_that_the_text_describes() -> None:
    placed = changes.Placed(one(3, 0, 1, count=5), [2])
    part = msgspec.msgpack.decode(changes.encode(changes.Part(1, 9, 8, True, 4, 1000, [placed])))
    assert all(in_row(key) for key in part)
    assert part["changes"] == [{"type": "placed", "keys": [[3], [0], [5], [1]], "agent": [2]}]


def test_a_block_is_laid_out_as_the_table_says() -> None:
    digest = sha256(b"hello, world").digest()
    rows = [Row(7, 3, 1, 2, 0, 5, b", worl"), Row(7, 3, 1, 2, 0, 11, b"d", True, digest)]
    block = pack(*next(fill(rows)))
    n = struct.unpack_from("<I", block, 4)[0]
    assert block[:4] == bytes.fromhex("5b2a4d18")
    assert block[8:14] == b"FLBK\x01\x00"
    assert struct.unpack_from("<HIIII", block, 14) == (0, 2, n - 32, 7, 7)
    columns = block[40 : 8 + n]
    assert columns[:9] == b"\0" + struct.pack("<Q", 7)
    assert columns[5 * 9 : 5 * 9 + 17] == b"\x09" + struct.pack("<Qq", 5, 6)
    assert columns[-32:] == digest
    assert block[8 + n :] == b", world"


def test_a_block_of_the_first_release_is_still_read() -> None:
    sealed = parse(FIRST_BLOCK)
    assert isinstance(sealed, Sealed), sealed
    payload = payload_of(sealed)
    assert isinstance(payload, bytes)
    assert [(row.key, row.offset, row.data, row.end) for row in rows_of(sealed.columns, payload)] == [
        ((7, 3, 1, 2, 0), 0, b"hello", False),
        ((7, 3, 1, 2, 0), 5, b"abc", True),
    ]
