"""Output files: noticed as they grow, packed for a front, and read back exactly or reported."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from fairlead.agent.words import Event, Grew, OutputUnreadable, ReadOutput
from fairlead.model.blocks import ERR, OUT, Row, Sealed, parse, payload_of, rows_of
from fairlead.shell.blobs.codec import expand, squeeze
from fairlead.shell.machine.spool import PAUSE_S, Spool

KEY = "7.0.1.5"


def rows(spool: Spool, read: ReadOutput, post: Callable[[Event], None] = print) -> list[Row]:
    """What a front would find in the blocks."""
    found: list[Row] = []
    for block in spool.blocks(read, post):
        sealed = parse(block, expand)
        assert isinstance(sealed, Sealed)
        payload = payload_of(sealed, expand)
        assert isinstance(payload, bytes)
        found += rows_of(sealed.columns, payload)
    return found


def one(offset: int, length: int, end: int = 0) -> ReadOutput:
    """A range of the one stream of these tests."""
    return ReadOutput(1, [KEY], [OUT], [offset], [length], [end])


def test_pieces_of_a_stream_end_with_the_digest_of_all_of_it_however_often_they_were_sent(
    tmp_path: Path,
) -> None:
    data = bytes(range(256)) * 40
    (tmp_path / f"{KEY}.out").write_bytes(data)
    spool = Spool(tmp_path, squeeze)
    assert [row.data for row in rows(spool, one(0, 4_000))] == [data[:4_000]]
    assert [row.data for row in rows(spool, one(2_000, 2_000))] == [data[2_000:4_000]]
    (end,) = rows(spool, one(9_000, len(data) - 9_000, 1))
    assert (end.stop, end.digest) == (len(data), hashlib.sha256(data).digest())
    (again,) = rows(spool, one(len(data), 0, 1))
    assert (again.data, again.end, again.digest) == (b"", True, end.digest)


def test_many_attempts_share_a_block(tmp_path: Path) -> None:
    keys = [f"7.{index}.1.5" for index in range(100)]
    for key in keys:
        (tmp_path / f"{key}.err").write_bytes(key.encode())
    spool = Spool(tmp_path, squeeze)
    lengths = [len(key) for key in keys]
    read = ReadOutput(1, keys, [ERR] * 100, [0] * 100, lengths, [1] * 100)
    assert len(list(spool.blocks(read, print))) == 1
    assert [row.data.decode() for row in rows(spool, read)] == keys


def test_what_cannot_be_read_back_is_reported_and_the_rest_is_sent(tmp_path: Path) -> None:
    (tmp_path / f"{KEY}.out").write_bytes(b"abc")
    spool = Spool(tmp_path, squeeze)
    posted: list[Event] = []
    read = ReadOutput(1, [KEY, KEY, "8.0.1.5"], [OUT, ERR, OUT], [0, 0, 0], [3, 3, 3], [1, 1, 1])
    assert [row.data for row in rows(spool, read, posted.append)] == [b"abc"]
    assert posted == [OutputUnreadable([KEY], [ERR]), OutputUnreadable(["8.0.1.5"], [OUT])]
    posted.clear()
    assert rows(spool, one(0, 9), posted.append) == []
    assert posted == [OutputUnreadable([KEY], [OUT])]


def test_left_overs_of_attempts_that_nobody_holds_are_deleted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, squeeze)
    for name in ("a.out", "a.err", "b.out"):
        (tmp_path / name).touch()
    spool.keep_only({"a"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.err", "a.out"]
    spool.drop(["a", "never seen"])
    assert list(tmp_path.iterdir()) == []


def test_growth_is_told_at_once_and_what_was_there_before_too(tmp_path: Path) -> None:
    async def conversation() -> list[float]:
        spool = Spool(tmp_path, squeeze)
        (tmp_path / f"{KEY}.out").write_bytes(b"before")
        told: asyncio.Queue[Event] = asyncio.Queue()
        task = asyncio.get_running_loop().create_task(spool.follow(told.put_nowait))
        waits = []
        try:
            assert await asyncio.wait_for(told.get(), 5) == Grew([KEY], [OUT], [6])
            for length in range(1, 20):
                await asyncio.sleep(2 * PAUSE_S)
                with open(tmp_path / f"{KEY}.err", "ab") as file:
                    file.write(b"x")
                began = time.perf_counter()
                assert await asyncio.wait_for(told.get(), 5) == Grew([KEY], [ERR], [length])
                waits.append(time.perf_counter() - began)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return waits

    waits = asyncio.run(conversation())
    # The quickest: told by the kernel, not by looking again. How quick the rest are is the machine's business.
    assert min(waits) < PAUSE_S


def test_a_talker_is_looked_at_a_few_times_and_not_for_each_of_its_writes(tmp_path: Path) -> None:
    async def conversation() -> list[Grew]:
        spool = Spool(tmp_path, squeeze)
        told: list[Grew] = []
        task = asyncio.get_running_loop().create_task(spool.follow(told.append))  # type: ignore[arg-type]
        try:
            with open(tmp_path / f"{KEY}.out", "ab", buffering=0) as file:
                for _ in range(2_000):
                    file.write(b"x")
                    await asyncio.sleep(0)
            while not told or told[-1].length != [2_000]:
                await asyncio.sleep(PAUSE_S)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return told

    assert len(asyncio.run(asyncio.wait_for(conversation(), 10))) < 500
