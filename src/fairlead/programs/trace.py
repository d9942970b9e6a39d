"""`simulate trace`: replays logs of batch queues on the engine and prints how each policy would have done."""

from __future__ import annotations

import gzip
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairlead.model.errors import Problem, nearest, quote, render
from fairlead.sim.traces.drawing import waits_svg
from fairlead.sim.traces.queueing import ORDERS, Replay, Started, machines, summary
from fairlead.sim.traces.reading import TraceJob, UnknownTrace, processors, read_trace

CONSERVATIVE = "conservative"
POLICIES = (*ORDERS, CONSERVATIVE)
EVERY_S = 0.2


def main(told: Mapping[str, Any]) -> int:
    """Replay every file under every policy asked for; 2 when something could not be read."""
    wanted = tuple(told.get("policy") or ORDERS)
    problem = next((_unknown(name) for name in wanted if name not in POLICIES), None) or _no_picture(told)
    waits: dict[str, list[float]] = {}
    for path in () if problem else told.get("files") or ():
        lines = _read(Path(path))
        if isinstance(lines, Problem):
            problem = lines
            break
        try:
            jobs = read_trace(lines)
        except (UnknownTrace, KeyError, ValueError, IndexError) as odd:
            problem = Problem(
                "unknown_trace", f"{path} is no trace that is known here", str(odd), where=str(path)
            )
            break
        _replay(Path(path).name, jobs, processors(lines), wanted, told, waits)
    if problem is not None:
        print(render(problem), file=sys.stderr)
        return 2
    if told.get("plot"):
        Path(told["plot"]).write_text(waits_svg(waits, "jobs by the time they waited"), encoding="utf-8")
        print(f"drawn: {told['plot']}")
    return 0


def _replay(
    name: str,
    jobs: list[TraceJob],
    size: int,
    wanted: tuple[str, ...],
    told: Mapping[str, Any],
    waits: dict[str, list[float]],
) -> None:
    slots = int(told.get("slots") or 1)
    count = int(told.get("machines") or 0) or max(size, *(job.size for job in jobs)) // slots
    fitting = [job for job in jobs if job.size <= count * slots]
    print(
        f"{name}: {len(fitting)} of {len(jobs)} jobs fit {count} machines of {slots}; equals go by submission"
    )
    for policy in wanted:
        began = time.monotonic()
        replay = Replay(machines(count, slots), fitting, _bar(policy, len(fitting)))
        started = replay.conservative() if policy == CONSERVATIVE else replay.easy(policy)
        waits[f"{name} {policy}"] = [each.wait / 1000 for each in started]
        print(_row(policy, started, time.monotonic() - began), flush=True)


def _row(policy: str, started: list[Started], took: float) -> str:
    found = summary(started)
    late = sum(each.promised >= 0 and each.at > each.promised for each in started)
    return (
        f"  {policy:14} mean wait {found['mean_wait_s']:12.1f} s, longest {found['max_wait_s']:12.1f} s, "
        f"bounded slowdown {found['mean_bounded_slowdown']:10.2f}, makespan {found['makespan_s']:12.0f} s, "
        f"later than promised {late}   ({took:.0f} s)"
    )


def _bar(policy: str, total: int) -> Callable[[int], None] | None:
    if not sys.stderr.isatty():
        return None
    shown = [0.0]

    def progress(done: int) -> None:
        now = time.monotonic()
        if now - shown[0] > EVERY_S or done == total:
            shown[0] = now
            end = "\r\x1b[K" if done == total else ""
            print(f"\r  {policy}: {done} of {total} jobs started{end}", end="", file=sys.stderr, flush=True)

    return progress


def _read(path: Path) -> list[str] | Problem:
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
                return file.readlines()
        return path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    except OSError as fault:
        return Problem("unreadable", f"{path} cannot be read", fault.strerror or str(fault), where=str(path))


def _unknown(name: str) -> Problem:
    meant = nearest(name, POLICIES)
    return Problem(
        "unknown_policy", f"{quote(name)} is no policy of a queue", fix=f"--policy {meant or POLICIES[0]}"
    )


def _no_picture(told: Mapping[str, Any]) -> Problem | None:
    plot = told.get("plot")
    if plot and Path(plot).suffix != ".svg":
        return Problem(
            "unknown_picture", f"{quote(plot)} is no picture that is drawn here", "it draws SVG",
            fix=f"--plot {Path(plot).with_suffix('.svg')}",
        )  # fmt: skip
    return None
