"""A real keeper, real processes: what it starts, how that ends, and what is left when anything is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.shell.machine import cgroups, children
from fairlead.shell.machine.keeper_link import KeeperGone, KeeperLink

KEEPER = Path(children.__file__).with_name("keeper.py")
BOUND_S = 15.0
Event = dict[str, Any]


def until(what: str, check: Callable[[], object]) -> None:
    end = time.monotonic() + BOUND_S
    while not check():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    return children.look(pid) is not None


class Agent:
    """The agent's side of the line, one call after the other."""

    def __init__(self, folder: Path, groups: bool) -> None:
        self.folder = folder
        self.runner = asyncio.Runner()
        self.link = KeeperLink(folder, groups)
        self.seen: list[Event] = []
        self.connect()

    def connect(self) -> dict[str, Event]:
        """What is listed, by key."""
        self.run(self.link.connect())
        self.seen = []
        self.listed = self.wait("listed")
        return {entry["key"]: entry for entry in self.listed["entries"]}

    def run(self, doing: Any) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(doing, BOUND_S)

        return self.runner.run(bounded())

    def send(self, *commands: dict[str, Any]) -> None:
        async def sending() -> None:
            self.link.send(commands)
            await self.link.drain()

        self.run(sending())

    def wait(self, kind: str, key: str | None = None) -> Event:
        """The first event of this kind (about this key) since the connection; waits for it."""
        while True:
            for event in self.seen:
                if event["type"] == kind and key in (None, event.get("key")):
                    return event
            self.seen += self.run(self.link.events())

    def spawn(self, key: str, *argv: str, **more: Any) -> dict[str, Any]:
        return {
            "type": "spawn",
            "key": key,
            "argv": list(argv),
            "cwd": str(self.folder),
            "env": {"PATH": os.environ["PATH"]},
            "out": str(self.folder / f"{key}.out"),
            "err": None,
            "meta": {"of": key},
            **more,
        }

    def ends(self, key: str, *argv: str, **more: Any) -> Event:
        self.send(self.spawn(key, *argv, **more))
        return self.wait("ended", key)

    def out(self, key: str) -> str:
        return (self.folder / f"{key}.out").read_text()

    def number(self, name: str) -> int:
        """The number that a process writes into a file of the folder."""
        path = self.folder / name
        until(f"{name} is written", lambda: path.exists() and path.read_text().endswith("\n"))
        return int(path.read_text())

    @property
    def keeper(self) -> int:
        return int(self.listed["pid"])

    def kill_keeper(self) -> None:
        os.kill(self.keeper, signal.SIGKILL)
        until("the keeper is gone", lambda: not alive(self.keeper))

    def close(self) -> None:
        self.run(self.link.close())
        self.runner.close()


