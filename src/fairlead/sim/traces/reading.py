"""Traces of batch queues as jobs: Batsim's result tables and the Standard Workload Format."""

from __future__ import annotations

import csv
from collections.abc import Iterable

from msgspec import Struct


class TraceJob(Struct, frozen=True, gc=False):
    """One job of a trace; times in milliseconds, `size` in processors."""

    key: int
    submitted: int
    size: int
    run_ms: int
    # What its user said that it would run at most.
    limit_ms: int
    # When the scheduler of the trace started it; -1: the trace does not say.
    started: int = -1


def read_batsim(lines: Iterable[str]) -> list[TraceJob]:
    """The jobs of a table that Batsim wrote, with the starts that it found."""
    return [
        TraceJob(
            int(row["job_id"]),
            _ms(row["submission_time"]),
            int(row["requested_number_of_resources"]),
            _ms(row["execution_time"]),
            _ms(row["requested_time"]),
            _ms(row["starting_time"]),
        )
        for row in csv.DictReader(lines)
    ]


def read_swf(lines: Iterable[str]) -> list[TraceJob]:
    """The jobs of a Standard Workload Format log that ran; processors asked for, else given."""
    found = []
    for line in lines:
        if line.startswith(";") or not line.strip():
            continue
        fields = line.split()
        submitted, run, given, asked, limit = (int(float(fields[at])) for at in (1, 3, 4, 7, 8))
        size = max(given, asked)
        if run > 0 and size > 0:
            limit = max(limit, run)
            found.append(TraceJob(int(fields[0]), submitted * 1000, size, run * 1000, limit * 1000))
    return found


def _ms(seconds: str) -> int:
    return round(float(seconds) * 1000)
