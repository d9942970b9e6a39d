"""Q4: order and backfilling of a batch queue, on Batsim's reference run and on a log of HPC2N.

Run: python -m bench.engine_queue [--orders …] [--skip-hpc2n]
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path

from fairlead.sim.traces.queueing import ORDERS, Replay, Started, machines, summary
from fairlead.sim.traces.reading import TraceJob, read_batsim, read_swf

DATA = Path(__file__).parent / "data" / "hpc"
# Published mean waits of the reference, in seconds.
EASY_WAIT, CONSERVATIVE_WAIT = 9.516, 9.852


def batsim(name: str) -> list[TraceJob]:
    """The reference jobs with the reference starts."""
    with gzip.open(DATA / f"batsim_mediumlate_{name}.csv.gz", "rt") as file:
        return read_batsim(file)


def hpc2n() -> list[TraceJob]:
    """The log."""
    with gzip.open(DATA / "alea_hpc2n_sample.swf.gz", "rt") as file:
        return read_swf(file)


def show(name: str, started: list[Started], seconds: float, beside: str = "") -> None:
    """One row."""
    found = summary(started)
    print(
        f"{name:28} wait {found['mean_wait_s']:10.3f} s, slowdown {found['mean_bounded_slowdown']:8.3f}, "
        f"longest {found['max_wait_s']:9.1f} s, makespan {found['makespan_s']:9.1f} s, took {seconds:5.1f} s {beside}",
        flush=True,
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", nargs="*", default=list(ORDERS))
    parser.add_argument("--skip-hpc2n", action="store_true")
    given = parser.parse_args()
    for name, published in (("easy", EASY_WAIT), ("conservative", CONSERVATIVE_WAIT)):
        jobs = batsim(name)
        began = time.process_time()
        replay = Replay(machines(32, 1), jobs)
        started = replay.easy("arrival") if name == "easy" else replay.conservative()
        equal = sum(each.at == each.job.started for each in started)
        late = sum(each.promised >= 0 and each.at > each.promised for each in started)
        beside = (
            f"(published wait {published}; {equal} of {len(jobs)} starts equal, {late} later than promised)"
        )
        show(f"batsim {name}", started, time.process_time() - began, beside)
    if not given.skip_hpc2n:
        jobs = hpc2n()
        for order in given.orders:
            began = time.process_time()
            show(f"hpc2n {order}", Replay(machines(120, 2), jobs).easy(order), time.process_time() - began)


if __name__ == "__main__":
    main()
