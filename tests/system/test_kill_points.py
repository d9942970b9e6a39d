"""Each process of a site is killed at the worst moment: no end, no byte and no job is lost or doubled."""

from __future__ import annotations

import hashlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.site import Site, running, until

PARTS, LINES = 30, 2_000
# Some three seconds of output: 30 parts of 2,000 lines.
STREAM = f'for part in $(seq {PARTS}); do seq -f "$part %.0f" {LINES}; sleep 0.1; done; exit 6'
WHOLE = "".join(f"{part} {n}\n" for part in range(1, PARTS + 1) for n in range(1, LINES + 1)).encode()


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """The shared one; what was killed is brought back, as a person would."""
    yield shared_site
    shared_site.up()


def held_open(site: Site, gate: Path, *options: str) -> str:
    """A job that says `before`, waits for a file, says `after` and ends with 4; its id, once it runs."""
    line = (
        f"echo before; echo $$ > {gate}.pid; while [ ! -e {gate} ]; do sleep 0.02; done; echo after; exit 4"
    )
    done = site.run("run", "--detach", *options, "--", "sh", "-c", line)
    assert done.code == 0, done.err
    until(lambda: Path(f"{gate}.pid").exists() and Path(f"{gate}.pid").read_text().strip(), "it runs")
    return done.text


def pid_of(gate: Path) -> int:
    """The process that waits at the gate."""
    return int(Path(f"{gate}.pid").read_text())


def told(done: bytes) -> tuple[int, str]:
    """Enough of some output to compare it."""
    return len(done), hashlib.sha256(done).hexdigest()


def struck_while_streaming(site: Site, name: str, *, up: bool) -> None:
    """A `run` streams; a process is killed in its middle; the run goes on as if nothing had been."""
    with site.started("run", "--", "sh", "-c", STREAM, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        begun = b""
        while len(begun) < 200_000:
            begun += process.stdout.read(100_000)
        site.strike(name)
        if up:
            site.up()
        rest, err = process.communicate(timeout=50)
        assert process.returncode == 6, err.decode()
    assert told(begun + rest) == told(WHOLE)


def test_an_agent_killed_under_its_work_adopts_it_with_its_end_and_its_whole_output(
    site: Site, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    job = held_open(site, gate)
    number = site.agent_of(job)
    keeper = site.pids()[f"keeper-{number}"]
    site.strike(f"agent-{number}")
    gate.touch()
    until(lambda: not running(pid_of(gate)), "the work ends without its agent")
    assert running(keeper)
    site.up()
    done = site.run("attach", job)
    assert (done.code, done.out) == (4, b"before\nafter\n")
    assert site.instance(job)["attempt"] == 1


@pytest.mark.slow
def test_the_run_limit_is_kept_when_the_agent_is_gone(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = held_open(site, gate, "--limit", "2s")
    site.strike(f"agent-{site.agent_of(job)}")
    until(lambda: not running(pid_of(gate)), "the keeper ends it at its limit", 10)
    site.up()
    done = site.run("attach", job)
    assert (done.code, done.out) == (124, b"before\n")


def test_a_front_killed_while_it_streams_loses_and_doubles_nothing(site: Site) -> None:
    struck_while_streaming(site, "front", up=False)


def test_a_control_killed_while_its_front_streams_loses_and_doubles_nothing(site: Site) -> None:
    struck_while_streaming(site, "server", up=True)


def test_work_whose_keeper_is_killed_ends_at_once_and_is_rerun(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = held_open(site, gate)
    first = pid_of(gate)
    site.strike(f"keeper-{site.agent_of(job)}")
    until(lambda: not running(first), "nothing outlives its keeper", 10)
    until(lambda: pid_of(gate) != first and running(pid_of(gate)), "it runs again")
    gate.touch()
    done = site.run("attach", job)
    assert (done.code, done.out) == (4, b"before\nafter\n")
    assert site.instance(job)["attempt"] == 2


@pytest.mark.slow
def test_work_of_a_machine_that_died_is_finished_on_another(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = held_open(site, gate)
    first, number = pid_of(gate), site.agent_of(job)
    site.strike(f"agent-{number}")
    site.strike(f"keeper-{number}")
    until(lambda: pid_of(gate) != first and running(pid_of(gate)), "it runs elsewhere")
    gate.touch()
    done = site.run("attach", job)
    assert (done.code, done.out) == (4, b"before\nafter\n")
    assert site.instance(job)["agent"] != f"agent-{number}"


@pytest.mark.slow
def test_after_down_and_up_what_ended_is_there_and_what_ran_runs_again(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    ended = site.run("run", "--detach", "--", "sh", "-c", "echo kept; exit 3").text
    assert site.run("wait", ended).code == 0
    job = held_open(site, gate)
    first = pid_of(gate)
    site.down()
    assert not running(first) and not site.pids()
    site.up()
    again = site.run("attach", ended)
    assert (again.code, again.out) == (3, b"kept\n")
    until(lambda: pid_of(gate) != first and running(pid_of(gate)), "it runs again")
    gate.touch()
    done = site.run("attach", job)
    assert (done.code, done.out) == (4, b"before\nafter\n")


@pytest.mark.slow
def test_a_standing_still_control_goes_on_where_it_stood(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = held_open(site, gate)
    server = site.strike("server", signal.SIGSTOP)
    gate.touch()
    until(lambda: not running(pid_of(gate)), "the work ends meanwhile")
    site.strike("server", signal.SIGCONT)
    assert running(server)
    done = site.run("attach", job)
    assert (done.code, done.out) == (4, b"before\nafter\n")
    assert site.instance(job)["attempt"] == 1
