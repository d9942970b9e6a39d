"""A folder that is damaged, or another's, is named as that, with a line that mends it."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.ctl.failures import Failure
from fairlead.model.errors import Problem
from fairlead.programs import agent, server, up
from fairlead.programs.agent_setup import Options, measured_totals
from fairlead.programs.places import not_yours
from fairlead.shell.access.ca import Authority, open_authority
from fairlead.shell.access.identity import install, request
from fairlead.shell.store.sqlite import open_sqlite

NOW = time.time_ns() // 1_000_000


def paste(line: str) -> None:
    """Into a shell, as it stands."""
    subprocess.run(["sh", "-c", line], check=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An agent's folder, as a join leaves it."""
    made = tmp_path / "an agent"
    authority = Authority.create("lab", NOW)
    issued = authority.issue(request(made / "identity"), "agent", 3, NOW)
    assert not isinstance(issued, Problem)
    assert not isinstance(install(made / "identity", issued.pem, authority.pem), Problem)
    told = {"format": 1, "oldest_reader": 1, "number": 3, "name": "a", "site": "lab", "join": ["127.0.0.1:1"]}
    (made / "agent.json").write_text(json.dumps(told))
    (made / "servers.json").write_text('{"control": ["127.0.0.1:2"], "output": []}')
    (made / "fence.json").write_text('{"site": "lab", "generation": 1, "term": 2}')
    return made


def started(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What an agent that cannot start on the folder says."""
    assert agent.main({"dir": str(folder)}) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.lstrip().split(":")[0] for line in lines] == ["error", "why", "fix"], lines
    return [line.split(": ", 1)[1] for line in lines]


@pytest.mark.parametrize("text", ["", '{"site": "l', "[1]", "{}", "\0\0\0\0"])
def test_a_damaged_fence_is_deleted_by_its_fix_and_what_that_means_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (folder / "fence.json").write_text(text)
    first, why, fix = started(folder, capsys)
    assert first == f"{folder / 'fence.json'} is damaged"
    assert "obeys the first leader" in why
    paste(fix)
    assert not (folder / "fence.json").exists()


@pytest.mark.parametrize("text", ["", "[1]", '{"control": 3}'])
def test_damaged_addresses_are_deleted_by_their_fix_and_then_the_site_is_asked(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (folder / "servers.json").write_text(text)
    first, why, fix = started(folder, capsys)
    assert first == f"{folder / 'servers.json'} is damaged"
    assert "asked, at 127.0.0.1:1" in why
    paste(fix)
    assert agent.main({"dir": str(folder)}) == 2
    assert "127.0.0.1:1 does not answer" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[1]", '{"format": 1}', '{"format": 1, "oldest_re', "\0"])
def test_an_agent_that_does_not_know_who_it_is_joins_anew_from_a_fresh_folder(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (folder / "agent.json").write_text(text)
    first, _, fix = started(folder, capsys)
    assert first == f"{folder / 'agent.json'} is damaged"
    joins_anew(fix, folder, "HOST:PORT")


def joins_anew(fix: str, folder: Path, where: str) -> None:
    """The line is one of an agent that has another folder, a new token and another name."""
    words = shlex.split(fix)
    assert words[:2] == ["fairlead", "agent"]
    said = dict(zip(words[2::2], words[3::2], strict=True))
    assert said["--dir"] != str(folder) and not Path(said["--dir"]).exists()
    assert (said["--join"], said["--token"]) == (where, "$(fairlead token create --role agent)")
    assert "-new-" in said["--name"]


@pytest.mark.parametrize("name", ["cert.pem", "ca.pem", "key.pem"])
@pytest.mark.parametrize("end", [Path.unlink, lambda path: path.write_text("")], ids=["gone", "empty"])
def test_an_agent_without_its_identity_joins_anew_from_a_fresh_folder(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, end: Callable[[Path], object]
) -> None:
    end(folder / "identity" / name)
    _, _, fix = started(folder, capsys)
    joins_anew(fix, folder, "127.0.0.1:1")


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder with a file that nobody may open, and we are not the one who may open everything."""
    before = os.geteuid()
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        (Path(made) / "agent.lock").touch()
        (Path(made) / "agent.lock").chmod(0)
        if before == 0:
            os.seteuid(65_534)
        yield Path(made)
        os.seteuid(before)


def test_the_folder_of_another_user_is_named_as_that(
    closed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["fairlead", "agent", "--dir", str(closed)])
    first, why, fix = started(closed, capsys)
    assert first == f"{closed / 'agent.lock'} cannot be opened"
    if (closed / "agent.lock").stat().st_uid == os.geteuid():
        assert fix == f"chmod -R u+rwX {closed / 'agent.lock'}"
    else:
        assert "belongs to root" in why
        assert fix == f"sudo -u root fairlead agent --dir {closed}"


def test_a_folder_that_its_own_user_closed_is_opened_by_the_fix(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(0)
    problem = not_yours(tmp_path / "closed")
    assert problem.code == "not_yours"
    paste(problem.fix)
    assert (tmp_path / "closed").stat().st_mode & 0o700 == 0o700


@pytest.mark.parametrize("key", [b"", b"short"])
def test_the_keys_of_a_site_that_are_damaged_are_set_aside_by_the_fix(tmp_path: Path, key: bytes) -> None:
    keys = tmp_path / "the keys"
    before = open_authority(keys, "lab", NOW)
    (keys / "site.key").write_bytes(key)
    problem = open_authority(keys, "lab", NOW)
    assert isinstance(problem, Problem) and isinstance(before, Authority)
    assert problem.code == "damaged" and "site.key" in problem.message and "joins anew" in problem.why
    paste(problem.fix)
    after = open_authority(keys, "lab", NOW)
    assert isinstance(after, Authority) and after.pem != before.pem


def test_a_sealed_authority_is_set_aside_by_the_fix(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    open_authority(keys, "lab", NOW)
    (keys / "authority").write_bytes(b"")
    problem = open_authority(keys, "lab", NOW)
    assert isinstance(problem, Problem) and problem.code == "authority_sealed"
    paste(problem.fix)
    assert isinstance(open_authority(keys, "lab", NOW), Authority)


def test_a_malformed_store_is_set_aside_by_the_fix(tmp_path: Path) -> None:
    folder = tmp_path / "a server"
    folder.mkdir()
    (folder / "store.db").write_bytes(b"nonsense " * 2_000)
    problem = open_sqlite(folder)
    assert isinstance(problem, Problem)
    assert problem.code == "damaged" and "begins anew" in problem.why
    paste(problem.fix)
    assert not folder.exists()
    sqlite3.connect(next(tmp_path.iterdir()) / "store.db").close()


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"store": 3}'])
def test_a_server_that_forgot_where_its_store_is_makes_no_new_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "server.json").write_text(text)
    problem = server.remembered(server.Options(str(tmp_path)), tmp_path)
    assert isinstance(problem, Problem)
    assert problem.code == "damaged" and "say --store" in problem.why
    assert (tmp_path / "server.json").read_text() == text


@pytest.mark.parametrize("text", ["", "[1]", '{"processes": [1]}'])
def test_what_runs_here_is_not_guessed_from_a_damaged_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "up.json").write_text(text)
    with pytest.raises(Failure) as told:
        up.processes(tmp_path)
    assert told.value.code == "damaged"
    paste(told.value.fix)
    assert up.processes(tmp_path) == {}


