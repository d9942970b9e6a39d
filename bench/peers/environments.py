"""Other schedulers, each installed into an environment of its own under a cache folder, and what they reach here."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path

from bench.site import ROOT, NotMeasured
from msgspec import Struct, convert

# What is installed for each, exactly, so that a figure can be had again.
PINS = {
    "dask": ("dask==2026.8.0", "distributed==2026.8.0"),
    "ray": ("ray==2.60.0",),
    "hyperqueue": ("hyperqueue==0.27.0",),
}
NAMES = {"dask": "Dask distributed", "ray": "Ray", "hyperqueue": "HyperQueue"}
TIMEOUT_S = 240


class Rates(Struct, frozen=True):
    """Tasks a second, each repetition: those that do nothing, and those that are a process."""

    nothing: list[float]
    process: list[float]
    versions: dict[str, str]


def python(peer: str, folder: Path) -> Path:
    """The interpreter that has it; made at the first call, and again when the pins change."""
    home, stamp = folder / peer, folder / peer / "installed.json"
    binary = home / "bin" / "python"
    if not stamp.exists() or json.loads(stamp.read_text()) != [sys.version, *PINS[peer]]:
        print(f"installing {', '.join(PINS[peer])} into {home}", file=sys.stderr, flush=True)
        venv.create(home, with_pip=True, clear=True)
        command = [str(binary), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PINS[peer]]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise NotMeasured(f"{NAMES[peer]} cannot be installed: {done.stderr.strip()[-300:]}")
        stamp.write_text(json.dumps([sys.version, *PINS[peer]]))
    return binary


@cache
def rates(peer: str, folder: Path, runs: int) -> Rates:
    """What it reaches; measured once in a run of the table."""
    script = ROOT / "bench" / "peers" / f"with_{peer}.py"
    command = [str(python(peer, folder)), str(script), "2000", "600", str(runs)]
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=folder
        )
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"{NAMES[peer]} took more than {TIMEOUT_S} s") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise NotMeasured(f"{NAMES[peer]} failed: {done.stderr.strip()[-300:]}")
    return convert(json.loads(lines[-1]), Rates)
