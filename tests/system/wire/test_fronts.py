"""A front's link to whoever leads: asks, answers, and following the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.system.wire.ends import (
    HOST,
    Events,
    Papers,
    Proxy,
    is_server,
    run,
    serve,
    until,
)

from fairlead.model.changes import FORMAT, AgentWanted, Part
from fairlead.model.errors import Problem
from fairlead.model.requests import (
    Accepted,
    Answer,
    Cancel,
    Changed,
    Elsewhere,
    Follow,
    Following,
    Look,
    Seen,
    Submit,
    Told,
)
from fairlead.plane.words import Asked, Unlinked
from fairlead.shell.wire.fronts import FrontDoor
from fairlead.shell.wire.link import ControlLink


class Plane:
    """A control with a log, at a port of its own; it leads, or knows who does."""

    def __init__(self) -> None:
        self.leader: str | None = None
        self.silent = False
        self.floor = 0
        self.log: list[Part] = []
        self.asked: list[Any] = []
        self.following: dict[int, int] = {}
        self.door = FrontDoor(self._event, is_server)

    async def start(self, papers: Papers, port: int = 0) -> str:
        self.listening = await serve(papers, self.door, port=port)
        self.address = f"{HOST}:{self.listening.port}"
        return self.address

    async def stop(self) -> None:
        await self.listening.close()

    def commit(self) -> Part:
        part = Part(FORMAT, len(self.log), len(self.log), False, 1, 0, [])
        self.log.append(part)
        for link in self.following:
            self.door.tell(link, Told(part))
        return part

    def _event(self, event: Asked | Unlinked) -> None:
        if isinstance(event, Unlinked):
            self.following.pop(event.link, None)
            return
        ask = event.ask
        self.asked.append(ask.request)
        if self.leader is not None:
            self.door.answer(event.link, Answer(ask.id, Elsewhere(self.leader)))
        elif isinstance(ask.request, Follow):
            self._follow(event.link, ask.id, ask.request.since)
        elif not self.silent:
            self.door.answer(event.link, Answer(ask.id, Changed([str(ask.request)], ["ok"])))

    def _follow(self, link: int, number: int, since: int) -> None:
        start = len(self.log) if since < 0 else max(since, self.floor)
        self.door.answer(link, Answer(number, Following(start, 0 <= since < start)))
        for part in self.log[start:]:
            self.door.tell(link, Told(part))
        self.following[link] = start


def change(name: str) -> Cancel:
    return Cancel([name], "t", 1)


@asynccontextmanager
async def planes(papers: Papers, count: int) -> AsyncIterator[tuple[list[Plane], ControlLink]]:
    several = [Plane() for _ in range(count)]
    link = ControlLink(
        [await plane.start(papers) for plane in several], lambda: papers.front, name="fairlead"
    )
    try:
        yield several, link
    finally:
        await link.close()
        for plane in several:
            await plane.stop()


def test_asks_are_answered_each_with_its_own_reply(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 1) as ([plane], link):
            asks = [change(f"job-{number}") for number in range(500)]
            replies = await asyncio.gather(*(link.ask(ask) for ask in asks))
            assert replies == [Changed([str(ask)], ["ok"]) for ask in asks]
            assert plane.asked == asks

    run(test)


def test_requests_and_replies_of_every_shape_arrive_whole(papers: Papers) -> None:
    async def test() -> None:
        events = Events()
        door = FrontDoor(events, is_server)
        listening = await serve(papers, door)
        link = ControlLink([f"{HOST}:{listening.port}"], lambda: papers.front, name="fairlead")
        request = Submit("key", "digest", "name", "t", "me", [b"\x00spec"])
        replies: list[Any] = [
            Accepted("s-1", ["j-1"], ["a"]),
            Seen([{"a": [1, {"b": None}], "c": 1.5}], 7),
            Problem("busy", "no", retryable=True),
        ]
        for number, reply in enumerate(replies, 1):
            waiting = asyncio.create_task(link.ask(request))
            asked = await events.until(Asked, number)
            assert asked.ask.request == request
            door.answer(asked.link, Answer(asked.ask.id, reply))
            assert await waiting == reply
        await link.close()
        await events.until(Unlinked)
        await listening.close()

    run(test)


def test_a_follower_of_the_leader_sends_the_ask_to_the_leader(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 3) as ([first, second, third], link):
            first.leader = second.leader = third.address
            assert await link.ask(change("a")) == Changed([str(change("a"))], ["ok"])
            assert third.asked == [change("a")]

    run(test)


def test_an_ask_is_repeated_after_the_leader_moved(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 2) as ([old, new], link):
            new.leader = old.address
            assert isinstance(await link.ask(change("before")), Changed)
            old.silent = True
            waiting = [asyncio.create_task(link.ask(change(str(number)))) for number in range(20)]
            await until(lambda: len(old.asked) == 21)
            new.leader = None
            await old.stop()
            replies = await asyncio.gather(*waiting)
            assert replies == [Changed([str(change(str(number)))], ["ok"]) for number in range(20)]
            assert [ask.names for ask in new.asked if isinstance(ask, Cancel)][-20:] == [
                [str(number)] for number in range(20)
            ]

    run(test)


def test_a_leader_that_fell_silent_without_a_word_is_given_up(papers: Papers) -> None:
    """Its machine is gone: the connection stands, and pings are not answered."""

    async def test() -> None:
        async with planes(papers, 2) as ([old, new], _):
            proxy = Proxy(old.listening.port)
            addresses = [new.address, await proxy.start()]
            link = ControlLink(addresses, lambda: papers.front, name="fairlead", ping_ms=200)
            assert isinstance(await link.ask(change("before")), Changed)
            assert old.asked
            proxy.carries = False
            assert isinstance(await link.ask(change("after")), Changed)
            assert new.asked == [change("after")]
            await link.close()
            await proxy.stop()

    run(test)


def test_an_ask_waits_until_somebody_leads(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 2) as ([one_, two], link):
            one_.leader = two.leader = ""
            waiting = asyncio.create_task(link.ask(change("a")))
            await until(lambda: len(one_.asked) + len(two.asked) >= 3)
            assert not waiting.done()
            two.leader, one_.leader = None, two.address
            assert isinstance(await waiting, Changed)

    run(test)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_leader_is_found_though_nobody_knows_it(papers: Papers, place: int) -> None:
    async def test() -> None:
        async with planes(papers, 3) as (several, link):
            for plane in several:
                plane.leader = ""
            several[place].leader = None
            await several[place - 1].stop()
            assert isinstance(await link.ask(change("a")), Changed)
            assert several[place].asked == [change("a")]

    run(test)


def test_nobody_in_time_is_a_problem_that_can_be_tried_again(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 1) as ([plane], link):
            plane.silent = True
            reply = await link.ask(change("a"), timeout_ms=100)
            assert isinstance(reply, Problem)
            assert reply.code == "no_control"
            assert reply.retryable
            plane.silent = False
            assert isinstance(await link.ask(change("b")), Changed)

    run(test)


def test_what_is_too_large_is_refused_by_either_end_and_breaks_nothing(papers: Papers) -> None:
    async def test() -> None:
        events = Events()
        door = FrontDoor(events, is_server)
        listening = await serve(papers, door)
        link = ControlLink([f"{HOST}:{listening.port}"], lambda: papers.front, name="fairlead")
        reply = await link.ask(Submit("k", "d", "n", "t", "c", [bytes(5 << 20)]))
        assert isinstance(reply, Problem)
        assert reply.code == "too_large"
        waiting = asyncio.create_task(link.ask(Look("jobs", "t")))
        asked = await events.until(Asked)
        door.answer(asked.link, Answer(asked.ask.id, Seen([{"a": "x" * (5 << 20)}])))
        reply = await waiting
        assert isinstance(reply, Problem)
        assert reply.code == "too_large"
        await link.close()
        await listening.close()

    run(test)


def test_following_goes_on_after_cuts_without_gap_or_duplicate(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 2) as ([old, new], link):
            new.leader = old.address
            for _ in range(5):
                new.log.append(old.commit())
            following = link.follow(2)
            seen: list[int] = []

            async def take(count: int) -> None:
                for _ in range(count):
                    part = await anext(following)
                    assert isinstance(part, Part)
                    seen.append(part.n)

            await take(3)
            for _ in range(3):
                await until(lambda: bool(old.following))
                (cut,) = old.following
                new.log.append(old.commit())
                old.door.hang_up(cut)
                new.log.append(old.commit())
                await take(2)
                await until(lambda gone=cut: gone not in old.following)
            new.leader = None
            new.commit()
            await old.stop()
            await take(1)
            new.commit()
            await take(1)
            assert seen == list(range(2, 13))
            await following.aclose()

    run(test)


def test_following_from_now_says_nothing_of_the_past_and_goes_on_from_there(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 1) as ([plane], link):
            for _ in range(4):
                plane.commit()
            following = link.follow(-1)
            first = asyncio.create_task(anext(following))
            await until(lambda: bool(plane.following))
            plane.commit()
            part = await first
            assert isinstance(part, Part)
            assert part.n == 4
            for each in list(plane.following):
                plane.door.hang_up(each)
                plane.commit()
            part = await anext(following)
            assert isinstance(part, Part)
            assert part.n == 5
            await following.aclose()

    run(test)


def test_where_segments_are_gone_the_follower_is_told_to_look_anew(papers: Papers) -> None:
    async def test() -> None:
        async with planes(papers, 1) as ([plane], link):
            for _ in range(6):
                plane.commit()
            plane.floor = 4
            following = link.follow(1)
            assert await anext(following) == Following(4, True)
            assert [await anext(following) for _ in range(2)] == plane.log[4:]
            await following.aclose()

    run(test)


def test_asks_are_answered_while_the_follower_takes_nothing(papers: Papers) -> None:
    """More segments than may wait for it are dropped, and asked for again when it takes on."""

    async def test() -> None:
        async with planes(papers, 1) as ([plane], link):
            following = link.follow(0)
            plane.commit()
            await anext(following)
            big = "x" * (1 << 20)
            for n in range(1, 41):
                plane.log.append(_large(n, big))
                for each in plane.following:
                    plane.door.tell(each, Told(plane.log[-1]))
                assert isinstance(await link.ask(change("a")), Changed)
            follows = sum(isinstance(ask, Follow) for ask in plane.asked)
            assert follows == 1
            seen = []
            for _ in range(40):
                part = await anext(following)
                assert isinstance(part, Part)
                seen.append(part.n)
            assert seen == list(range(1, 41))
            assert sum(isinstance(ask, Follow) for ask in plane.asked) == 2
            await following.aclose()

    run(test)


def _large(n: int, text: str) -> Part:
    return Part(FORMAT, n, n, False, 1, 0, [AgentWanted(1, 1, text)])
