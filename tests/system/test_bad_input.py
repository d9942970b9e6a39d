"""Whatever is wrong is said in three lines with the right exit code; nothing is half done, and the fix works.

The last line of each refusal is pasted into a shell as it stands. A person's editor, a new release or the
address of a site are stood in for, since a test has none of them.
"""

from __future__ import annotations

import json
import shlex
import signal
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.system.site import Done, Person, Site, left_behind, running, three_lines, until

JOB = "name: probe\nrun: 'true'\n"


@pytest.fixture
def editor(tmp_path: Path) -> Path:
    """An editor that only writes down what it was asked to open."""
    script = tmp_path / "editor"
    script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/opened\n')
    script.chmod(0o755)
    return script


def count(site: Site) -> int:
    """How many submissions the site took so far."""
    return len(site.look("get", "submissions", "--all"))


def refused(done: Done, code: int) -> tuple[str, str, str]:
    """Its three lines, at that exit code and with nothing on stdout."""
    assert (done.code, done.out) == (code, b""), done
    return three_lines(done.err)


FILES: list[tuple[str, str, str, str]] = [
    ("a_negative_resource", JOB + "resources: {cpu: -1}\n", "3:18", "negative"),
    ("a_size_without_sense", JOB + "resources: {memory: 4 bananas}\n", "3:21", "4 bananas"),
    (
        "a_circle_of_needs",
        "jobs:\n- {name: a, run: x, needs: [b]}\n- {name: b, run: x, needs: [a]}\n",
        "2:",
        "circle",
    ),
    ("broken_yaml", "name: x\nrun: [a\nfoo: bar\n", "3:4", "foo: bar"),
    ("a_name_twice", "jobs:\n- {name: a, run: x}\n- {name: a, run: x}\n", "3:", "a"),
    ("nothing", "", "1:1", "empty"),
]


@pytest.mark.parametrize(("said", "text", "place", "word"), FILES, ids=[each[0] for each in FILES])
def test_a_job_file_with(
    shared_site: Site, tmp_path: Path, editor: Path, said: str, text: str, place: str, word: str
) -> None:
    """It is refused at its line and column, nothing of it is taken, and the fix opens it there."""
    (tmp_path / "ci.yaml").write_text(text)
    before = count(shared_site)
    first, _, fix = refused(shared_site.run("submit", "ci.yaml", cwd=tmp_path), 2)
    assert first.startswith(f"ci.yaml:{place}") and word in first
    assert count(shared_site) == before
    pasted = shared_site.paste(fix, cwd=tmp_path, EDITOR=str(editor))
    assert pasted.code == 0, pasted.err
    line = place.split(":")[0]
    assert (tmp_path / "opened").read_text() == f"+{line} ci.yaml\n"


def test_a_need_of_a_job_that_nobody_knows(shared_site: Site, tmp_path: Path) -> None:
    (tmp_path / "ci.yaml").write_text(JOB + "needs: [nowhere]\n")
    before = count(shared_site)
    first, _, fix = refused(shared_site.run("submit", "ci.yaml", cwd=tmp_path), 2)
    assert "nowhere" in first
    assert count(shared_site) == before
    assert shared_site.paste(fix).code == 0


def test_an_unknown_field_is_mended_by_its_fix(shared_site: Site, tmp_path: Path) -> None:
    (tmp_path / "ci.yaml").write_text(JOB + "resorces: {cpu: 100m}\n")
    before = count(shared_site)
    first, why, fix = refused(shared_site.run("submit", "ci.yaml", cwd=tmp_path), 2)
    assert first.startswith("ci.yaml:3:1") and "`resorces`" in first and "`resources`" in why
    assert count(shared_site) == before
    assert shared_site.paste(fix, cwd=tmp_path).code == 0
    assert shared_site.run("submit", "--wait", "ci.yaml", cwd=tmp_path).code == 0


def test_every_thing_that_is_wrong_is_said_at_once(shared_site: Site, tmp_path: Path) -> None:
    (tmp_path / "ci.yaml").write_text("name: 9\nrun: 'true'\nresorces: {}\nresources: {cpu: -1}\n")
    done = shared_site.run("submit", "ci.yaml", cwd=tmp_path)
    lines = done.err.splitlines()
    assert done.code == 2 and len(lines) >= 6 and len(lines) % 3 == 0
    for at in range(0, len(lines), 3):
        three_lines("\n".join(lines[at : at + 3]))


