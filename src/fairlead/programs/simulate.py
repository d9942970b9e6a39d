"""`fairlead simulate faults`: runs seeds of the simulator, as many at once as there are cores.

Prints what was simulated and a digest over all runs; exits 1 with the seed and the shortest script found when an
invariant broke. `--script FILE` runs a script instead.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fairlead.sim.run import Result, simulate
from fairlead.sim.scenario import draw, read_scenario
from fairlead.sim.shrink import Shrinker

SHRINK_TRIES = 250
PLAIN_EVERY_S = 5.0


class Options(Struct, frozen=True):
    """What the command line says."""

    seeds: int = 20
    first: int = 0
    minutes: float = 0.0
    jobs: int = 0
    no_shrink: bool = False
    script: str = ""


class Tally(Struct):
    """All runs so far."""

    seeds: int = 0
    simulated_ms: int = 0
    faults: int = 0
    events: int = 0
    digests: dict[int, str] = {}
    broken: list[Result] = []

    def add(self, result: Result) -> None:
        """One more."""
        self.seeds += 1
        self.simulated_ms += result.simulated_ms
        self.faults += result.faults
        self.events += result.events
        self.digests[result.seed] = result.digest
        if result.broken:
            self.broken.append(result)

    def lines(self, took: float) -> list[str]:
        """What is printed at the end; the digest does not depend on the order in which runs ended."""
        whole = sha256("".join(digest for _, digest in sorted(self.digests.items())).encode()).hexdigest()
        hours = self.simulated_ms / 3_600_000
        return [
            f"seeds {self.seeds}, simulated {hours:.1f} h in {took:.0f} s, faults {self.faults}, "
            f"events {self.events}, violations {len(self.broken)}",
            f"digest {whole}",
        ]


def run_seed(seed: int) -> Result:
    """One seed."""
    return simulate(draw(seed))


def main(told: Mapping[str, Any]) -> int:
    """Run, print, and say by the exit code whether everything held."""
    options = Options(**{name: told[name] for name in Options.__struct_fields__ if told.get(name)})
    if options.script:
        return _run_script(options.script)
    tally = Tally()
    began = time.monotonic()
    jobs = options.jobs or len(os.sched_getaffinity(0))
    with _shown(options.seeds) as show:
        for result in _results(options, jobs, began):
            tally.add(result)
            show(tally)
            if tally.broken:
                break
    for line in tally.lines(time.monotonic() - began):
        print(line)
    if not tally.broken:
        return 0
    first = min(tally.broken, key=lambda result: result.seed)
    print(f"seed {first.seed} at {first.at} ms: {first.broken}")
    if not options.no_shrink:
        shortest = Shrinker(draw(first.seed), first.broken, SHRINK_TRIES).shrink()
        print(f"the shortest script found (fairlead simulate faults --script FILE):\n\n{shortest.text()}")
    print(f"  fix: fairlead simulate faults --seeds 1 --first {first.seed}")
    return 1


def _results(options: Options, jobs: int, began: float) -> Iterator[Result]:
    seeds = range(options.first, options.first + options.seeds)
    if jobs == 1 or options.seeds == 1:
        source: Iterator[Result] = map(run_seed, seeds)
        yield from _until(source, options, began)
        return
    # Forked workers would share what this process has touched; spawned ones begin from nothing.
    with get_context("spawn").Pool(jobs) as pool:
        yield from _until(pool.imap_unordered(run_seed, seeds), options, began)


def _until(source: Iterator[Result], options: Options, began: float) -> Iterator[Result]:
    for result in source:
        yield result
        if options.minutes and time.monotonic() - began > options.minutes * 60:
            return


def _run_script(name: str) -> int:
    result = simulate(read_scenario(Path(name).read_text(encoding="utf-8")))
    print(f"simulated {result.simulated_ms} ms, faults {result.faults}, digest {result.digest}")
    if result.broken:
        print(f"at {result.at} ms: {result.broken}")
    return 1 if result.broken else 0


@contextmanager
def _shown(seeds: int) -> Iterator[Callable[[Tally], None]]:
    """A bar on a terminal, a line now and then elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        last = time.monotonic()

        def say(tally: Tally) -> None:
            nonlocal last
            if time.monotonic() - last > PLAIN_EVERY_S:
                last = time.monotonic()
                print(f"{tally.seeds} of {seeds} seeds, {tally.faults} faults", file=sys.stderr, flush=True)

        yield say
        return
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[facts]}"), console=console, transient=True) as progress:
        task = progress.add_task("seeds", total=seeds, facts="")

        def move(tally: Tally) -> None:
            facts = f"{tally.simulated_ms / 3_600_000:.1f} h simulated, {tally.faults} faults"
            progress.update(task, completed=tally.seeds, facts=facts)

        yield move


def read_options(arguments: list[str]) -> dict[str, Any]:
    """The command line after `fairlead simulate`."""
    parser = argparse.ArgumentParser(prog="fairlead simulate", description="Run the cores in a seeded world.")
    kinds = parser.add_subparsers(dest="kind", required=True)
    faults = kinds.add_parser("faults", help="everything that can go wrong, and checks of every promise")
    faults.add_argument("--seeds", type=int, default=20, help="how many seeds to run (20)")
    faults.add_argument("--first", type=int, default=0, help="the first of them (0)")
    faults.add_argument("--minutes", type=float, default=0.0, help="stop after so many minutes")
    faults.add_argument("--jobs", type=int, default=0, help="processes at once (one for each core)")
    faults.add_argument("--no-shrink", action="store_true", help="do not look for a shorter script")
    faults.add_argument("--script", default="", help="run this script instead of seeds")
    return vars(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main(read_options(sys.argv[1:])))
