from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.shell.front.harness import blocks, run
from tests.unit.shell.front.test_intake import Desk, read, row

from fairlead.model.blocks import Row
from fairlead.shell.blobs.codec import expand
from fairlead.shell.blobs.folder import FolderBlobs
from fairlead.shell.front import logs as logs_module
from fairlead.shell.front.logs import Logs

KEY = (1, 0, 1, 1, 0)


def test_streams_of_many_instances_in_one_block_are_told_apart(tmp_path: Path) -> None:
    async def work() -> None:
        rows = [
            Row(job, index, attempt, term, stream, 0, b"%d.%d.%d.%d.%d" % (job, index, attempt, term, stream))
            for job in (1, 2)
            for index in range(50)
            for attempt, term in ((1, 1), (2, 1), (2, 3))
            for stream in (0, 1)
        ]
        async with Desk(FolderBlobs(tmp_path), "a") as desk:
            for block in blocks(*rows):
                await desk.send(block)
            again = Logs("b", FolderBlobs(tmp_path), expand)
            await again.refresh()
            for logs in (desk.logs, again):
                for one in rows:
                    with logs.open(one.key) as reader:
                        assert await reader.read(0) == one.data
                assert logs.terms(2, 49, 2) == [1, 3]
                assert logs.terms(2, 50, 2) == []

    run(work)


def test_reading_begins_at_any_offset(tmp_path: Path) -> None:
    async def work() -> None:
        whole = bytes(range(256)) * 8
        async with Desk(FolderBlobs(tmp_path), "a") as desk:
            for at in range(0, len(whole), 100):
                await desk.send(blocks(row(at, whole[at : at + 100]))[0])
            for offset in (0, 1, 99, 100, 777, len(whole) - 1):
                assert await read(desk.logs, len(whole), offset=offset) == whole[offset:]
            assert await read(desk.logs, 10, offset=len(whole)) == b""

    run(work)


def test_what_leaves_memory_is_read_from_the_store(tmp_path: Path, monkeypatch: object) -> None:
    async def work() -> None:
        blobs = FolderBlobs(tmp_path)
        async with Desk(blobs, "a") as desk:
            for at in range(0, 500, 100):
                await desk.send(blocks(row(at, b"%d" % (at // 100) * 100))[0])
            for block in desk.logs._recent:
                block.data = None
            desk.logs._expanded.clear()
            assert await read(desk.logs, 500) == b"".join(b"%d" % n * 100 for n in range(5))

    run(work)


def test_a_damaged_object_is_a_hole_and_the_rest_is_served(tmp_path: Path) -> None:
    async def work() -> None:
        async with Desk(FolderBlobs(tmp_path), "a") as desk:
            for at in (0, 100, 200):
                await desk.send(blocks(row(at, b"x" * 100))[0])
        path = tmp_path / "fresh" / "a" / "000000000001"
        data = bytearray(path.read_bytes())
        data[-1] ^= 0xFF
        path.write_bytes(bytes(data))
        logs = Logs("b", FolderBlobs(tmp_path), expand)
        await logs.refresh()
        with logs.open(KEY) as reader:
            assert await reader.read(0) == b"x" * 100
            assert await reader.read(100) == b""
            assert reader.following(100) == 200
            assert await reader.read(200) == b"x" * 100
        assert logs.damaged == 1

    run(work)


def test_an_object_that_is_gone_is_a_hole(tmp_path: Path) -> None:
    async def work() -> None:
        async with Desk(FolderBlobs(tmp_path), "a") as desk:
            for at in (0, 100):
                await desk.send(blocks(row(at, b"x" * 100))[0])
        logs = Logs("b", FolderBlobs(tmp_path), expand)
        await logs.refresh()
        (tmp_path / "fresh" / "a" / "000000000000").unlink()
        with logs.open(KEY) as reader:
            assert await reader.read(0) == b""
            assert reader.following(0) == 100

    run(work)


def test_another_fronts_objects_are_found_and_indexed_once(tmp_path: Path) -> None:
    async def work() -> None:
        reads: list[str] = []

        class Counting(FolderBlobs):
            def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
                reads.append(key)
                return super().get(key, start, length)

        mine = Logs("m", Counting(tmp_path), expand)
        async with Desk(FolderBlobs(tmp_path), "a") as one, Desk(FolderBlobs(tmp_path), "z") as two:
            for round_ in range(3):
                await one.send(blocks(row(round_ * 2, b"ab"))[0])
                await two.send(blocks(row(round_ * 2, b"cd", job=2))[0])
                await mine.refresh()
                await asyncio.gather(*(mine.refresh() for _ in range(5)))
        assert len(reads) == len(set(reads)) == 6
        assert await read(mine, 6) == b"ababab"
        assert await read(mine, 6, job=2) == b"cdcdcd"

    run(work)


def test_the_memory_for_recent_blocks_is_bounded(tmp_path: Path) -> None:
    async def work() -> None:
        before = logs_module.RECENT_BYTES
        logs_module.RECENT_BYTES = 1_000
        try:
            async with Desk(FolderBlobs(tmp_path), "a") as desk:
                for at in range(100):
                    await desk.send(blocks(row(at, b"x"))[0])
                assert sum(block.data is not None for block in desk.logs._recent) < 15
                assert await read(desk.logs, 100) == b"x" * 100
        finally:
            logs_module.RECENT_BYTES = before

    run(work)


def test_a_thousand_readers_of_one_stream_share_its_pieces(tmp_path: Path) -> None:
    async def work() -> None:
        async with Desk(FolderBlobs(tmp_path), "a") as desk:
            readers = [desk.logs.open(KEY) for _ in range(1_000)]
            bells = [asyncio.Event() for _ in readers]
            for reader, bell in zip(readers, bells, strict=True):
                reader.listen(bell)
            await desk.send(blocks(row(0, b"hello"))[0])
            assert all(bell.is_set() for bell in bells)
            assert {await reader.read(0) for reader in readers} == {b"hello"}
            for reader, bell in zip(readers, bells, strict=True):
                reader.leave(bell)
                reader.close()
            assert not desk.logs._opened

    run(work)
