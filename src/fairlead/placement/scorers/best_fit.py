"""Best fit: the less CPU and GPU remain, the better, measured against the largest agent."""

from __future__ import annotations

from fairlead.placement.scorers.row import POINT, Asked, Row, Site


def best_fit(row: Row, asked: Asked, site: Site) -> int:
    """Whole points, as published."""
    cpu = (row.cpu - asked.cpu) / site.largest_cpu
    gpu = (sum(row.gpus) - asked.gpu) / site.largest_gpu
    return int((1.0 - (cpu + gpu) * 0.5) * 100) * POINT
