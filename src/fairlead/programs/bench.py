"""`bench`: finds the measurements, which lie in the checkout beside the package, and runs them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import fairlead
from fairlead.model.errors import Problem, render


def main(told: Mapping[str, Any]) -> int:
    """Measure what was asked for; what it says comes from `bench/run.py`."""
    root = Path(fairlead.__file__).resolve().parents[2]
    if not (root / "bench" / "run.py").exists():
        problem = Problem(
            "no_bench",
            "there are no measurements beside this installation",
            "they lie in the project's folder `bench`, which is not installed with it",
            fix="make bench    (in a clone of the project)",
        )
        print(render(problem), file=sys.stderr)
        return 2
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    run = import_module("bench.run")
    peers = Path(told.get("cache") or run.default_cache()).absolute() if told.get("peers") else None
    how = import_module("bench.how").How(bool(told.get("full")), peers)
    code: int = run.run(told.get("ids") or (), how, told.get("output") or "table")
    return code
