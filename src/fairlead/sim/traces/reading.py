"""Traces of batch queues as jobs: Batsim's result tables and the Standard Workload Format."""

from __future__ import annotations

import csv
from collections.abc import Iterable

from msgspec import Struct

# A job in the Standard Workload Format has at least these.
SWF_FIELDS = 11


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


def read_philly(lines: Iterable[str]) -> list[TraceJob]:
    """Philly's jobs, submitted by date; nobody said how long they would run, so their run time stands in."""
    rows = [row for row in csv.DictReader(lines) if float(row["duration"]) > 0]
    return [
        TraceJob(key, _since_epoch(row["timestamp"]), int(row["num_gpus"]), _ms(row["duration"]), _ms(row["duration"]))
        for key, row in enumerate(rows)
    ]  # fmt: skip


def read_muri(lines: Iterable[str]) -> list[TraceJob]:
    """Muri's jobs: iterations of so many milliseconds."""
    found = []
    for row in csv.DictReader(lines):
        run = int(row["iterations"]) * int(row["iteration_time"])
        found.append(TraceJob(int(row["job_id"]), int(row["submit_time"]), int(row["num_gpu"]), run, run))
    return found


class UnknownTrace(ValueError):
    """The first line belongs to no format that is known here."""


READERS = {
    "job_id,hacky_job_id": read_batsim,
    "timestamp,duration,num_gpus": read_philly,
    "job_id,num_gpu,submit_time": read_muri,
    ";": read_swf,
}


def read_trace(lines: list[str]) -> list[TraceJob]:
    """The jobs of a trace in any known format, told by its first line; raises UnknownTrace."""
    first = next((line for line in lines if line.strip()), "")
    for start, read in READERS.items():
        if first.startswith(start):
            return read(lines)
    if len(first.split()) >= SWF_FIELDS:
        return read_swf(lines)
    raise UnknownTrace(first[:60].rstrip())


def processors(lines: list[str]) -> int:
    """How large the machine was, as far as the log says; 0: it does not."""
    if lines and lines[0].startswith("job_id,hacky_job_id"):
        ranges = (row["allocated_resources"].replace("-", " ").split() for row in csv.DictReader(lines))
        return 1 + max((int(number) for each in ranges for number in each if number.isdigit()), default=-1)
    for line in lines[:200]:
        name, _, value = line.lstrip("; ").partition(":")
        if line.startswith(";") and name == "MaxProcs" and value.strip().isdigit():
            return int(value)
    return 0


def _since_epoch(text: str) -> int:
    """`2017-10-09 07:01:55` in milliseconds; dates of a trace have no zone that matters."""
    day, _, clock = text.partition(" ")
    year, month, date = (int(part) for part in day.split("-"))
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    # Days of the civil calendar since 1970, March first.
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + date - 1
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000
