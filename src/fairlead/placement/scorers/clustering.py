"""Clustering: GPU work beside GPU work of its own class, then where nothing runs, then anywhere."""

from __future__ import annotations

from fairlead.placement.scorers.row import POINT, Asked, Row, Site

BAND = 25


def clustering(row: Row, asked: Asked, site: Site) -> int:
    """Whole points, as published; work without GPUs has no wish."""
    if not asked.gpu:
        return 0
    if asked.kind in row.classes:
        band = 3 if len(row.classes) == 1 else 2
    else:
        band = 0 if row.classes else 1
    used = site.largest_gpu - sum(row.gpus)
    return (BAND * used // site.largest_gpu + BAND * band) * POINT
