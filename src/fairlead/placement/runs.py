"""Stretches of True in a numpy mask, as (first, count): how columns become spans again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Run = tuple[int, int]


def runs(mask: NDArray[np.bool_], first: int) -> list[Run]:
    """The stretches of True as (first, count), shifted by `first`."""
    if len(mask) == 1:
        return [(first, 1)] if mask[0] else []
    if mask.all():
        return [(first, len(mask))] if len(mask) else []
    padded = np.zeros(len(mask) + 2, np.int8)
    padded[1:-1] = mask
    edges = np.flatnonzero(np.diff(padded)).tolist()
    return [(first + start, end - start) for start, end in zip(edges[::2], edges[1::2], strict=True)]
