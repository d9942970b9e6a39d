"""A server's folder knows where its store is; a second `up` ends only what it began."""

from __future__ import annotations

from pathlib import Path

from fairlead.model.errors import Problem
from fairlead.programs.places import write_json
from fairlead.programs.server import Options, remembered
from fairlead.programs.up import processes

ETCD = "etcd://127.0.0.1:2379"


def test_after_the_first_start_the_folder_is_enough(tmp_path: Path) -> None:
    first = remembered(Options(str(tmp_path), store=ETCD, blobs="/mnt/b"), tmp_path)
    assert first == {"store": ETCD, "blobs": "/mnt/b"}
    assert remembered(Options(str(tmp_path)), tmp_path) == first
    moved = remembered(Options(str(tmp_path), store=ETCD + ",127.0.0.2:2379"), tmp_path)
    assert moved == {"store": ETCD + ",127.0.0.2:2379", "blobs": "/mnt/b"}


def test_a_folder_keeps_to_its_kind_of_store(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    refused = remembered(Options(str(tmp_path), store=ETCD), tmp_path)
    assert isinstance(refused, Problem)
    assert refused.code == "other_store"
    assert refused.fix == f"fairlead server --dir {tmp_path}"


def test_a_pid_that_another_program_has_now_is_not_ours(tmp_path: Path) -> None:
    write_json(tmp_path / "up.json", {"processes": {"server": [1, 0.5]}})
    assert processes(tmp_path) == {}
