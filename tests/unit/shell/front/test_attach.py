from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.shell.front.harness import Running, Stream, blocks, run, running, until

from fairlead.model.blocks import Row
from fairlead.shell.blobs.folder import FolderBlobs
from fairlead.shell.front import attach as attach_module

RUNNING = {"state": "running", "attempt": 1, "term": 1}
ENDED = {"state": "succeeded", "exit_code": 0, "output": "complete"}
PATH = "/v1/jobs/j-1/instances/0"


async def write(
    front: Running, offset: int, data: bytes, stream: int = 0, attempt: int = 1, end: bool = False
) -> None:
    row = Row(1, 0, attempt, 1, stream, offset, data, end, b"d" * 32 if end and offset else b"")
    for block in blocks(row):
        await front.site.intake.take(1, block)


async def frames(stream: Stream) -> tuple[list[str], dict[int, bytes], dict[str, Any]]:
    """Everything until the end: the words of the events, the bytes of both logs, the last event."""
    words: list[str] = []
    logs = {1: b"", 2: b""}
    last: dict[str, Any] = {}
    while not last or last["event"] != "end":
        kind, payload = await stream.frame()
        if kind:
            logs[kind] += payload
        else:
            last = json.loads(payload)
            words.append(last["event"])
    assert await stream.piece() == b""
    return words, logs, last