@pytest.fixture(params=["groups", "without"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agent]:
    """Both ways of keeping hold of trees. A user without rights gets the second under both names."""
    agent = Agent(tmp_path, request.param == "groups")
    identity = (tmp_path / "keeper.id").read_text()
    yield agent
    keeper = agent.keeper
    if alive(keeper):
        os.kill(keeper, signal.SIGTERM)
    agent.close()
    until("the keeper is gone", lambda: not alive(keeper))
    until("all it started is gone", lambda: not carriers(identity))
    until("its groups are gone", lambda: not groups_of(identity))


def groups_of(identity: str) -> list[str]:
    return [path for path in cgroups.within("/sys/fs/cgroup") if path.endswith(identity)]


def carriers(identity: str) -> list[int]:
    return [pid for pid in children.processes() if children.marks(pid).get("FAIRLEAD_KEEPER") == identity]


def watchers(identity: str) -> list[int]:
    def line(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return ""

    return [pid for pid in children.processes() if f"--watch\0{identity}" in line(pid)]


# Two forks and a session of its own, no word of whose it was: the hardest to find.
DAEMON = "import os,sys,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
DAEMON += "open(sys.argv[1],'w').write(f'{os.getpid()}\\n')\ntime.sleep(300)\n"


# How it starts and ends.


def test_it_tells_the_exit_code_and_the_lengths_of_both_outputs(agent: Agent) -> None:
    ended = agent.ends("a", "sh", "-c", "echo hello; echo oh >&2; exit 7", err=str(agent.folder / "a.err"))
    assert (ended["exit"], ended["signal"], ended["why"]) == (7, None, "exited")
    assert (ended["out_length"], ended["err_length"]) == (6, 3)
    assert agent.out("a") == "hello\n"
    assert agent.wait("started", "a")["at_ms"] == ended["started_ms"] <= ended["ended_ms"]


def test_without_a_file_for_errors_both_outputs_are_one(agent: Agent) -> None:
    agent.ends("a", "sh", "-c", "echo one; echo two >&2; echo three")
    assert agent.out("a") == "one\ntwo\nthree\n"


def test_it_tells_which_signal_ended_a_process(agent: Agent) -> None:
    ended = agent.ends("a", "sh", "-c", "kill -SEGV $$")
    assert (ended["exit"], ended["signal"], ended["why"]) == (None, signal.SIGSEGV, "exited")


def test_what_cannot_start_fails_with_a_word_for_it(agent: Agent) -> None:
    (agent.folder / "plain").write_text("no program")
    cases: list[tuple[str, list[str], str]] = [
        ("not_found", ["no-such-program-anywhere"], "/"),
        ("not_found", ["/no/such/program"], "/"),
        ("not_executable", ["./plain"], str(agent.folder)),
        ("not_executable", ["/"], "/"),
        ("no_such_dir", ["true"], "/no/such/folder"),
        ("no_such_dir", ["true"], str(agent.folder / "plain")),
        ("spawn_failed", [], "/"),
        ("spawn_failed", ["a\0b"], "/"),
    ]
    agent.send(*(agent.spawn(str(n), *argv, cwd=cwd) for n, (_, argv, cwd) in enumerate(cases)))
    agent.send(agent.spawn("w", "true", cwd=str(agent.folder / "plain" / "w"), workspace=True))
    assert agent.wait("failed", "w")["why"] == "no_such_dir"
    for n, (why, _, _) in enumerate(cases):
        assert agent.wait("failed", str(n))["why"] == why
    entries = agent.connect()
    assert {entry["state"] for entry in entries.values()} == {"failed"}
    assert len(entries) == len(cases) + 1


def test_a_process_gets_its_environment_and_three_files_and_nothing_else(agent: Agent) -> None:
    (agent.folder / "in").write_text("from the file")
    agent.ends(
        "a",
        "sh",
        "-c",
        "cat; env; ls /proc/self/fd",
        stdin=str(agent.folder / "in"),
        env={"PATH": "/usr/bin:/bin", "A": "1"},
    )
    said = agent.out("a")
    assert said.startswith("from the file")
    assert "A=1\n" in said
    assert "FAIRLEAD_KEY=a\n" in said
    # The fourth is the folder that ls itself reads.
    assert said.split()[-4:] == ["0", "1", "2", "3"]
    assert "HOME=" not in said


def test_a_process_starts_with_default_signals_in_a_session_of_its_own(agent: Agent) -> None:
    script = "read -r line < /proc/self/stat; set -- $line; echo $1 $6; exec cat /proc/self/status"
    agent.ends("a", "sh", "-c", script)
    first, _, status = agent.out("a").partition("\n")
    pid, session = first.split()
    assert pid == session
    fields = dict(line.split(":\t") for line in status.splitlines())
    assert int(fields["SigBlk"], 16) == 0
    # Above 31 are those that the C library keeps for itself.
    assert int(fields["SigIgn"], 16) & 0x7FFFFFFF == 0


def test_a_workspace_is_made_and_goes_with_its_attempt(agent: Agent) -> None:
    folder = agent.folder / "work"
    agent.ends(
        "a", "sh", "-c", "pwd; mkdir -p x/y; echo 1 > x/y/z; chmod 500 x/y", cwd=str(folder), workspace=True
    )
    assert agent.out("a").strip() == str(folder)
    until("the workspace is gone", lambda: not folder.exists())


def test_a_held_workspace_stays_until_its_attempt_is_forgotten(agent: Agent) -> None:
    folder = agent.folder / "work"
    agent.ends("a", "touch", "result", cwd=str(folder), workspace=True, hold=True)
    assert (folder / "result").exists()
    agent.send({"type": "forget", "key": "a"})
    until("the workspace is gone", lambda: not folder.exists())


# Trees.


def test_daemons_that_a_process_leaves_behind_are_gone_before_its_end_is_told(agent: Agent) -> None:
    pids = agent.folder / "pid"
    script = f'{sys.executable} -c "$CODE" {pids}; until [ -s {pids} ]; do sleep 0.01; done'
    ended = agent.ends("a", "sh", "-c", script, env={"PATH": os.environ["PATH"], "CODE": DAEMON})
    assert (ended["exit"], ended["why"]) == (0, "exited")
    assert not alive(agent.number("pid"))


def test_a_daemon_that_cleared_its_environment_is_found_all_the_same(agent: Agent) -> None:
    pids = agent.folder / "pid"
    script = f'env -i {sys.executable} -c "$CODE" {pids}; until [ -s {pids} ]; do sleep 0.01; done'
    agent.ends("a", "sh", "-c", script, env={"PATH": os.environ["PATH"], "CODE": DAEMON})
    assert not alive(agent.number("pid"))


def test_the_end_of_one_attempt_leaves_the_daemons_of_another_alone(agent: Agent) -> None:
    pids = agent.folder / "pid"
    script = f'{sys.executable} -c "$CODE" {pids}; sleep 300'
    agent.send(agent.spawn("a", "sh", "-c", script, env={"PATH": os.environ["PATH"], "CODE": DAEMON}))
    daemon = agent.number("pid")
    agent.ends("b", "true")
    assert alive(daemon)
    agent.send({"type": "kill", "key": "a"})
    assert agent.wait("ended", "a")["why"] == "killed"
    assert not alive(daemon)


def test_a_stop_reaches_the_whole_tree_and_lets_it_finish_within_the_grace(agent: Agent) -> None:
    script = "(trap 'sleep 0.2; echo saved; exit' TERM; echo up; while :; do sleep 0.01; done) & wait"
    agent.send(agent.spawn("a", "sh", "-c", script, err=str(agent.folder / "a.err")))
    until("it is up", lambda: (agent.folder / "a.out").exists() and "up" in agent.out("a"))
    agent.send({"type": "stop", "key": "a", "grace_ms": 10_000})
    ended = agent.wait("ended", "a")
    assert ended["why"] == "stopped"
    assert agent.out("a") == "up\nsaved\n"


def test_what_ignores_a_stop_is_killed_after_the_grace_and_a_repeat_only_makes_it_sooner(
    agent: Agent,
) -> None:
    agent.send(agent.spawn("a", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.01; done"))
    until("it is up", lambda: (agent.folder / "a.out").exists() and "up" in agent.out("a"))
    began = time.monotonic()
    for grace_ms in (100_000, 200, 50_000):
        agent.send({"type": "stop", "key": "a", "grace_ms": grace_ms})
    ended = agent.wait("ended", "a")
    assert (ended["signal"], ended["why"]) == (signal.SIGKILL, "stopped")
    # Far below the other two, however slow this machine is.
    assert 0.2 <= time.monotonic() - began < 40


def test_many_that_were_just_started_are_stopped_at_once_without_waiting_for_their_grace(
    agent: Agent,
) -> None:
    keys = [str(n) for n in range(40)]
    for key in keys:
        agent.send(agent.spawn(key, "sleep", "300", grace_ms=100_000), {"type": "stop", "key": key})
    assert {agent.wait("ended", key)["signal"] for key in keys} == {signal.SIGTERM}


def test_a_signal_reaches_the_process(agent: Agent) -> None:
    agent.send(
        agent.spawn("a", "sh", "-c", "trap 'echo usr; exit 4' USR1; echo up; while :; do sleep 0.01; done")
    )
    until("it is up", lambda: (agent.folder / "a.out").exists() and "up" in agent.out("a"))
    # The shell's own child has no handler and ends too, as it would at a terminal.
    agent.send({"type": "signal", "key": "a", "sig": signal.SIGUSR1})
    assert agent.wait("ended", "a")["exit"] == 4


# Time.


def test_a_limit_holds_while_the_agent_is_gone(agent: Agent) -> None:
    agent.send(agent.spawn("a", "sleep", "300", limit_ms=300))
    pid = agent.wait("started", "a")["pid"]
    agent.run(agent.link.close())
    until("the limit has passed", lambda: not alive(pid))
    entry = agent.connect()["a"]
    ended = entry if entry["state"] == "ended" else agent.wait("ended", "a")
    assert (ended["why"], ended["signal"]) == ("limit", signal.SIGTERM)


def test_a_lease_ends_an_attempt_unless_it_is_moved_forward(agent: Agent) -> None:
    agent.send(agent.spawn("a", "sleep", "300", lease_ms=300), agent.spawn("b", "sleep", "300", lease_ms=300))
    agent.send({"type": "deadline", "key": "b", "in_ms": 200_000})
    # An older word that arrives late does not take it back.
    agent.send({"type": "deadline", "key": "b", "in_ms": 10})
    assert agent.wait("ended", "a")["why"] == "lease"
    assert alive(agent.wait("started", "b")["pid"])


def test_a_lease_without_an_agent_ends_everything_and_the_keeper(agent: Agent) -> None:
    agent.send({"type": "lease", "ms": 300}, agent.spawn("a", "sleep", "300"))
    pid, keeper = agent.wait("started", "a")["pid"], agent.keeper
    agent.run(agent.link.close())
    until("all has ended", lambda: not alive(pid) and not alive(keeper))
    assert agent.connect()["a"]["why"] == "lease"


def test_an_agent_that_leaves_to_come_back_finds_its_work_beyond_the_lease(agent: Agent) -> None:
    agent.send(
        {"type": "lease", "ms": 100}, agent.spawn("a", "sleep", "300"), agent.spawn("b", "sleep", "0.8")
    )
    agent.wait("started", "b")
    agent.send({"type": "leave", "keep": True, "back_within_ms": 0})
    keeper = agent.keeper
    agent.run(agent.link.close())
    until("b has ended", lambda: '"end","b"' in (agent.folder / "keeper.journal").read_text())
    entries = agent.connect()
    assert agent.keeper == keeper
    assert entries["a"]["state"] == "running"
    assert (entries["b"]["state"], entries["b"]["exit"]) == ("ended", 0)


def test_an_agent_that_leaves_for_good_hears_every_end_and_then_the_keeper_goes(agent: Agent) -> None:
    agent.send(agent.spawn("a", "sleep", "300"), {"type": "leave", "keep": False})
    assert agent.wait("ended", "a")["why"] == "stopped"
    with pytest.raises(KeeperGone):
        agent.wait("never")


# Who dies.

AGENT_PROGRAM = """
import asyncio, json, sys
from fairlead.shell.machine.keeper_link import KeeperLink
async def main():
    link = KeeperLink(sys.argv[1], sys.argv[2] == "True")
    await link.connect()
    link.send(json.loads(sys.argv[3]))
    while True:
        print(json.dumps(await link.events()), flush=True)
asyncio.run(main())
"""


def test_a_new_agent_adopts_what_a_killed_one_left_with_exit_and_meta(agent: Agent) -> None:
    groups, keeper = not agent.link.options, agent.keeper
    commands = json.dumps(
        [agent.spawn("a", "sh", "-c", "sleep 0.3; exit 5"), agent.spawn("b", "sleep", "300")]
    )
    first = subprocess.Popen(
        [sys.executable, "-c", AGENT_PROGRAM, str(agent.folder), str(groups), commands],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert first.stdout
    said = ""
    while said.count('"started"') < 2:
        line = first.stdout.readline()
        assert line, "the agent ended"
        said += line
    first.kill()
    first.wait()
    first.stdout.close()
    entries = agent.connect()
    assert agent.keeper == keeper
    assert entries["b"]["state"] == "running"
    assert entries["b"]["meta"] == {"of": "b"}
    assert alive(entries["b"]["pid"])
    ended = entries["a"] if entries["a"]["state"] == "ended" else agent.wait("ended", "a")
    assert ended["exit"] == 5


def test_when_the_keeper_is_killed_the_watcher_ends_everything_and_the_next_one_says_so(agent: Agent) -> None:
    pids = agent.folder / "pid"
    script = f'{sys.executable} -c "$CODE" {pids}; sleep 300'
    agent.send(agent.spawn("a", "sh", "-c", script, env={"PATH": os.environ["PATH"], "CODE": DAEMON}))
    pid, daemon = agent.wait("started", "a")["pid"], agent.number("pid")
    agent.ends("b", "true")
    agent.kill_keeper()
    with pytest.raises(KeeperGone):
        agent.wait("never")
    until("the tree is gone", lambda: not alive(pid) and not alive(daemon))
    before = agent.keeper
    entries = agent.connect()
    assert agent.keeper != before
    assert (entries["a"]["state"], entries["a"]["why"], entries["a"]["meta"]) == (
        "ended",
        "orphaned",
        {"of": "a"},
    )
    assert entries["b"]["exit"] == 0


def test_when_keeper_and_watcher_are_both_killed_the_next_keeper_ends_what_was_left(agent: Agent) -> None:
    agent.send(agent.spawn("a", "sleep", "300"))
    pid = agent.wait("started", "a")["pid"]
    (watcher,) = watchers((agent.folder / "keeper.id").read_text())
    os.kill(agent.keeper, signal.SIGSTOP)
    os.kill(watcher, signal.SIGKILL)
    agent.kill_keeper()
    assert agent.connect()["a"]["why"] == "orphaned"
    assert not alive(pid)


def test_a_killed_watcher_is_replaced(agent: Agent) -> None:
    identity = (agent.folder / "keeper.id").read_text()
    (watcher,) = watchers(identity)
    os.kill(watcher, signal.SIGKILL)
    until("another watches", lambda: set(watchers(identity)) - {watcher})
    agent.send(agent.spawn("a", "sleep", "300"))
    pid = agent.wait("started", "a")["pid"]
    agent.kill_keeper()
    until("all has ended", lambda: not alive(pid))


def test_a_keeper_that_is_told_to_stop_ends_all_with_its_grace(agent: Agent) -> None:
    script = "trap 'echo saved; exit' TERM; echo up; while :; do sleep 0.01; done"
    agent.send(agent.spawn("a", "sh", "-c", script, err=str(agent.folder / "a.err")))
    until("it is up", lambda: (agent.folder / "a.out").exists() and "up" in agent.out("a"))
    os.kill(agent.keeper, signal.SIGTERM)
    assert agent.wait("ended", "a")["why"] == "stopped"
    assert agent.out("a") == "up\nsaved\n"


@pytest.mark.parametrize("agent", ["groups"], indirect=True)
def test_a_keeper_whose_folder_is_gone_ends_everything(agent: Agent) -> None:
    agent.send(agent.spawn("a", "sleep", "300", cwd="/"))
    pid = agent.wait("started", "a")["pid"]
    agent.folder.rename(agent.folder.with_name("moved-" + agent.folder.name))
    until("all has ended", lambda: not alive(pid) and not alive(agent.keeper))
    agent.folder.mkdir()


# Keys, lines, the journal.


def test_a_key_is_never_spawned_twice_until_it_is_forgotten(agent: Agent) -> None:
    agent.ends("a", "sh", "-c", "echo once; exit 3")
    agent.send(agent.spawn("a", "sh", "-c", "echo twice"))
    agent.ends("b", "true")
    agent.kill_keeper()
    agent.connect()
    agent.send(agent.spawn("a", "sh", "-c", "echo thrice"))
    assert agent.wait("ended", "a")["exit"] == 3
    assert agent.out("a") == "once\n"
    agent.send({"type": "forget", "key": "a"})
    assert agent.ends("a2", "true")["exit"] == 0
    agent.send(agent.spawn("a", "sh", "-c", "echo again"))
    until("it ran again", lambda: agent.out("a") == "once\nagain\n")


def test_a_new_connection_displaces_the_older_one(agent: Agent) -> None:
    other = Agent(agent.folder, not agent.link.options)
    with pytest.raises(KeeperGone):
        agent.wait("never")
    assert other.ends("a", "true")["exit"] == 0
    other.close()
    agent.connect()


def test_commands_that_make_no_sense_are_refused_and_the_rest_is_done(agent: Agent) -> None:
    agent.send({"type": "dance"}, {"no": "type"}, {"type": "spawn"}, agent.spawn("a", "true"))
    assert agent.wait("ended", "a")["exit"] == 0
    assert len([event for event in agent.seen if event["type"] == "refused"]) == 3


def test_a_torn_journal_loses_the_torn_line_alone(agent: Agent) -> None:
    agent.ends("a", "sh", "-c", "exit 9")
    agent.kill_keeper()
    with open(agent.folder / "keeper.journal", "ab") as file:
        file.write(b'00000000 ["end","a",{"exit":0}]\n\0\0\0\0')
    assert agent.connect()["a"]["exit"] == 9
    assert agent.listed["damaged"] == 2


def test_a_folder_with_a_long_name_has_a_keeper_too(tmp_path: Path) -> None:
    folder = tmp_path / ("long-" * 20) / ("name-" * 20)
    folder.mkdir(parents=True)
    agent = Agent(folder, True)
    assert agent.ends("a", "true")["exit"] == 0
    os.kill(agent.keeper, signal.SIGTERM)
    agent.close()
    until("the keeper is gone", lambda: not alive(agent.keeper))


def test_a_thousand_short_tasks_go_through_quickly(agent: Agent) -> None:
    agent.send(*(agent.spawn(str(n), "true", out=None) for n in range(1000)))
    ended: set[str] = set()
    while len(ended) < 1000:
        ended |= {event["key"] for event in agent.run(agent.link.events()) if event["type"] == "ended"}
    agent.send(*({"type": "forget", "key": str(n)} for n in range(1000)), {"type": "last"})
    agent.wait("refused")
    assert agent.connect() == {}


def test_the_keeper_loads_nothing_but_the_standard_library() -> None:
    program = f"import runpy,sys;sys.argv=['k','--watch','none'];runpy.run_path({str(KEEPER)!r},run_name='__main__');"
    program += "print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    beside = {name for name in done.stdout.split() if name.startswith("fairlead_beside_")}
    assert set(done.stdout.split()) - beside <= {*sys.stdlib_module_names, "__main__"}


# Limits of groups; where the machine allows none, the keeper says so.


def test_an_attempt_that_outgrows_its_memory_is_ended_for_it(agent: Agent) -> None:
    hungry = "x = bytearray(200 << 20); print(len(x))"
    ended = agent.ends("a", sys.executable, "-c", hungry, memory=64 << 20)
    held = "memory" in agent.listed["cgroups"]
    assert (ended["why"], ended["signal"]) == (("oom", signal.SIGKILL) if held else ("exited", None))


def test_an_attempt_can_have_so_many_processes_and_no_more(agent: Agent) -> None:
    script = "import os,time\ntry:\n  for n in range(30):\n    os.fork() or time.sleep(300)\nexcept OSError: print(n)\n"
    agent.ends("a", sys.executable, "-c", script, pids=10)
    assert agent.out("a") == ("9\n" if "pids" in agent.listed["cgroups"] else "")


def test_an_attempt_gets_no_more_than_its_share_of_cpu(agent: Agent) -> None:
    script = (
        "import time\nend=time.monotonic()+1\nwhile time.monotonic()<end: pass\nprint(time.process_time())\n"
    )
    assert agent.ends("a", sys.executable, "-c", script, cpu=200)["exit"] == 0
    # Without groups only a busy machine may keep it from having more.
    assert float(agent.out("a")) < (0.5 if "cpu" in agent.listed["cgroups"] else 1.5)


def test_limits_of_one_attempt_are_gone_for_the_next_in_the_same_group(agent: Agent) -> None:
    agent.ends("a", "true", memory=64 << 20, pids=2, cpu=100)
    ended = agent.ends(
        "b", sys.executable, "-c", "import os; x = bytearray(200 << 20); os.fork(); os.fork()", cpu=0
    )
    assert (ended["exit"], ended["why"]) == (0, "exited")