def test_a_file_too_large_is_not_read_to_its_end(shared_site: Site, tmp_path: Path) -> None:
    with (tmp_path / "big.yaml").open("wb") as file:
        file.truncate(1 << 40)
    first, why, fix = refused(shared_site.run("submit", "big.yaml", cwd=tmp_path), 2)
    assert "too large" in first and "MiB" in why
    assert shared_site.paste(fix, cwd=tmp_path).code == 0


def test_a_missing_file_is_said(shared_site: Site, tmp_path: Path) -> None:
    first, _, fix = refused(shared_site.run("submit", "no such.yaml", cwd=tmp_path), 2)
    assert "no such.yaml" in first
    (tmp_path / "no such.yaml").write_text(JOB)
    assert shared_site.paste(fix, cwd=tmp_path).code == 0


OPTIONS: list[tuple[list[str], str]] = [
    (["--cpus", "-1"], "--cpus"),
    (["--memory", "-1GiB"], "--memory"),
    (["--memory", "lots"], "--memory"),
    (["--limit", "never"], "--limit"),
    (["--where", "region =="], "--where"),
    (["--name", "9 lives"], "--name"),
    (["--count", "0"], "--count"),
    (["--env", "NOBODY_HAS_THIS"], "--env"),
    (["--label", "plain"], "--label"),
    (["--resource", "gpu"], "--resource"),
    (["--cpu", "1"], "--cpu"),
]


@pytest.mark.parametrize(("options", "word"), OPTIONS, ids=[" ".join(each[0]) for each in OPTIONS])
def test_an_option_of_run_that_is_wrong_is_125_not_the_commands_code(
    shared_site: Site, options: list[str], word: str
) -> None:
    before = count(shared_site)
    first, _, fix = refused(shared_site.run("run", *options, "--", "true"), 125)
    assert word in first
    assert count(shared_site) == before
    pasted = shared_site.paste(fix)
    assert pasted.code == 0, pasted.err


COMMANDS: list[tuple[list[str], int, str]] = [
    (["no-such-program-anywhere"], 127, "not found"),
    (["/no/such/program"], 127, "not found"),
    (["/etc/passwd"], 126, "not executable"),
]


@pytest.mark.parametrize(("command", "code", "word"), COMMANDS, ids=[each[0][0] for each in COMMANDS])
def test_a_command_that_cannot_run(shared_site: Site, command: list[str], code: int, word: str) -> None:
    first, why, fix = refused(shared_site.run("run", "--", *command), code)
    assert word in f"{first} {why}"
    assert shared_site.paste(fix).code == 0


def test_a_run_from_a_folder_that_is_gone_is_said(shared_site: Site, tmp_path: Path) -> None:
    line = "mkdir gone && cd gone && rmdir ../gone && fairlead run -- true"
    first, _, fix = refused(shared_site.paste(line, cwd=tmp_path), 125)
    assert "folder" in first
    assert shared_site.paste(f"{fix} && fairlead run -- true").code == 0


def test_a_job_in_a_folder_that_is_not_there_ends_refused(shared_site: Site, tmp_path: Path) -> None:
    file = tmp_path / "nowhere.yaml"
    file.write_text(f"name: nowhere\nrun: pwd\ndir: {tmp_path}/missing\n")
    done = shared_site.run("submit", "--wait", str(file))
    assert done.code == 1 and "Traceback" not in done.err
    item = shared_site.instance("nowhere")
    assert (item["state"], item["reason"]) == ("refused", "no_such_dir")
    for line in ("fairlead why nowhere", "fairlead logs nowhere"):
        assert line in done.err
        assert shared_site.paste(line).code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["get", "nobody"], 2),
        (["get", "agents", "nobody"], 2),
        (["describe", "nobody"], 2),
        (["why", "nobody"], 2),
        (["history", "nobody"], 2),
        (["logs", "nobody"], 2),
        (["cancel", "nobody"], 2),
        (["wait", "nobody"], 2),
        (["attach", "nobody"], 125),
        (["token", "revoke", "nobody"], 2),
        (["statis"], 2),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_an_unknown_name(shared_site: Site, words: list[str], code: int) -> None:
    first, _, fix = refused(shared_site.run(*words), code)
    assert words[-1] in first
    assert shared_site.paste(fix).code == 0
    if words[0] == "get":
        told = json.loads(shared_site.run(*words, "-o", "json").err)
        assert told["code"].startswith("no_such") and told["fix"] == fix and told["retryable"] is False


