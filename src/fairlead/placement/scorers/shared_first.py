"""Shared first: GPUs that are shared already, then free ones beside used ones, then idle agents."""

from __future__ import annotations

from fairlead.placement.devices import WHOLE
from fairlead.placement.scorers.row import POINT, Asked, Row, Site


def shared_first(row: Row, asked: Asked, _: Site) -> int:
    """Whole points, as published; work without GPUs has no wish."""
    if not asked.gpu:
        return 0
    free = row.gpus.count(WHOLE)
    if free == len(row.gpus):
        return max(100 // 3 - free, free) * POINT
    count, each = max(1, asked.gpu // WHOLE), min(asked.gpu, WHOLE)
    taken = [left for left in row.gpus if left >= each][:count]
    if fresh := taken.count(WHOLE):
        return max(100 // 2 - fresh, 100 // 3) * POINT
    return max(100 - sum(left * 100 // WHOLE for left in taken) // 10, 100 // 2) * POINT
