"""The table of figures: which measurements are run, how they are shown, and where they are kept.

python -m bench.run [S3 S5 …] [--full] [--peers] [--cache DIR] [--check] [-o json|table]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from bench.how import How
from bench.site import ROOT, NotMeasured
from bench.table import Row, show

# The short set stays under five minutes.
SHORT = ("S3", "S5", "S6", "S7", "S8", "S11", "S14")
ALL = ("S3", "S5", "S6", "S7", "S8", "S11", "S12", "S13", "S14")
# What `--check` demands, with slack for a busy machine: the least ratio of an id to a reference.
FLOORS = {("S3", "bare skeleton"): 0.08}
RESULTS = ROOT / "bench" / "results"


def measure(ids: Sequence[str], how: How) -> tuple[list[Row], dict[str, str]]:
    """The rows, and why there are none of some."""
    rows: list[Row] = []
    left: dict[str, str] = {}
    for id in ids:
        began = time.monotonic()
        print(f"{id} …", file=sys.stderr, end="", flush=True)
        try:
            rows += import_module(f"bench.{id.lower()}").rows(how)
        except NotMeasured as why:
            left[id] = str(why)
        print(f" {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return rows, left


def keep(rows: Sequence[Row]) -> None:
    """A file for each id, with all of its rows."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for id in sorted({row.id for row in rows}):
        found = [document(row) for row in rows if row.id == id]
        (RESULTS / f"{id}.json").write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def document(row: Row) -> dict[str, Any]:
    """A row as programs read it."""
    return {**msgspec.to_builtins(row), "met": row.met}


def fallen(rows: Sequence[Row]) -> list[str]:
    """What is below its floor."""
    floors = [(row, FLOORS.get((row.id, row.reference_name), 0.0)) for row in rows]
    return [
        f"{row.id}: {row.ratio:.3g} of the {row.reference_name}, at least {floor:g} is demanded"
        for row, floor in floors
        if row.ratio < floor
    ]


def run(ids: Sequence[str], how: How, output: str, check: bool = False) -> int:
    """Measure, keep, show; 1 when something could not be measured, or with `check` is below its floor."""
    known = [id.upper() for id in ids] or list(ALL if how.full else SHORT)
    strange = [id for id in known if id not in ALL]
    if strange:
        print(f"error: there is no {', '.join(strange)}\n  why: there are {', '.join(ALL)}", file=sys.stderr)
        print("  fix: fairlead bench S3", file=sys.stderr)
        return 2
    # Told to end, it ends the sites that it started too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows, left = measure(known, how)
    keep(rows)
    if output == "json":
        print(
            json.dumps({"rows": [document(row) for row in rows], "left": left}, indent=2, ensure_ascii=False)
        )
    else:
        print(show(rows))
        for row in rows:
            if row.note:
                print(f"{row.id}: {row.note}")
        for id, why in left.items():
            print(f"{id} was not measured: {why}")
    low = fallen(rows) if check else []
    for line in low:
        print(f"error: {line}", file=sys.stderr)
    return 1 if left or low else 0


def default_cache() -> Path:
    """Where other schedulers are installed when nothing is said."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fairlead-bench"


def main(arguments: Sequence[str]) -> int:
    """The same as `fairlead bench`, and `--cache`."""
    parser = argparse.ArgumentParser(description="measure this build")
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--full", action="store_true", help="all of them, more repetitions")
    parser.add_argument("--peers", action="store_true", help="beside other schedulers")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where those are installed")
    parser.add_argument("--check", action="store_true", help="fail when a ratio is below its floor")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    given = parser.parse_args(arguments)
    how = How(given.full, given.cache.absolute() if given.peers else None)
    return run(given.ids, how, given.output, given.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
