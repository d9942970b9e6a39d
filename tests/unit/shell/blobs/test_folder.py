"""What only the folder has: files, syncs, and what a crash leaves."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fairlead.shell.blobs.folder import FolderBlobs


def test_what_dead_writers_left_aside_is_swept_and_what_lives_is_not(tmp_path: Path) -> None:
    FolderBlobs(tmp_path)
    stale, live = tmp_path / ".aside" / "stale", tmp_path / ".aside" / "live"
    for path in (stale, live):
        path.write_bytes(b"half")
    old = time.time() - 7200
    os.utime(stale, (old, old))
    blobs = FolderBlobs(tmp_path)
    assert not stale.exists()
    assert live.exists()
    assert blobs.list("") == []


def test_nothing_is_left_aside_by_a_put_nor_by_one_that_was_refused(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    blobs.put("a/b", b"x")
    blobs.put("a/b", b"x")
    with pytest.raises(IsADirectoryError):
        blobs.put("a", b"x")
    assert list((tmp_path / ".aside").iterdir()) == []


def test_a_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    FolderBlobs(tmp_path).put("a/b", b"x")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o077 == 0


def test_emptied_folders_go_away(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    blobs.put("fresh/boot/1", b"x")
    blobs.delete(["fresh/boot/1"])
    assert not (tmp_path / "fresh").exists()


def test_bytes_folder_and_new_folders_are_synced_before_put_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    real_data, real_full, real_link = os.fdatasync, os.fsync, os.link

    def shown(fd: int) -> str:
        return os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path)

    def data(fd: int) -> None:
        calls.append("data " + shown(fd).split("/")[0])
        real_data(fd)

    def full(fd: int) -> None:
        calls.append("folder " + shown(fd))
        real_full(fd)

    def link(source: Path, target: Path) -> None:
        calls.append("link " + os.path.relpath(target, tmp_path))
        real_link(source, target)

    blobs = FolderBlobs(tmp_path)
    monkeypatch.setattr(os, "fdatasync", data)
    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(os, "link", link)
    blobs.put("a/b/c", b"x")
    first, calls[:] = list(calls), []
    blobs.put("a/b/d", b"x")
    assert first == ["data .aside", "folder .", "folder a", "link a/b/c", "folder a/b"]
    assert calls == ["data .aside", "link a/b/d", "folder a/b"]
