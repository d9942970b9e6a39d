"""The simulator catches planted bugs: each patch is one, applied to a copy of the sources.

A patch that does not apply any more is a failure: what it shows would go unshown. Each is proved with the seed
that catches it; the sources as they are keep every promise in that very world.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from fairlead.sim.run import simulate
from fairlead.sim.scenario import draw

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "planted"
PLANTED = sorted(FOLDER.glob("*.patch"))
# By patch: the first seed, counted from 0, that catches it.
SEEDS = {
    name: int(seed) for name, seed in (line.split() for line in (FOLDER / "seeds").read_text().splitlines())
}
# A change of the cores may move what happens in a world: these are tried before a bug counts as missed.
MOST_SEEDS = 60
RUN = """
import sys
from fairlead.sim.run import simulate
from fairlead.sim.scenario import draw
first, most = map(int, sys.argv[1:])
for seed in (first, *range(most)):
    broken = simulate(draw(seed)).broken
    if broken:
        print(seed, broken)
        break
"""


def copy_sources(folder: Path) -> None:
    """The sources as committed, so that nobody's half-made change is in the way; else as they lie here."""
    packed = subprocess.run(["git", "archive", "HEAD", "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode == 0:
        subprocess.run(["tar", "-x"], cwd=folder, input=packed.stdout, check=True)
    else:
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src" / "fairlead", folder / "src" / "fairlead", ignore=skipped)


def plant(patch: Path, folder: Path) -> None:
    """Apply one; GIT_CEILING_DIRECTORIES keeps git from finding a repository around the folder."""
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    done = subprocess.run(
        ["git", "apply", str(patch)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@cache
def broken_without(seed: int) -> str:
    """What the sources as they are break in this world."""
    return simulate(draw(seed)).broken


def test_every_patch_still_applies(tmp_path: Path) -> None:
    copy_sources(tmp_path)
    for patch in PLANTED:
        plant(patch, tmp_path)
        subprocess.run(["git", "apply", "-R", str(patch)], cwd=tmp_path, check=True, capture_output=True)


def test_every_patch_has_a_seed_that_catches_it() -> None:
    assert sorted(SEEDS) == [patch.stem for patch in PLANTED]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("patch", PLANTED, ids=lambda path: path.stem)
def test_a_planted_bug_is_caught(patch: Path, tmp_path: Path) -> None:
    copy_sources(tmp_path)
    plant(patch, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(SEEDS[patch.stem]), str(MOST_SEEDS)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout, f"{patch.stem} was not caught in {MOST_SEEDS} seeds"
    assert broken_without(int(done.stdout.split()[0])) == ""
