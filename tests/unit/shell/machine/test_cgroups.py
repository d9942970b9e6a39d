"""Groups on this very machine. Where it allows none, a pool is empty and all of this says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from fairlead.shell.machine import cgroups

Places = dict[str, tuple[int, str, str]]
FREE = dict.fromkeys(cgroups.CONTROLLERS, 0)


@pytest.fixture(params=["all", "v2 alone", "v1 alone"])
def pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[cgroups.Pool]:
    """A pool that sees all hierarchies of this machine, or those of one version."""
    found = cgroups.places()
    if request.param != "all":
        version = int(request.param[1])
        found = {name: place for name, place in found.items() if place[0] == version}
        monkeypatch.setattr(cgroups, "places", lambda: found)
    pool = cgroups.Pool(f"fairlead-test-{os.getpid()}")
    yield pool
    assert cgroups.destroy(pool.folders())
    assert not any(os.path.exists(folder) for folder in pool.folders())


def inside(
    pool: cgroups.Pool, program: str, **limits: int
) -> tuple[subprocess.Popen[str], cgroups.Slot | None]:
    with pool.entered(FREE | limits) as slot:
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    return process, slot


def until(check: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not check():
        assert time.monotonic() < end
        time.sleep(0.002)


def killed(slot: cgroups.Slot) -> cgroups.Slot:
    slot.kill()
    return slot


def test_a_pool_says_which_version_holds_what(pool: cgroups.Pool) -> None:
    facts = pool.facts()
    assert facts.keys() <= {"track", *cgroups.CONTROLLERS}
    assert set(facts.values()) <= {"v1", "v2"}
    # Limits alone are no use: what is limited must also be found again.
    assert not facts or "track" in facts


def test_what_is_spawned_in_a_group_is_born_there_and_the_spawner_is_home_again(pool: cgroups.Pool) -> None:
    process, slot = inside(pool, "input()", memory=1 << 30)
    if slot:
        assert slot.members() == [process.pid]
        assert slot.occupied()
    process.kill()
    process.communicate()
    if slot:
        until(lambda: not slot.occupied())


def test_a_kill_leaves_nothing_of_a_tree_that_keeps_forking(pool: cgroups.Pool) -> None:
    # One line of descent, of bounded length: where there are no groups nothing else would hold it.
    if not pool.bases:
        return
    # Only the first one forks, and each child goes by itself soon: harmless even if the kill should fail.
    program = "import os,time\nprint('up',flush=True)\n"
    program += "for n in range(100):\n  if os.fork()==0:\n    os.setsid(); time.sleep(3); os._exit(0)\n"
    program += "  time.sleep(.005)"
    process, slot = inside(pool, program, pids=64)
    assert process.stdout
    assert slot
    process.stdout.readline()
    # Version 1 may need more than one go.
    until(lambda: not killed(slot).occupied())
    assert process.wait() == -signal.SIGKILL
    process.communicate()


def test_a_group_is_used_again_without_its_limits(pool: cgroups.Pool) -> None:
    process, slot = inside(pool, "pass", memory=1 << 26, cpu=100, pids=3)
    process.communicate()
    if slot:
        until(lambda: not slot.occupied())
        pool.release(slot)
        for what, folder in slot.folders.items():
            for file, _, free in cgroups.LIMITS.get((pool.versions[what], what), ()):
                if os.path.exists(f"{folder}/{file}"):
                    # What is free reads as the largest number that version 1 knows.
                    assert cgroups.get(f"{folder}/{file}").strip() in {free, "9223372036854771712"}
    process, again = inside(pool, "pass")
    process.communicate()
    assert again is slot


def test_a_group_that_was_removed_is_not_handed_out(pool: cgroups.Pool) -> None:
    with pool.entered(FREE) as slot:
        pass
    if slot:
        pool.release(slot)
        slot.discard()
    with pool.entered(FREE) as other:
        assert other is None or other is not slot


def test_destroying_ends_what_is_inside_and_removes_groups_below(pool: cgroups.Pool) -> None:
    process, slot = inside(pool, "input()")
    if slot:
        os.makedirs(slot.track + "/made/by/itself")
        assert cgroups.destroy([slot.track])
        assert process.wait() == -signal.SIGKILL
    process.kill()
    process.communicate()


def test_without_groups_nothing_is_made() -> None:
    pool = cgroups.Pool("fairlead-never", wanted=False)
    with pool.entered(FREE) as slot:
        assert slot is None
    assert pool.facts() == {}
    assert pool.folders() == []
