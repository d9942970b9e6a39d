"""`fairlead run` as if the command ran here: its output, its folder, its end, and what ends it."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.system.site import Site, three_lines, until

# A tree of three: the command, a child, and one that left the session.
TREE = "echo $$; sleep 4001 & setsid sleep 4002 & wait"


def carrying(mark: str) -> list[str]:
    """Processes whose command line is this."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            except OSError:
                continue
            if b" ".join(words).decode(errors="replace") == mark:
                found.append(entry.name)
    return found


def test_it_prints_what_the_command_prints_and_ends_as_it_ends(shared_site: Site) -> None:
    done = shared_site.run("run", "--", "sh", "-c", "echo hi; exit 7")
    assert (done.code, done.out, done.err) == (7, b"hi\n", "")


def test_stdout_and_stderr_stay_apart(shared_site: Site) -> None:
    done = shared_site.run("run", "--", "sh", "-c", "echo to out; echo to err >&2; printf 'no newline'")
    assert (done.code, done.out, done.err) == (0, b"to out\nno newline", "to err\n")


def test_it_works_in_the_folder_of_its_caller(shared_site: Site, tmp_path: Path) -> None:
    done = shared_site.run("run", "--", "sh", "-c", "pwd; echo made > here.txt", cwd=tmp_path)
    assert (done.code, done.text) == (0, str(tmp_path))
    assert (tmp_path / "here.txt").read_text() == "made\n"


def test_standard_input_is_closed(shared_site: Site) -> None:
    done = shared_site.run("run", "--", "sh", "-c", "cat; echo end", feed=b"never read\n")
    assert (done.code, done.out) == (0, b"end\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_an_end_by_a_signal_is_128_and_its_number(shared_site: Site, number: signal.Signals) -> None:
    done = shared_site.run("run", "--", "sh", "-c", f"kill -{int(number)} $$")
    assert (done.code, done.out, done.err) == (128 + number, b"", "")


def test_its_limit_ends_it_with_124(shared_site: Site) -> None:
    done = shared_site.run("run", "--limit", "300ms", "--", "sleep", "4003")
    assert done.code == 124
    first, why, _ = three_lines(done.err)
    assert "timed out" in first and "limit" in why
    assert not carrying("sleep 4003")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_off_a_terminal_an_interrupt_cancels_and_the_whole_tree_is_gone(
    shared_site: Site, number: signal.Signals
) -> None:
    tree = TREE.replace("400", "41" if number == signal.SIGINT else "42")
    marks = ["sleep 411", "sleep 412"] if number == signal.SIGINT else ["sleep 421", "sleep 422"]
    with shared_site.started("run", "--", "sh", "-c", tree) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        until(lambda: all(carrying(mark) for mark in marks), "the tree runs")
        process.send_signal(number)
        assert process.wait(20) == 130
    until(lambda: not any(carrying(mark) for mark in marks), "the tree is gone", 5)


def test_detached_it_prints_the_id_alone_and_attach_goes_on(shared_site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    line = f"echo one; while [ ! -e {gate} ]; do sleep 0.02; done; echo two; exit 3"
    done = shared_site.run("run", "--detach", "--", "sh", "-c", line)
    assert done.code == 0
    number = done.text
    assert shared_site.look("get", number)["id"] == number
    with shared_site.started("attach", number) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        gate.touch()
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (3, b"two\n", b"")
    again = shared_site.run("attach", number)
    assert (again.code, again.out) == (3, b"one\ntwo\n")


def test_several_instances_end_with_the_highest_code(shared_site: Site) -> None:
    done = shared_site.run(
        "run", "--count", "3", "--", "sh", "-c", "echo $FAIRLEAD_INDEX; exit $FAIRLEAD_INDEX"
    )
    assert (done.code, done.out) == (2, b"0\n1\n2\n")


def test_a_reader_that_goes_away_ends_the_work(shared_site: Site) -> None:
    line = f"{sys.executable} -m fairlead run -- sh -c 'yes & sleep 431' | head -n 2"
    done = shared_site.paste(line)
    assert done.out == b"y\ny\n"
    until(lambda: not carrying("sleep 431"), "what nobody reads is ended", 15)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_hundred_megabytes_of_chance_come_back_exactly(shared_site: Site, tmp_path: Path) -> None:
    size = 100 << 20
    (tmp_path / "chance").write_bytes(os.urandom(size))
    done = shared_site.run("run", "--", "cat", "chance", cwd=tmp_path, timeout=120)
    assert done.code == 0, done.err
    told = (len(done.out), hashlib.sha256(done.out).hexdigest())
    assert told == (size, hashlib.sha256((tmp_path / "chance").read_bytes()).hexdigest())


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_thousand_instances_with_some_failures_end_as_they_ended(shared_site: Site, tmp_path: Path) -> None:
    file = tmp_path / "many.yaml"
    file.write_text(
        "name: many\ncount: 1000\nresources: {cpu: 10m}\n"
        "run: |\n  echo $FAIRLEAD_INDEX\n  [ $((FAIRLEAD_INDEX % 100)) != 7 ] || exit 9\n"
    )
    done = shared_site.run("submit", "--wait", str(file), timeout=120)
    assert done.code == 1, done.err
    job = shared_site.look("get", "many")
    counts = {state: number for state, number in job["counts"].items() if number}
    assert (job["state"], counts) == ("failed", {"succeeded": 990, "failed": 10})
    failed = shared_site.look("get", "instances", "many", "--state", "failed")
    assert [(one["index"], one["exit_code"]) for one in failed] == [(100 * n + 7, 9) for n in range(10)]
    for index in (0, 7, 500, 907, 999):
        assert shared_site.run("logs", f"many/{index}").out == f"{index}\n".encode()


def test_a_run_begun_in_an_outage_waits_and_completes(shared_site: Site) -> None:
    site = shared_site
    site.strike("server")
    try:
        until(lambda: "front" not in site.pids(), "its front is gone too")
        with site.started("run", "--name", "patient", "--", "sh", "-c", "echo at last; exit 5") as process:
            site.up()
            assert process.communicate(timeout=40)[0] == b"at last\n"
            assert process.returncode == 5
        again = site.run("attach", "patient")
        assert (again.code, again.out) == (5, b"at last\n")
    finally:
        site.up()
