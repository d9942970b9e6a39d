"""S7: `fairlead run -- true`, the whole command as a shell would start it, as a multiple of `python -c pass`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.how import How
from bench.site import BenchSite, NotMeasured, site
from bench.table import Row, row


def rows(how: How) -> list[Row]:
    """Over the local socket, in turn with the bare interpreter."""
    times = 40 if how.full else 15
    command = [str(Path(sys.executable).with_name("fairlead")), "run", "--", "true"]
    ours: list[float] = []
    bare: list[float] = []
    with site() as where:
        where.join(cpus=2, name="near")
        env = _context(where)
        _wall(command, env)
        for _ in range(how.runs):
            pairs = [(_wall([sys.executable, "-c", "pass"], env), _wall(command, env)) for _ in range(times)]
            bare.append(statistics.median(pair[0] for pair in pairs))
            ours.append(statistics.median(pair[1] for pair in pairs))
    reference = ("`python -c pass`", statistics.median(bare))
    what = f"`fairlead run -- true` over the local socket, medians of {times}"
    return [row("S7", what, ours, "ms", "ratio <= 6", reference, command=how.command("S7"))]


def _context(where: BenchSite) -> dict[str, str]:
    """The server wrote a context into its home when it began."""
    return {**where.env, "FAIRLEAD_API": f"unix://{where.server / 'api.sock'}"}


def _wall(command: list[str], env: dict[str, str]) -> float:
    """Milliseconds from start to end of a process."""
    began = time.perf_counter()
    code = subprocess.run(command, check=False, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    took = (time.perf_counter() - began) * 1000
    if code.returncode:
        raise NotMeasured(f"{' '.join(command[-4:])} failed: {code.stderr.decode()[-300:]}")
    return took
