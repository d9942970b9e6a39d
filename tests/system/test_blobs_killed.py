"""A writer that is killed in the middle leaves whole blobs, and every one that it was told is stored."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.shell.blobs.folder import FolderBlobs

WRITER = """
import hashlib, sys
from pathlib import Path
from fairlead.shell.blobs.folder import FolderBlobs

blobs = FolderBlobs(Path(sys.argv[1]))
for n in range(100_000):
    data = str(n).encode() * 20_000
    key = f"cas/{n % 7}/{n}.{hashlib.sha256(data).hexdigest()}"
    assert blobs.put(key, data)
    print(key, flush=True)
"""


@pytest.mark.parametrize("after", [0, 1, 20, 75])
def test_a_killed_writer_leaves_whole_blobs_and_loses_none_it_was_told_of(tmp_path: Path, after: int) -> None:
    told: list[str] = []
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "blobs")],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(root / "src")},
    ) as writer:
        assert writer.stdout is not None
        while len(told) < after:
            told.append(writer.stdout.readline().strip())
        writer.kill()
        told += writer.stdout.read().split("\n")[:-1]
    blobs = FolderBlobs(tmp_path / "blobs")
    found = blobs.list("", limit=100_000)
    assert set(told) <= set(found)
    assert len(found) <= len(told) + 1
    for key in found:
        data = blobs.get(key)
        assert data is not None
        assert hashlib.sha256(data).hexdigest() == key.rpartition(".")[2]