@pytest.mark.parametrize(
    ("resources", "code", "word"),
    [
        (("ssd=9007199254740993",), "too_large", "ssd"),
        (("gpu=1025",), "too_large", "1024"),
        (("gpu=lots",), "not_a_quantity", "gpu"),
        (tuple(f"r{number}=1" for number in range(65)), "too_many", "64"),
        (("=1",), "not_a_name", ""),
        (("x" * 300,), "not_a_name", "256"),
    ],
)
def test_more_than_control_takes_is_refused_before_anything_is_asked(
    tmp_path: Path, resources: tuple[str, ...], code: str, word: str
) -> None:
    problem = measured_totals(tmp_path, Options(str(tmp_path), resources=resources))
    assert isinstance(problem, Problem)
    assert problem.code == code and word in f"{problem.message} {problem.why}"
    assert problem.where == "--resource" and problem.why and problem.fix
    if problem.fix.startswith("--"):
        mended = (*resources, shlex.split(problem.fix)[1])
        assert code == "not_a_name" or not isinstance(
            measured_totals(tmp_path, Options(str(tmp_path), resources=mended)), Problem
        )


def test_as_much_as_control_takes_is_told(tmp_path: Path) -> None:
    told = measured_totals(tmp_path, Options(str(tmp_path), resources=("gpu=1024", "ssd=5"), memory="1GiB"))
    assert isinstance(told, dict)
    assert (told["gpu"], told["ssd"], told["memory"]) == (1_024_000, 5_000, 1 << 30)
