from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from fairlead.model.blocks import Row, Sealed, fill, pack, parse, payload_of
from fairlead.shell.blobs.codec import expand, squeeze

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXTS = [b"", b"a" * 262_144, os.urandom(262_144), os.urandom(10) * 100]


@pytest.mark.parametrize("text", TEXTS, ids=["empty", "regular", "random", "short"])
def test_only_a_whole_frame_of_the_named_length_expands(text: bytes) -> None:
    frame = squeeze(text)
    assert expand(frame, len(text)) == text
    assert expand(frame, len(text) + 1) is None
    assert expand(frame[:-1], len(text)) is None
    assert expand(frame + b"x", len(text)) is None
    assert expand(frame + frame, len(text)) is None
    if text:
        assert expand(frame, len(text) - 1) is None


def test_noise_does_not_expand() -> None:
    assert expand(b"", 0) is None
    assert expand(b"no zstd at all", 5) is None


def test_a_frame_that_is_far_larger_than_named_is_not_held_in_memory() -> None:
    assert expand(squeeze(bytes(64 << 20)), 1000) is None


def test_blocks_in_a_row_are_what_zstd_itself_reads() -> None:
    texts = [b"first line\n" * 1000, b"second\n"]
    rows = [Row(1, n, 1, 1, 0, 0, text) for n, text in enumerate(texts)]
    blocks = [pack(*next(fill([row])), squeeze) for row in rows]
    sealed = parse(blocks[0], expand)
    assert isinstance(sealed, Sealed)
    assert payload_of(sealed, expand) == texts[0]
    frames = b"".join(blocks)
    assert zstd.decompress(frames) == b"".join(texts)
    tool = shutil.which("zstd")
    if tool:
        assert subprocess.run([tool, "-dc"], input=frames, capture_output=True).stdout == b"".join(texts)
