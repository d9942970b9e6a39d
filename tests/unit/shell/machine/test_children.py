"""Starting programs, and telling who descends from whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.shell.machine import children
from fairlead.shell.machine.children import Process


def test_a_program_is_looked_for_along_the_path_of_its_own_environment(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    (first / "tool").mkdir()
    (second / "tool").write_text("#!/bin/sh\n")
    (second / "tool").chmod(0o700)
    assert children.find_program("tool", f"{first}:{second}") == str(second / "tool")
    assert children.find_program("./tool", "") == "./tool"


def test_a_file_that_may_not_be_run_is_another_fault_than_none(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with pytest.raises(PermissionError) as fault:
        children.find_program("plain", str(tmp_path))
    assert children.reason(fault.value) == "not_executable"
    with pytest.raises(FileNotFoundError) as missing:
        children.find_program("other", str(tmp_path))
    assert children.reason(missing.value) == "not_found"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTSTP])
def test_what_its_starter_ignores_a_program_does_not(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = signal.signal(number, signal.SIG_IGN)
    try:
        said = tmp_path / "said"
        pid = children.spawn(
            ["grep", "SigIgn", "/proc/self/status"], "/", dict(os.environ), str(said), None, None
        )
        os.waitpid(pid, 0)
    finally:
        signal.signal(number, before)
    assert not int(said.read_text().split()[1], 16) >> (number - 1) & 1


def test_descendants_are_found_through_all_generations() -> None:
    table = {pid: Process(parent, 1, 0) for pid, parent in ((2, 1), (3, 2), (4, 3), (5, 1), (6, 99))}
    assert children.below({2}, table) == {2, 3, 4}
    assert children.below({5, 77}, table) == {5}


def test_a_zombie_is_not_alive_and_still_a_child() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert children.look(pid) is None
    assert pid in children.own_children()
    os.waitpid(pid, 0)
    assert pid not in children.own_children()


def test_a_process_shows_its_marks_and_all_that_carry_one_are_ended() -> None:
    mark = f"test-{os.getpid()}"
    env = os.environ | {"FAIRLEAD_KEEPER": mark, "FAIRLEAD_KEY": "7.0.1.1"}
    program = "import subprocess,sys; subprocess.Popen(['sleep','300'],env={}); print(flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    process.stdout.readline()
    assert children.marks(process.pid) == {"FAIRLEAD_KEEPER": mark, "FAIRLEAD_KEY": "7.0.1.1"}
    table = children.processes()
    (sleeper,) = children.below({process.pid}, table) - {process.pid}
    children.end_marked("FAIRLEAD_KEEPER", mark, 10)
    assert process.wait() == -signal.SIGKILL
    process.communicate()
    assert children.look(sleeper) is None


def test_a_tree_of_files_is_removed_even_where_it_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "work" / "cache").mkdir(parents=True)
    (tmp_path / "work" / "cache" / "module").write_text("")
    (tmp_path / "work" / "cache").chmod(0o500)
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "work" / "link").symlink_to(outside)
    os.waitpid(children.remove_tree(str(tmp_path / "work")), 0)
    assert not (tmp_path / "work").exists()
    assert outside.exists()
    assert children.remove_tree(str(outside)) == 0
    assert not outside.exists()
