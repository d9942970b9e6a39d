from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.shell.front.harness import MemoryControl, Running, Stream, run, running, until

from fairlead.model import changes
from fairlead.model.keys import Keys, one
from fairlead.shell.front import waiting
from fairlead.shell.front.routes_events import shown

ENDED = changes.Closed(Keys([1, 2], [0, 5], [3, 1], [0, 0]), [3, 3], [18, 18])


class Events:
    """Server-sent events of one stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._left = b""

    async def next(self) -> dict[str, Any]:
        while True:
            while b"\n\n" not in self._left:
                self._left += await self.stream.piece()
            text, self._left = self._left.split(b"\n\n", 1)
            fields = dict(line.split(": ", 1) for line in text.decode().split("\n") if line[0] != ":")
            if fields:
                return {"id": fields["id"], "event": fields["event"], "data": json.loads(fields["data"])}


async def follow(front: Running, query: str = "", last: str = "") -> Events:
    headers = {"Last-Event-ID": last} if last else {}
    stream = await front.open("GET", f"/v1/events{query}", headers=headers)
    assert (stream.status, stream.headers["content-type"][:17]) == (200, "text/event-stream")
    return Events(stream)


def test_every_durable_change_is_told_once_with_its_number(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            events = await follow(front)
            front.control.tell(ENDED, changes.CancelWanted([33], [10]))
            first, second = await events.next(), await events.next()
            assert (first["id"], first["event"], first["data"]["type"]) == ("1.0", "closed", "closed")
            assert first["data"]["at"] == 1_000
            assert first["data"]["keys"][1] == {"job": "j-2", "first": 5, "count": 1, "attempt": 0}
            assert (second["id"], second["data"]["job"]) == ("1.1", ["j-11"])

    run(work)


def test_who_comes_back_goes_on_behind_the_last_event(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            for job in range(1, 4):
                front.control.tell(changes.CancelWanted([job], [10]), changes.CancelWanted([job + 10], [10]))
            await until(lambda: front.site.feed.head == 3)
            events = await follow(front, last="2.0")
            assert [(await events.next())["id"] for _ in range(3)] == ["2.1", "3.0", "3.1"]
            events = await follow(front, "?since=3.0")
            assert (await events.next())["id"] == "3.1"
            fresh = await follow(front)
            front.control.tell(ENDED)
            assert (await fresh.next())["id"] == "4.0"
            assert (await front.call("GET", "/v1/events?since=yesterday")).status == 400

    run(work)


def test_who_asks_for_more_than_is_kept_is_told_to_look_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "KEPT_ROWS", 10)

    async def work() -> None:
        async with running(tmp_path) as front:
            for job in range(1, 31):
                front.control.tell(changes.CancelWanted([job], [10]))
            await until(lambda: front.site.feed.head == 30)
            events = await follow(front, last="3.0")
            said = await events.next()
            assert said["event"] == "resync"
            after = [(await events.next())["id"] for _ in range(5)]
            assert after == [f"{n}.0" for n in range(26, 31)]

    run(work)


def test_a_gap_in_the_segments_is_a_resync_for_who_follows(tmp_path: Path) -> None:
    async def work() -> None:
        control = MemoryControl(floor=40)
        async with running(tmp_path, control) as front:
            events = await follow(front, last="7.0")
            assert (await events.next())["event"] == "resync"
            control.tell(ENDED)
            assert (await events.next())["id"] == "40.0"

    run(work)


def test_parts_without_their_last_one_are_void(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            events = await follow(front)
            front.control.tell(changes.CancelWanted([1], [10]), more=True, batch=1)
            front.control.tell(changes.CancelWanted([2], [10]), more=True, batch=2)
            front.control.tell(changes.CancelWanted([3], [10]), batch=2)
            assert [(await events.next())["data"]["job"] for _ in range(2)] == [["j-2"], ["j-3"]]

    run(work)


def test_events_are_filtered_by_type_and_job(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            closed = await follow(front, "?type=closed")
            mine = await follow(front, "?job=j-7")
            front.control.tell(changes.CancelWanted([7], [10]), ENDED)
            front.control.tell(changes.Closed(one(7, 0, 0), [3], [1]))
            assert [(await closed.next())["id"] for _ in range(2)] == ["1.1", "2.0"]
            assert [(await mine.next())["id"] for _ in range(2)] == ["1.0", "2.0"]
            assert (await front.call("GET", "/v1/events?job=build")).status == 400

    run(work)


def test_no_event_carries_a_digest_or_a_body(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            events = await follow(front)
            front.control.tell(
                changes.SpecsAdded(["h"], [b"secret"]), changes.TokenAdded("t", "dd", "view", "", 1, 0)
            )
            said = await events.next()
            assert said["id"] == "1.1"
            assert "dd" not in json.dumps(said)

    run(work)


def test_every_kind_of_change_can_be_shown() -> None:
    keys = one(1, 0, 1)
    samples = [
        changes.Submitted(1, "ci", "t", "k", "d", "me", [1], ["h"], [[(2, "success")]]),
        changes.Placed(keys, [1]),
        changes.Ended(keys, [1], [1], [1], [0], [1], [2], [1], [2], [0]),
        changes.OutputDone(keys, [2], [3], [4]),
        changes.AgentAdded(1, "a", "t"),
        changes.AgentBooted(1, "b", "m"),
        changes.AgentWanted(1, 2, ""),
        changes.TokenRevoked("t"),
    ]
    for change in samples:
        assert json.loads(json.dumps(shown(change)))
