"""What a folder adds to the contract: processes that share or lose it, files that are something else."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.model.errors import Problem
from fairlead.model.storage import Campaign, Commit, Committed, Elected, Follower, Loaded, Resign
from fairlead.model.storage import Load as LoadOp
from fairlead.shell.store.choose import open_store
from fairlead.shell.store.identity import FORMAT
from fairlead.shell.store.sqlite import (
    DATABASE,
    RESERVE,
    RESERVE_BYTES,
    Reserve,
    SqliteStore,
    in_use,
    open_sqlite,
)

LEASE_MS = 1_000
# Wins the lead, says its term, then commits and says each number, until it is killed.
LEADER = """
import asyncio, sys
from pathlib import Path
from fairlead.model.storage import Campaign, Commit, Committed, Load
from fairlead.shell.store.sqlite import open_sqlite

async def main():
    store = open_sqlite(Path(sys.argv[1]))
    print((await store.perform(Campaign("child:1", 1000))).fence.term, flush=True)
    n = (await store.perform(Load())).head
    while True:
        n += 1
        assert await store.perform(Commit(n, b"segment %d" % n)) == Committed(n)
        print(n, flush=True)

asyncio.run(main())
"""


def opened(folder: Path) -> SqliteStore:
    store = open_sqlite(folder)
    assert isinstance(store, SqliteStore), store
    return store


def start_leader(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", LEADER, str(folder)], stdout=subprocess.PIPE, text=True)


def read_number(leader: subprocess.Popen[str]) -> int:
    assert leader.stdout is not None
    return int(leader.stdout.readline())


def kill(leader: subprocess.Popen[str]) -> list[int]:
    """End it at once; the numbers it had said by then."""
    assert leader.stdout is not None
    leader.send_signal(signal.SIGKILL)
    rest = [int(line) for line in leader.stdout.read().splitlines() if line]
    leader.wait()
    leader.stdout.close()
    return rest


def test_what_a_killed_process_was_told_is_there_and_terms_grow(tmp_path: Path) -> None:
    told, terms = 0, []
    for _ in range(3):
        leader = start_leader(tmp_path)
        terms.append(read_number(leader))
        told = [read_number(leader) for _ in range(20)][-1]
        told = ([told, *kill(leader)])[-1]

    async def scenario() -> None:
        store = opened(tmp_path)
        state = await store.perform(LoadOp())
        assert isinstance(state, Loaded)
        assert state.head in (told, told + 1)  # the last one may have been written and not yet told
        assert state.segments == [(n, b"segment %d" % n) for n in range(1, state.head + 1)]
        answer = await store.perform(Campaign("here:1", LEASE_MS))
        assert isinstance(answer, Elected)
        assert [*terms, answer.fence.term] == [1, 2, 3, 4]
        await store.close()

    asyncio.run(scenario())


def test_a_second_server_is_told_which_process_holds_the_folder(tmp_path: Path) -> None:
    leader = start_leader(tmp_path)
    try:
        read_number(leader)
        problem = asyncio.run(open_store(tmp_path))
        assert isinstance(problem, Problem)
        assert problem.code == "store_in_use"
        assert str(leader.pid) in problem.message
        assert str(leader.pid) in problem.fix

        async def scenario() -> None:
            store = opened(tmp_path)
            assert await store.perform(Campaign("x:1", LEASE_MS)) == Follower("child:1")
            await store.close()

        asyncio.run(scenario())
    finally:
        kill(leader)
    assert in_use(tmp_path) is None


def test_a_child_of_the_leader_does_not_keep_the_lead(tmp_path: Path) -> None:
    """The server starts a front; when the server dies, its front's open files must not hold the lock."""

    async def scenario() -> None:
        first = opened(tmp_path)
        assert isinstance(await first.perform(Campaign("one:1", LEASE_MS)), Elected)
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
        try:
            await first.close()
            second = opened(tmp_path)
            assert isinstance(await second.perform(Campaign("two:1", LEASE_MS)), Elected)
            await second.close()
        finally:
            child.kill()
            child.wait()

    asyncio.run(scenario())


def test_both_lines_sync_the_log_at_each_commit(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = opened(tmp_path)
        for connection in (store._log, store._lease):
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("written", "oldest_reader", "code"),
    [(FORMAT + 2, FORMAT + 1, "store_newer"), (0, 0, "store_older")],
)
def test_another_format_is_refused_naming_both(
    tmp_path: Path, written: int, oldest_reader: int, code: str
) -> None:
    asyncio.run(opened(tmp_path).close())
    database = sqlite3.connect(tmp_path / DATABASE)
    database.execute("UPDATE identity SET format = ?, oldest_reader = ?", (written, oldest_reader))
    database.commit()
    database.close()
    problem = open_sqlite(tmp_path)
    assert isinstance(problem, Problem)
    assert problem.code == code
    assert f"format {written}" in problem.message
    assert problem.message.endswith(str(FORMAT)) or f"from {FORMAT} on" in problem.message


def test_a_newer_format_that_still_serves_us_is_opened(tmp_path: Path) -> None:
    asyncio.run(opened(tmp_path).close())
    database = sqlite3.connect(tmp_path / DATABASE)
    database.execute("UPDATE identity SET format = ?", (FORMAT + 1,))
    database.commit()
    database.close()
    asyncio.run(opened(tmp_path).close())


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / DATABASE)
    database.execute("CREATE TABLE theirs (x)")
    database.commit()
    database.close()
    problem = open_sqlite(tmp_path)
    assert isinstance(problem, Problem)
    assert "another program" in problem.why


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"certainly not a database, and longer than a header of SQLite is" * 20)
    problem = open_sqlite(tmp_path)
    assert isinstance(problem, Problem)
    assert "not a database" in problem.why


def test_a_reserve_is_room_on_the_disk_and_is_spent_once(tmp_path: Path) -> None:
    asyncio.run(opened(tmp_path).close())
    assert os.stat(tmp_path / RESERVE).st_blocks * 512 >= RESERVE_BYTES
    reserve = Reserve(tmp_path / RESERVE)
    assert [reserve.spend(), reserve.spend()] == [True, False]
    reserve.make()
    assert reserve.spend()


def test_a_folder_that_cannot_be_made_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for problem in (open_sqlite(tmp_path / "file" / "folder"), asyncio.run(open_store(tmp_path / "file"))):
        assert isinstance(problem, Problem)
        assert problem.code == "store_unusable"


def test_the_folders_database_is_not_for_other_users(tmp_path: Path) -> None:
    asyncio.run(opened(tmp_path / "new").close())
    assert os.stat(tmp_path / "new" / DATABASE).st_mode & 0o077 == 0


def test_a_reopened_folder_is_the_same_site(tmp_path: Path) -> None:
    first, other = opened(tmp_path), opened(tmp_path / "other")
    second = opened(tmp_path)
    assert (first.site, first.generation) == (second.site, second.generation)
    assert first.site != other.site
    for store in (first, second, other):
        asyncio.run(store.close())


def test_closing_finishes_what_was_given_and_lets_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = opened(tmp_path), opened(tmp_path)
        await first.perform(Campaign("one:1", LEASE_MS))
        answer, _ = await asyncio.gather(first.perform(Commit(1, b"segment")), first.close())
        assert answer == Committed(1)
        assert isinstance(await second.perform(Campaign("two:1", LEASE_MS)), Elected)
        await second.perform(Resign())
        await second.close()

    asyncio.run(scenario())
