"""The simulator catches planted bugs: each patch is one, applied to a copy of the sources.

A patch that does not apply any more is a failure: what it shows would go unshown.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANTED = sorted((Path(__file__).parent / "planted").glob("*.patch"))
SEEDS = 120
RUN = """
import sys
from fairlead.sim.run import simulate
from fairlead.sim.scenario import draw
for seed in range(int(sys.argv[1])):
    broken = simulate(draw(seed)).broken
    if broken:
        print(seed + 1, broken)
        break
"""


def plant(patch: Path, folder: Path) -> Path:
    skipped = shutil.ignore_patterns("shell", "ctl", "__pycache__")
    shutil.copytree(ROOT / "src" / "fairlead", folder / "src" / "fairlead", ignore=skipped)
    subprocess.run(["git", "apply", str(patch)], cwd=folder, check=True, capture_output=True)
    return folder / "src"


@pytest.mark.parametrize("patch", PLANTED, ids=lambda path: path.stem)
def test_every_patch_still_applies(patch: Path, tmp_path: Path) -> None:
    plant(patch, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("patch", PLANTED, ids=lambda path: path.stem)
def test_a_planted_bug_is_caught(patch: Path, tmp_path: Path, record_property: pytest.FixtureRequest) -> None:
    environment = {**os.environ, "PYTHONPATH": str(plant(patch, tmp_path))}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(SEEDS)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout, f"{patch.stem} was not caught in {SEEDS} seeds"
    record_property("seeds", done.stdout.split(maxsplit=1)[0])  # type: ignore[operator]
