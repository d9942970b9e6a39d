"""A stranger's first minute: a fresh copy of the sources, and only what README.md says, as it says it.

The environment of the tests stands in for the one that `make` builds, since a test fetches nothing. Two things
are typed otherwise: a free port instead of the usual one, which may be in use here, and no `pip install`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.site import Person, left_behind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Person]:
    """Somebody with a fresh copy of what is committed, and nothing else of ours."""
    copy = tmp_path / "fairlead"
    if (ROOT / ".git").exists():
        subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", str(copy)], check=True)
    else:
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".venv", "*.pyc"))
    person = Person(tmp_path / "home")
    person.environment["PYTHONPATH"] = str(copy / "src")
    person.environment.pop("CI", None)
    person.environment["PATH"] = f"{tools(tmp_path)}{os.pathsep}{person.environment['PATH']}"
    yield person
    person.run("down", timeout=60)
    assert not left_behind(tmp_path)


def tools(folder: Path) -> Path:
    """The program `fairlead`, of the copy and not of this tree."""
    made = folder / "bin"
    made.mkdir()
    program = made / "fairlead"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fairlead "$@"\n')
    program.chmod(0o755)
    return made


def section(title: str) -> str:
    """A part of README.md."""
    text = (ROOT / "README.md").read_text()
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_what_the_page_says_to_type_does_what_it_says(stranger: Person, tmp_path: Path) -> None:
    here = tmp_path / "fairlead"
    part = section("Use it")
    (document,) = re.findall(r"```yaml\n(.*?)```", part, re.DOTALL)
    (here / "ci.yaml").write_text(document)
    lines = [
        line for block in re.findall(r"```console\n(.*?)```", part, re.DOTALL) for line in block.splitlines()
    ]
    typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    assert typed[0] == "pip install ." and "fairlead up --detach" in typed
    for line in typed[1:]:
        if line == "echo $?":
            continue
        free = " --listen 127.0.0.1:0" if line.startswith("fairlead up") else ""
        done = stranger.paste(line + free, cwd=here, timeout=60)
        wanted = 7 if "exit 7" in line else 0
        assert done.code == wanted, f"{line}: {done}"
        if "exit 7" in line:
            assert done.out == b"hi\n"
        assert "error" not in done.err and "Traceback" not in done.err, f"{line}: {done}"


def test_the_demonstration_runs_and_leaves_nothing(stranger: Person, tmp_path: Path) -> None:
    here = tmp_path / "fairlead"
    (recipe,) = re.findall(r"^demo:.*\n\t(.*)$", (here / "Makefile").read_text(), re.MULTILINE)
    assert recipe.endswith("-m fairlead.programs.demo")
    before = set(Path("/tmp").glob("fairlead-demo-*"))
    done = stranger.program([sys.executable, "-m", "fairlead.programs.demo"], here, timeout=150)
    assert done.code == 0, f"{done.text}\n{done.err}"
    assert "finished" in done.text and "attempt 2" in done.text
    assert set(Path("/tmp").glob("fairlead-demo-*")) <= before