def test_an_attachment_carries_both_logs_and_ends_after_the_output(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.instance(1, 0)
            stream = await front.open("GET", f"{PATH}/attach?out=0&err=0")
            assert (await stream.event())["state"] == "waiting"
            front.control.instance(1, 0, **RUNNING)
            assert (await stream.event())["state"] == "running"
            await write(front, 0, b"hello ")
            assert await stream.frame() == (1, b"hello ")
            await write(front, 0, b"oops", stream=1)
            assert await stream.frame() == (2, b"oops")
            front.control.instance(1, 0, state="succeeded", exit_code=0, output="pending")
            assert (await stream.event())["output"] == "pending"
            await write(front, 6, b"world", end=True)
            assert await stream.frame() == (1, b"world")
            front.control.instance(1, 0, output="complete")
            assert (await stream.event())["output"] == "complete"
            end = await stream.event()
            assert (end["event"], end["exit_code"], end["state"]) == ("end", 0, "succeeded")
            assert await stream.piece() == b""
            stream.close()

    run(work)


def test_an_attachment_resumes_at_its_offsets(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            await write(front, 0, b"hello world")
            await write(front, 0, b"oops", stream=1)
            front.control.instance(1, 0, attempt=1, term=1, **ENDED)
            words, logs, _ = await frames(await front.open("GET", f"{PATH}/attach?out=6&err=4&attempt=1"))
            assert (words, logs) == (["state", "end"], {1: b"world", 2: b""})

    run(work)


def test_a_rerun_is_told_and_its_logs_begin_anew(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.instance(1, 0, **RUNNING)
            stream = await front.open("GET", f"{PATH}/attach?out=0&err=0")
            await stream.event()
            await write(front, 0, b"first try")
            assert await stream.frame() == (1, b"first try")
            front.control.instance(1, 0, attempt=2)
            assert (await stream.event())["event"] == "state"
            assert await stream.event() == {"event": "attempt", "attempt": 2}
            await write(front, 0, b"second", attempt=2)
            assert await stream.frame() == (1, b"second")
            stream.close()

    run(work)


def test_offsets_of_an_older_attempt_do_not_count_for_the_next(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            await write(front, 0, b"second", attempt=2, end=True)
            front.control.instance(1, 0, attempt=2, term=1, **ENDED)
            stream = await front.open("GET", f"{PATH}/attach?out=5&err=0&attempt=1")
            words, logs, _ = await frames(stream)
            assert (words, logs[1]) == (["state", "attempt", "end"], b"second")

    run(work)


def test_beats_come_while_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach_module, "BEAT_S", 0.05)

    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.instance(1, 0, **RUNNING)
            stream = await front.open("GET", f"{PATH}/attach")
            await stream.event()
            assert [await stream.event() for _ in range(3)] == [{"event": "beat"}] * 3
            stream.close()

    run(work)


def test_bytes_that_are_missing_for_good_are_told_and_stepped_over(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            await write(front, 0, b"abc")
            await write(front, 6, b"ghi")
            row = Row(1, 0, 1, 1, 0, 12, b"", True, b"d" * 32)
            await front.site.intake.take(1, blocks(row)[0])
            front.control.instance(1, 0, **RUNNING)
            front.control.instance(1, 0, state="failed", output="incomplete")
            stream = await front.open("GET", f"{PATH}/attach")
            await stream.event()
            assert await stream.frame() == (1, b"abc")
            assert await stream.event() == {"event": "gap", "stream": "out", "offset": 3, "until": 6}
            assert await stream.frame() == (1, b"ghi")
            assert await stream.event() == {"event": "gap", "stream": "out", "offset": 9, "until": 12}
            assert (await stream.event())["output"] == "incomplete"
            stream.close()
            for query in ("", "?follow=1"):
                raw = await front.open("GET", f"{PATH}/logs{query}")
                assert await raw.read(3) == b"abc"
                with pytest.raises(asyncio.IncompleteReadError):
                    await raw.piece()
            gap = await front.call("GET", f"{PATH}/logs?offset=3")
            assert (gap.status, gap.json["code"], gap.json["fix"]) == (410, "gap", "read on with offset=6")

    run(work)


def test_a_log_is_served_as_it_was_written_from_any_offset(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            await write(front, 0, b"a\x00\xff\r\n" * 1_000)
            await write(front, 0, b"err", stream=1)
            front.control.instance(1, 0, **RUNNING)
            answer = await front.call("GET", f"{PATH}/logs")
            assert answer.body == b"a\x00\xff\r\n" * 1_000
            assert answer.headers["x-fairlead-attempt"] == "1"
            assert (await front.call("GET", f"{PATH}/logs?offset=4998")).body == b"\r\n"
            assert (await front.call("GET", f"{PATH}/logs?offset=5000")).body == b""
            assert (await front.call("GET", f"{PATH}/logs?stream=err")).body == b"err"
            assert (await front.call("GET", f"{PATH}/logs?stream=both")).status == 400

    run(work)


def test_a_log_of_an_earlier_attempt_is_still_there(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            await write(front, 0, b"one")
            await write(front, 0, b"two", attempt=2)
            front.control.instance(1, 0, attempt=2, term=1, state="running")
            assert (await front.call("GET", f"{PATH}/logs?attempt=1")).body == b"one"
            assert (await front.call("GET", f"{PATH}/logs?attempt=1&follow=1")).body == b"one"
            assert (await front.call("GET", f"{PATH}/logs")).body == b"two"
            assert (await front.call("GET", f"{PATH}/logs?attempt=7")).body == b""
            assert not front.site.logs._opened

    run(work)


def test_following_a_log_ends_when_it_is_whole(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.instance(1, 0)
            stream = await front.open("GET", f"{PATH}/logs?follow=1")
            front.control.instance(1, 0, **RUNNING)
            await write(front, 0, b"hello ")
            assert await stream.read(6) == b"hello "
            await write(front, 6, b"world", end=True)
            front.control.instance(1, 0, **ENDED)
            assert await stream.all() == b"world"
            stream.close()

    run(work)


def test_what_another_front_took_is_read_here(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "x").mkdir()
        (tmp_path / "y").mkdir()
        shared = FolderBlobs(tmp_path / "blobs")
        async with running(tmp_path / "x", blobs=shared) as one, running(tmp_path / "y", blobs=shared) as two:
            two.control.instance(1, 0, **RUNNING)
            stream = await two.open("GET", f"{PATH}/attach")
            await stream.event()
            await write(one, 0, b"hello", end=True)
            assert await stream.frame() == (1, b"hello")
            two.control.instance(1, 0, **ENDED)
            words, _, last = await frames(stream)
            assert (words, last["exit_code"]) == (["state", "end"], 0)

    run(work)


def test_output_is_read_back_after_the_front_was_restarted(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            await write(front, 0, b"hello", end=True)
        async with running(tmp_path) as front:
            front.control.instance(1, 0, **RUNNING)
            front.control.instance(1, 0, **ENDED)
            assert (await front.call("GET", f"{PATH}/logs")).body == b"hello"
            words, logs, _ = await frames(await front.open("GET", f"{PATH}/attach"))
            assert (words, logs[1]) == (["state", "end"], b"hello")

    run(work)


def test_more_followers_than_the_limit_are_asked_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach_module, "FOLLOWERS", 3)

    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.instance(1, 0, **RUNNING)
            streams = [await front.open("GET", f"{PATH}/attach") for _ in range(3)]
            for stream in streams:
                await stream.event()
            refused = await front.call("GET", f"{PATH}/attach")
            assert (refused.status, refused.json["retryable"]) == (429, True)
            assert refused.headers["retry-after"] == "2"
            streams[0].close()
            await until(lambda: front.site.followers == 2)
            (await front.open("GET", f"{PATH}/attach")).close()
            for stream in streams:
                stream.close()
            await until(lambda: front.site.followers == 0)
            assert not front.site.logs._opened and not front.site.feed._instances

    run(work)


def test_hundreds_of_followers_get_every_byte_and_ask_control_seldom(tmp_path: Path) -> None:
    followers, rounds = 200, 20

    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.instance(1, 0, **RUNNING)
            streams = [await front.open("GET", f"{PATH}/attach") for _ in range(followers)]
            reading = [asyncio.create_task(frames(stream)) for stream in streams]
            for n in range(rounds):
                await write(front, n * 1_000, b"%03d\n" % n * 250, end=n == rounds - 1)
            front.control.instance(1, 0, **ENDED)
            whole = b"".join(b"%03d\n" % n * 250 for n in range(rounds))
            for _, logs, last in await asyncio.gather(*reading):
                assert logs[1] == whole
                assert last["exit_code"] == 0
            looks = len(front.control.asked) / followers
            assert looks < rounds / 2, looks

    run(work)


def test_a_reader_that_stands_still_holds_up_nobody(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.instance(1, 0, **RUNNING)
            still = await front.open("GET", f"{PATH}/attach")
            quick = await front.open("GET", f"{PATH}/attach")
            reading = asyncio.create_task(frames(quick))
            piece = bytes(range(256)) * 1_000
            for n in range(60):
                await write(front, n * len(piece), piece, end=n == 59)
            front.control.instance(1, 0, **ENDED)
            _, logs, _ = await reading
            assert logs[1] == piece * 60
            _, late, _ = await frames(still)
            assert late[1] == piece * 60

    run(work)


def test_a_front_that_stops_cuts_its_streams_without_an_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.instance(1, 0, **RUNNING)
            stream = await front.open("GET", f"{PATH}/attach")
            await stream.event()
            front.stop.set()
            assert await stream.piece() == b""

    run(work)
