from __future__ import annotations

import asyncio
import hashlib
import random
import threading
from pathlib import Path

import pytest
from tests.unit.shell.front.harness import blocks, run, until

from fairlead.model.blocks import BLOCK_BYTES, Row
from fairlead.model.errors import Problem
from fairlead.model.intake import Acked
from fairlead.shell.blobs.codec import expand
from fairlead.shell.blobs.folder import FolderBlobs
from fairlead.shell.front import intake as intake_module
from fairlead.shell.front.intake import Intake
from fairlead.shell.front.logs import Logs


class Held(FolderBlobs):
    """A folder whose puts wait until they are let through, or fail."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gate = threading.Event()
        self.begun: list[tuple[str, int]] = []
        self.failing = 0

    def put(self, key: str, data: bytes) -> bool:
        self.begun.append((key, len(data)))
        assert self.gate.wait(20)
        if self.failing:
            self.failing -= 1
            raise OSError("no room")
        return super().put(key, data)


class Desk:
    """An intake at work."""

    def __init__(self, blobs: FolderBlobs, boot: str) -> None:
        self.logs = Logs(boot, blobs, expand)
        self.intake = Intake(boot, blobs, self.logs, expand)

    async def __aenter__(self) -> Desk:
        self._task = asyncio.create_task(self.intake.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        self.intake.close()

    def send(self, block: bytes) -> asyncio.Task[Acked | Problem]:
        return asyncio.create_task(self.intake.take(1, block))


def row(
    offset: int, data: bytes, job: int = 1, index: int = 0, end: bool = False, digest: bytes = b""
) -> Row:
    return Row(job, index, 1, 1, 0, offset, data, end, digest)


def offset_of(acked: Acked | Problem) -> int:
    assert isinstance(acked, Acked), acked
    return acked.offset[0]


async def read(logs: Logs, size: int, job: int = 1, index: int = 0, offset: int = 0) -> bytes:
    pieces: list[bytes] = []
    with logs.open((job, index, 1, 1, 0)) as reader:
        while size and (data := await reader.read(offset)):
            pieces.append(data)
            offset += len(data)
            size -= len(data)
    return b"".join(pieces)


def test_nothing_is_acknowledged_before_the_put_that_holds_it(tmp_path: Path) -> None:
    async def work() -> None:
        blobs = Held(tmp_path)
        async with Desk(blobs, "a") as desk:
            first = desk.send(blocks(row(0, b"hello"))[0])
            await until(lambda: len(blobs.begun) == 1)
            assert not first.done()
            blobs.gate.set()
            assert offset_of(await first) == 5

    run(work)


def test_a_follower_reads_a_byte_before_it_is_stored(tmp_path: Path) -> None:
    async def work() -> None:
        blobs = Held(tmp_path)
        async with Desk(blobs, "a") as desk:
            with desk.logs.open((1, 0, 1, 1, 0)) as reader:
                bell = asyncio.Event()
                reader.listen(bell)
                sent = desk.send(blocks(row(0, b"hello"))[0])
                await bell.wait()
                assert await reader.read(0) == b"hello"
                assert not sent.done()
                reader.leave(bell)
            blobs.gate.set()
            await sent

    run(work)


def test_one_put_is_in_flight_and_the_next_takes_what_arrived(tmp_path: Path) -> None:
    async def work() -> None:
        blobs = Held(tmp_path)
        async with Desk(blobs, "a") as desk:
            sent = [desk.send(blocks(row(n, b"x"))[0]) for n in range(1)]
            await until(lambda: len(blobs.begun) == 1)
            sent += [desk.send(blocks(row(n, b"x"))[0]) for n in range(1, 50)]
            await until(lambda: desk.intake.taken_bytes > 49 * 60)
            assert len(blobs.begun) == 1
            blobs.gate.set()
            assert {offset_of(acked) for acked in await asyncio.gather(*sent)} == {1, 50}
            assert len(blobs.begun) == 2
            assert blobs.list("fresh/a/") == ["fresh/a/000000000000", "fresh/a/000000000001"]

    run(work)


def test_an_object_is_at_most_four_mebibytes(tmp_path: Path) -> None:
    async def work() -> None:
        blobs = Held(tmp_path)
        noise = random.Random(1).randbytes(10 << 20)
        async with Desk(blobs, "a") as desk:
            pieces = [row(at, noise[at : at + BLOCK_BYTES]) for at in range(0, len(noise), BLOCK_BYTES)]
            sent = [desk.send(block) for block in blocks(*pieces)]
            blobs.gate.set()
            await asyncio.gather(*sent)
            assert max(size for _, size in blobs.begun) <= 4 << 20
            assert await read(desk.logs, len(noise)) == noise

    run(work)


def test_a_store_that_is_down_is_asked_for_the_same_put_again(tmp_path: Path) -> None:
    async def work() -> None:
        blobs = Held(tmp_path)
        blobs.failing = 2
        blobs.gate.set()
        async with Desk(blobs, "a") as desk:
            assert offset_of(await desk.send(blocks(row(0, b"hello"))[0])) == 5
            assert len(blobs.begun) == 3
            assert len({key for key, _ in blobs.begun}) == 1
            assert desk.intake.retries == 2

    run(work)


def test_agents_are_sent_away_while_the_store_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "WAITING_BYTES", 1 << 20)

    async def work() -> None:
        blobs = Held(tmp_path)
        noise = random.Random(1).randbytes(BLOCK_BYTES)
        async with Desk(blobs, "a") as desk:
            sent = [desk.send(blocks(row(n * BLOCK_BYTES, noise))[0]) for n in range(5)]
            refused = [await task for task in sent[3:]]
            assert [said.code for said in refused if isinstance(said, Problem)] == ["busy", "busy"]
            blobs.gate.set()
            assert offset_of(await sent[2]) == 3 * BLOCK_BYTES
            assert offset_of(await desk.send(blocks(row(3 * BLOCK_BYTES, noise))[0])) == 4 * BLOCK_BYTES

    run(work)


def test_an_intake_that_is_closed_takes_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with Desk(FolderBlobs(tmp_path), "a") as desk:
            pass
        refused = await desk.send(blocks(row(0, b"x"))[0])
        assert isinstance(refused, Problem) and refused.retryable

    run(work)


def test_bytes_that_are_no_block_are_refused_and_not_acknowledged(tmp_path: Path) -> None:
    async def work() -> None:
        async with Desk(FolderBlobs(tmp_path), "a") as desk:
            good = blocks(row(0, b"hello" * 100))[0]
            for bad in (b"", b"nonsense" * 20, good[:-1], good[:-1] + bytes([good[-1] ^ 1]), good + good):
                refused = await desk.send(bad)
                assert isinstance(refused, Problem) and refused.code == "bad_block", bad[:20]
            assert FolderBlobs(tmp_path).list("") == []

    run(work)


def test_what_is_sent_twice_is_read_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with Desk(FolderBlobs(tmp_path), "a") as desk:
            for start, data in ((0, b"abcdef"), (0, b"abcdef"), (3, b"defghi"), (1, b"bc"), (9, b"j")):
                await desk.send(blocks(row(start, data))[0])
            assert await read(desk.logs, 100) == b"abcdefghij"

    run(work)


def test_an_agent_that_was_elsewhere_is_acknowledged_over_what_is_stored_there(tmp_path: Path) -> None:
    async def work() -> None:
        async with Desk(FolderBlobs(tmp_path), "a") as one, Desk(FolderBlobs(tmp_path), "b") as other:
            assert offset_of(await one.send(blocks(row(0, b"abc"))[0])) == 3
            assert offset_of(await other.send(blocks(row(3, b"def"))[0])) == 6
            assert offset_of(await one.send(blocks(row(6, b"ghi"))[0])) == 9
            assert await read(one.logs, 100) == b"abcdefghi"

    run(work)


def test_a_hole_that_is_stored_nowhere_is_not_acknowledged_over(tmp_path: Path) -> None:
    async def work() -> None:
        async with Desk(FolderBlobs(tmp_path), "a") as desk:
            assert offset_of(await desk.send(blocks(row(0, b"abc"))[0])) == 3
            assert offset_of(await desk.send(blocks(row(6, b"ghi"))[0])) == 3
            assert offset_of(await desk.send(blocks(row(3, b"def"))[0])) == 9

    run(work)


def test_a_hundred_megabytes_come_back_to_the_byte_also_after_a_restart(tmp_path: Path) -> None:
    size = 100_000_000
    made = random.Random(7)
    page = b"".join(
        b"%08x ok test_%d passed in %d ms\n" % (made.getrandbits(32), n, n % 97) for n in range(40_000)
    )
    whole = (page * (size // len(page) + 1))[:size]
    digest = hashlib.sha256(whole).digest()

    async def send() -> None:
        async with Desk(FolderBlobs(tmp_path), "a") as desk:

            async def follow() -> bytes:
                taken = hashlib.sha256()
                bell = asyncio.Event()
                at = 0
                with desk.logs.open((1, 0, 1, 1, 0)) as reader:
                    reader.listen(bell)
                    while at < size:
                        bell.clear()
                        while data := await reader.read(at):
                            taken.update(data)
                            at += len(data)
                        if at < size:
                            await bell.wait()
                    reader.leave(bell)
                    assert reader.total == size
                return taken.digest()

            following = asyncio.create_task(follow())
            sent: list[asyncio.Task[Acked | Problem]] = []
            for at in range(0, size, BLOCK_BYTES):
                last = at + BLOCK_BYTES >= size
                piece = row(at, whole[at : at + BLOCK_BYTES], end=last, digest=digest if last else b"")
                sent.append(desk.send(blocks(piece)[0]))
                if len(sent) > 32:
                    await sent.pop(0)
            acked = [await task for task in sent]
            assert offset_of(acked[-1]) == size + 1
            assert await following == digest

    async def again() -> None:
        logs = Logs("b", FolderBlobs(tmp_path), expand)
        await logs.refresh()
        taken = hashlib.sha256()
        at = 0
        with logs.open((1, 0, 1, 1, 0)) as reader:
            while data := await reader.read(at):
                taken.update(data)
                at += len(data)
        assert (at, taken.digest()) == (size, digest)

    run(send, 50)
    run(again, 50)