def test_a_key_used_again_with_other_content_is_refused_and_does_nothing(
    shared_site: Site, tmp_path: Path
) -> None:
    once = shared_site.run("run", "--detach", "--key", "again", "--", "true")
    twice = shared_site.run("run", "--detach", "--key", "again", "--", "true")
    assert (once.code, twice.code, once.text) == (0, 0, twice.text)
    before = count(shared_site)
    _, why, fix = refused(
        shared_site.run("run", "--detach", "--key", "again", "--", "echo", "other one"), 125
    )
    assert "same content" in why
    assert count(shared_site) == before
    pasted = shared_site.paste(fix)
    assert pasted.code == 0 and pasted.text != once.text
    logs = shared_site.run("logs", "-f", pasted.text)
    assert logs.out == b"other one\n"


def test_a_taken_port_is_said_with_the_line_that_takes_another(shared_site: Site, tmp_path: Path) -> None:
    other = Site(tmp_path / "other", agents=0)
    first, _, fix = refused(
        other.run("up", "--detach", "--agents", "0", "--listen", shared_site.address, timeout=60), 2
    )
    assert shared_site.address in first
    assert not other.pids() and not left_behind(other.home)
    try:
        assert other.paste(fix, timeout=60).code == 0
        assert other.look("get", "agents") == []
    finally:
        other.close()


