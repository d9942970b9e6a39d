"""What the keeper writes down comes back, whatever happened to the end of the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.shell.machine import keeper_table
from fairlead.shell.machine.keeper_table import Attempt, Folder, Table


def opened(path: Path) -> Table:
    table = Table(str(path))
    table.restore()
    table.rotate()
    return table


def attempt(key: str) -> Attempt:
    return Attempt(
        {"key": key, "meta": ["any", key], "out": "/o", "cwd": "/w", "workspace": True, "hold": True}
    )


def end(table: Table, known: Attempt) -> None:
    known.status = 3 << 8
    table.end(known, known.how_it_ended())


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Three attempts: one runs, one has ended, one is forgotten."""
    path = tmp_path / "journal"
    table = opened(path)
    table.groups = ["/sys/fs/cgroup/somewhere"]
    table.rotate()
    for key in ("runs", "ended", "forgotten"):
        assert table.put(attempt(key))
    for key in ("ended", "forgotten"):
        end(table, table.all[key])
    table.forget(table.all["forgotten"])
    assert table.flush()
    return path


def test_a_successor_knows_what_runs_and_what_has_ended(journal: Path) -> None:
    table = opened(journal)
    assert table.all.keys() == {"runs", "ended"}
    assert table.open.keys() == {"runs"}
    assert table.groups == ["/sys/fs/cgroup/somewhere"]
    back = table.all["ended"].entry()
    assert (back["state"], back["exit"], back["meta"]) == ("ended", 3, ["any", "ended"])
    assert (table.all["runs"].workspace, table.all["runs"].hold) == ("/w", True)


def test_a_journal_cut_anywhere_loses_only_what_was_cut(journal: Path) -> None:
    whole = journal.read_bytes()
    lines = [n for n, byte in enumerate(whole) if byte == ord("\n")]
    for length in range(0, len(whole), 7):
        journal.write_bytes(whole[:length])
        table = Table(str(journal))
        table.restore()
        complete = sum(n < length for n in lines)
        # A line without its end of line may be whole already.
        assert table.damaged == (length not in {0, *(n + 1 for n in lines), *lines})
        assert len(table.all) <= complete


def test_damage_in_the_middle_hides_one_line(journal: Path) -> None:
    lines = journal.read_bytes().split(b"\n")
    broken = next(n for n, line in enumerate(lines) if b'["end","ended"' in line)
    lines[broken] = lines[broken].replace(b'"exit":3', b'"exit":0')
    journal.write_bytes(b"\n".join(lines))
    table = opened(journal)
    assert table.damaged == 1
    assert table.open.keys() == {"runs", "ended"}
    assert "forgotten" not in table.all


def test_a_long_journal_is_rewritten_with_what_is_held(journal: Path) -> None:
    table = opened(journal)
    table.limit = 2_000
    for n in range(50):
        one = attempt(str(n))
        assert table.put(one)
        end(table, one)
        table.forget(one)
        assert table.flush()
    assert journal.stat().st_size < keeper_table.ROTATE_AT
    assert table.limit == keeper_table.ROTATE_AT
    assert opened(journal).all.keys() == {"runs", "ended"}


def test_a_disk_that_takes_no_more_refuses_starts_and_keeps_ends_for_later(journal: Path) -> None:
    table = opened(journal)
    writable, table.fd = table.fd, os.open("/dev/full", os.O_WRONLY)
    assert not table.put(attempt("new"))
    assert "new" not in table.all
    end(table, table.all["runs"])
    assert not table.flush()
    os.close(table.fd)
    table.fd = writable
    assert table.flush()
    assert opened(journal).open == {}


def test_a_copied_folder_gets_another_identity(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = Folder(str(tmp_path / "a"))
    (tmp_path / "b" / "keeper.id").write_text(first.identity)
    second = Folder(str(tmp_path / "b"))
    assert first.identity != second.identity
    assert second.identity == (tmp_path / "b" / "keeper.id").read_text()
    (tmp_path / "b").rename(tmp_path / "c")
    assert second.gone()
    assert not first.gone()
    os.close(first.lock)
    os.close(second.lock)
