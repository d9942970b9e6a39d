"""Fragmentation: how much idle GPU a placement makes useless for the work that the site sees (FGD, ATC 2023).

Two scorers: the published one in whole points, which consolidates by what it rounds away; and ours, which
does not round and prefers little left over instead.
"""

from __future__ import annotations

import math

from fairlead.placement.scorers.row import POINT, Asked, Row, Site, left_over

# One point between the row that would be full and the largest one idle: enough to decide between equals.
LEFT_OVER = POINT


def fragmentation_whole(row: Row, asked: Asked, site: Site) -> int:
    """Whole points, as published."""
    return max((int(_points(row, after, site)) for after in left_over(row, asked)), default=0) * POINT


def fragmentation(row: Row, asked: Asked, site: Site) -> int:
    """Unrounded, less what remains on the row."""
    best = max((_points(row, after, site) for after in left_over(row, asked)), default=0.0)
    cpu = (row.cpu - asked.cpu) / site.largest_cpu
    gpu = (sum(row.gpus) - asked.gpu) / site.largest_gpu
    return int(best * POINT - (cpu + gpu) * LEFT_OVER)


def least_stranding(row: Row, asked: Asked, site: Site, whole: bool) -> int:
    """How much is free on the device that a share is best taken from; 0: it is no share."""
    if not asked.kind and asked.gpu:
        afters = left_over(row, asked)
        scores = [_points(row, after, site) for after in afters]
        scores = [float(int(score)) for score in scores] if whole else scores
        best = afters[scores.index(max(scores))]
        return next(free for free in row.gpus if _count(row, free) > _count(best, free))
    return 0


def _count(row: Row, free: int) -> int:
    return row.gpus.count(free)


def _points(row: Row, after: Row, site: Site) -> float:
    better = (site.stranded(row) - site.stranded(after)) / 1000
    return 100 / (1 + math.exp(-better))