@pytest.mark.parametrize("door", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_taken_port_of_another_door_is_said_too(tmp_path: Path, door: int) -> None:
    person = Person(tmp_path / "home")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = person.run("server", "--dir", str(tmp_path / "s"), "--listen", f"127.0.0.1:{port - door}")
        first, _, fix = refused(done, 2)
    assert str(port) in first
    assert fix == f"fairlead server --dir {tmp_path / 's'} --listen 127.0.0.1:0"


def test_without_a_site_it_says_how_to_get_one(tmp_path: Path) -> None:
    nobody = Site(tmp_path / "nobody", agents=1)
    for words, code in ((["status"], 2), (["run", "--", "true"], 125)):
        _, _, fix = refused(nobody.run(*words), code)
        assert fix.startswith("fairlead up")
    first, _, _ = refused(nobody.run("--context", "moon", "status"), 2)
    assert "moon" in first
    assert nobody.run("context", "list").out == b""


@pytest.mark.slow
def test_no_server_is_125_after_the_connect_timeout_and_its_fix_brings_it_back(shared_site: Site) -> None:
    site = shared_site
    site.down()
    try:
        for words in (["status"], ["run", "--", "true"], ["get", "jobs"]):
            done = site.run("--connect-timeout", "0.3", *words)
            talk = [
                line for line in done.err.splitlines() if not (line[:1].isdigit() or line.startswith("note:"))
            ]
            first, _, fix = three_lines("\n".join(talk))
            assert (done.code, done.out) == (125, b"") and "within 0.3s" in first
        pasted = site.paste(fix, timeout=60)
        assert pasted.code == 0, pasted.err
        assert len(site.look("get", "agents")) >= site.agents
        assert site.run("run", "--", "echo", "back").out == b"back\n"
    finally:
        site.up()


def test_a_second_server_on_one_folder_is_refused_and_the_first_goes_on(shared_site: Site) -> None:
    folder = shared_site.folder / "server"
    before = (folder / "addresses.json").read_bytes()
    first, why, fix = refused(shared_site.run("server", "--dir", str(folder)), 2)
    assert str(shared_site.pids()["server"]) in first and "one server" in why
    assert fix == f"kill {shared_site.pids()['server']}"
    assert (folder / "addresses.json").read_bytes() == before
    assert shared_site.run("run", "--", "echo", "still").out == b"still\n"


def test_a_second_agent_on_one_folder_is_refused_and_the_first_goes_on(shared_site: Site) -> None:
    folder = shared_site.folder / "agents" / "1"
    first, _, fix = refused(shared_site.run("agent", "--dir", str(folder)), 2)
    assert str(folder) in first
    assert fix == f"kill {shared_site.pids()['agent-1']}"
    assert running(shared_site.pids()["agent-1"])


def test_the_folder_of_a_later_release_is_refused_and_not_touched(tmp_path: Path) -> None:
    person = Person(tmp_path / "home")
    folder = tmp_path / "server"
    with person.started(
        "server", "--dir", str(folder), "--listen", "127.0.0.1:0", stdout=None, stderr=None
    ) as one:
        until(lambda: (folder / "addresses.json").exists(), "it serves")
        one.send_signal(signal.SIGTERM)
        assert one.wait(20) == 0
    with sqlite3.connect(folder / "store.db") as database:
        database.execute("UPDATE identity SET format = 7, oldest_reader = 7")
    database.close()
    before = (folder / "store.db").read_bytes()
    first, why, fix = refused(person.run("server", "--dir", str(folder)), 2)
    assert "format 7" in first and "7" in why
    assert (folder / "store.db").read_bytes() == before
    assert_installs(person, fix, tmp_path)


def test_the_agents_folder_of_a_later_release_is_refused_and_not_touched(tmp_path: Path) -> None:
    person = Person(tmp_path / "home")
    folder = tmp_path / "agent"
    folder.mkdir()
    told: dict[str, Any] = {
        "format": 7,
        "oldest_reader": 7,
        "number": 1,
        "name": "a",
        "site": "s",
        "more": [],
    }
    (folder / "agent.json").write_text(json.dumps(told))
    first, _, fix = refused(person.run("agent", "--dir", str(folder)), 2)
    assert str(folder) in first and "later" in first
    assert json.loads((folder / "agent.json").read_text()) == told
    assert_installs(person, fix, tmp_path)


def assert_installs(person: Person, fix: str, folder: Path) -> None:
    """The line asks pip for a newer release; there is none here, so what it was asked is enough."""
    (folder / "bin").mkdir()
    pip = folder / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\necho "$@" > {folder}/installed\n')
    pip.chmod(0o755)
    assert person.paste(f"PATH={folder}/bin:$PATH; {fix}").code == 0
    assert (folder / "installed").read_text() == "install --upgrade fairlead\n"


def ready(site: Site, name: str) -> bool:
    """Whether an agent of that name works."""
    return (name, "ready") in [(agent["name"], agent["state"]) for agent in site.look("get", "agents")]


def test_a_used_token_opens_nothing_more_and_a_fresh_one_does(shared_site: Site, tmp_path: Path) -> None:
    token = shared_site.run("token", "create", "--role", "agent").text
    join = ["--join", shared_site.address, "--token"]
    with shared_site.started("agent", "--dir", str(tmp_path / "a"), "--name", "guest", *join, token) as one:
        until(lambda: ready(shared_site, "guest"), "it joined")
        one.send_signal(signal.SIGTERM)
        assert one.wait(20) == 0
    second = ["agent", "--dir", str(tmp_path / "b"), "--name", "second", *join]
    first, _, fix = refused(shared_site.run(*second, token), 2)
    assert "used" in first
    assert not (tmp_path / "b" / "agent.json").exists()
    fresh = shared_site.paste(fix).text
    with shared_site.started(*second, fresh) as one:
        until(lambda: ready(shared_site, "second"), "the fresh one opens")
        one.send_signal(signal.SIGTERM)
        assert one.wait(20) == 0
    until(lambda: not left_behind(tmp_path), "both agents and their keepers are gone")


def test_an_agent_goes_on_after_its_damaged_files_were_mended_by_their_fixes(
    shared_site: Site, tmp_path: Path
) -> None:
    folder = tmp_path / "the agent"
    token = shared_site.run("token", "create", "--role", "agent").text
    words = ["agent", "--dir", str(folder)]
    join = ["--join", shared_site.address, "--token", token, "--name", "mended"]

    def works(*more: str) -> None:
        with shared_site.started(*words, *more) as one:
            until(lambda: ready(shared_site, "mended"), "it works")
            one.send_signal(signal.SIGTERM)
            assert one.wait(20) == 0
        until(lambda: not ready(shared_site, "mended"), "its end was noticed")

    works(*join)
    for name in ("fence.json", "servers.json"):
        (folder / name).write_bytes(b"")
        first, _, fix = refused(shared_site.run(*words), 2)
        assert first == f"{folder / name} is damaged"
        assert shared_site.paste(fix).code == 0
    works()
    about = (folder / "agent.json").read_text()
    (folder / "agent.json").write_text(about[: len(about) // 2])
    first, _, fix = refused(shared_site.run(*words, "--join", shared_site.address), 2)
    assert first == f"{folder / 'agent.json'} is damaged"
    anew = fix.rpartition("--name ")[2]
    told = shlex.split(fix)[1:]
    told[told.index("--token") + 1] = shared_site.run("token", "create", "--role", "agent").text
    with shared_site.started(*told) as one:
        until(lambda: ready(shared_site, anew), "it joined anew")
        one.send_signal(signal.SIGTERM)
        assert one.wait(20) == 0
    until(lambda: not left_behind(tmp_path), "agents and their keepers are gone")


@pytest.mark.slow
def test_a_server_goes_on_after_its_damaged_keys_were_set_aside_by_the_fix(tmp_path: Path) -> None:
    person = Person(tmp_path / "home")
    folder = tmp_path / "server"
    words = ["server", "--dir", str(folder), "--listen", "127.0.0.1:0"]

    def serves() -> None:
        (folder / "addresses.json").unlink(missing_ok=True)
        with person.started(*words, stdout=None, stderr=None) as one:
            until(lambda: (folder / "addresses.json").exists(), "it serves")
            one.send_signal(signal.SIGTERM)
            assert one.wait(20) == 0

    serves()
    (folder / "keys" / "site.key").write_bytes(b"")
    first, why, fix = refused(person.run(*words), 2)
    assert "site.key is damaged" in first and "joins anew" in why
    assert person.paste(fix).code == 0
    serves()
    (folder / "store.db").write_bytes(b"nonsense " * 2_000)
    first, why, fix = refused(person.run(*words), 2)
    assert first.endswith("store.db is damaged") and "begins anew" in why
    assert person.paste(fix).code == 0
    serves()


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["agent", "--dir", "fresh"], "has not joined"),
        (["agent", "--dir", "fresh", "--resource", "gpu=1025"], "1025"),
        (["agent", "--dir", "fresh", "--resource", "ssd=9007199254740993"], "ssd"),
        (["agent", "--dir", "fresh", "--join", "127.0.0.1:1", "--token", "nonsense"], "not a join token"),
        pytest.param(["agent", "--dir", "/proc/nowhere"], "/proc/nowhere", marks=pytest.mark.slow),
        (["server", "--dir", "/proc/nowhere"], "/proc/nowhere"),
        (["server", "--dir", "fresh", "--listen", "127.0.0.1:harbour"], "harbour"),
        pytest.param(
            ["server", "--dir", "fresh", "--listen", "203.0.113.7:0"], "203.0.113.7", marks=pytest.mark.slow
        ),
        (["server", "--dir", "fresh", "--store", "mysql://here"], "mysql://here"),
        pytest.param(["server", "--dir", "fresh", "--store", "etcd://"], "etcd://", marks=pytest.mark.slow),
        pytest.param(
            ["server", "--dir", "fresh", "--join", "127.0.0.1:1", "--token", "x"],
            "store",
            marks=pytest.mark.slow,
        ),
        (["server", "--dir", "odd"], "banana"),
        (["up", "--detach", "--listen", "127.0.0.1:harbour"], "harbour"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_a_program_told_something_wrong_says_so(tmp_path: Path, words: list[str], word: str) -> None:
    person = Person(tmp_path / "home")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "settings.yaml").write_text("lost_after: banana\n")
    first, _, _ = refused(person.run(*words, cwd=tmp_path), 2)
    assert word in first
    assert not left_behind(tmp_path)
