"""The stores under the contract suite, each with the ways in which its world can go wrong.

A rig gives handles on one store, ends a lead behind its holder's back, loses answers, delivers requests late,
and takes the room away. The suite sees only this.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from tests.contracts.cut_proxy import CutProxy
from tests.contracts.etcd_members import Etcd

from fairlead.model.errors import Problem
from fairlead.model.storage import (
    Answer,
    Campaign,
    Commit,
    Committed,
    Deposed,
    Elected,
    Fence,
    Load,
    Loaded,
    Op,
    Trim,
    Unanswered,
)
from fairlead.shell.store.choose import Store
from fairlead.shell.store.etcd import open_etcd
from fairlead.shell.store.etcd_calls import Address
from fairlead.shell.store.sqlite import DATABASE, LOCK, open_sqlite
from fairlead.sim.storage import Fate, Handle, Truth

LEASE_MS = 1_000
LONG_LEASE_MS = 20_000
BOUND_S = 15.0
LARGEST = 8 << 20
"""Bytes that a small store takes."""
# A campaign looks and gets a lease before it takes the lead: the request that matters is the third.
REQUESTS_BEFORE: dict[type, int] = {Campaign: 2}


class MemoryStore:
    """A handle of the simulator's store behind the interface of the real ones."""

    def __init__(self, rig: MemoryRig) -> None:
        self._rig = rig
        self.handle: Handle = rig.truth.handle()
        self.site = rig.truth.site
        self.generation = rig.truth.generation

    async def perform(self, op: Op) -> Answer:
        """The op meets the fate that the rig has for it."""
        return self.handle.perform(op, self._rig.now, self._rig.next_fate(op))

    async def close(self) -> None:
        """A handle is nothing that must be closed."""


AnyStore = Store | MemoryStore


class Rig(ABC):
    """One store, and what can happen to it."""

    @abstractmethod
    async def open(self) -> AnyStore:
        """One more handle, as another process would have it."""

    @abstractmethod
    async def lose(self, store: AnyStore) -> None:
        """The lead of this handle ends without its doing; returns when another may win it."""

    @abstractmethod
    async def pass_time(self, ms: int) -> None:
        """Let a lease run for so long."""

    async def fill(self, leader: AnyStore, head: int) -> int:
        """Commit until the store has no room even for little; the new head."""
        for size in (1 << 18, 1 << 14, 1 << 12, 1 << 8):
            while (answer := await leader.perform(Commit(head + 1, bytes(size)))) == Committed(head + 1):
                head += 1
            assert answer == Unanswered("nospace")
            assert (await loaded(leader)).head == head
        return head

    @abstractmethod
    async def close(self) -> None:
        """Take everything down."""


class LossyRig(Rig):
    """A store behind a wire."""

    @abstractmethod
    def cut_answer(self, op: Op) -> None:
        """This op, given next, takes effect, and its answer is lost."""

    @abstractmethod
    def hold(self, op: Op) -> None:
        """This op, given next, is unanswered and stays on its way; later ones pass it."""

    @abstractmethod
    async def deliver(self) -> None:
        """What is on its way arrives now."""


class MemoryRig(LossyRig):
    """The simulator's model."""

    def __init__(self) -> None:
        self.now = 0
        self.truth = Truth("site-of-the-suite")
        self._fate = Fate.ANSWERED

    def next_fate(self, op: Op) -> Fate:
        """The fate of the op that is given now."""
        fate, self._fate = self._fate, Fate.ANSWERED
        held = sum(map(len, self.truth.segments.values()))
        return Fate.NO_SPACE if isinstance(op, Commit) and held + len(op.segment) > LARGEST else fate

    async def open(self) -> AnyStore:
        return MemoryStore(self)

    async def lose(self, store: AnyStore) -> None:
        self.now += LEASE_MS

    async def pass_time(self, ms: int) -> None:
        self.now += ms

    async def close(self) -> None:
        assert not self.truth.delayed

    def cut_answer(self, op: Op) -> None:
        self._fate = Fate.ANSWER_LOST

    def hold(self, op: Op) -> None:
        self._fate = Fate.DELAYED

    async def deliver(self) -> None:
        while self.truth.delayed:
            self.truth.deliver(0, self.now)


class SqliteRig(Rig):
    """A folder; its lead is lost when somebody takes the lock file away."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stores: list[AnyStore] = []

    async def open(self) -> AnyStore:
        store = open_sqlite(self.folder, LARGEST)
        assert not isinstance(store, Problem), store
        self._stores.append(store)
        return store

    async def lose(self, store: AnyStore) -> None:
        (self.folder / LOCK).unlink()

    async def pass_time(self, ms: int) -> None:
        """A lock knows no time: it lasts as long as its process."""

    async def close(self) -> None:
        for store in self._stores:
            await store.close()
        assert (self.folder / DATABASE).exists()


class EtcdRig(LossyRig):
    """A prefix of a real etcd, behind a proxy; its lead is lost when its lease runs out."""

    def __init__(self, etcd: Etcd, prefix: str) -> None:
        self.etcd = etcd
        self.prefix = prefix
        self._proxy = CutProxy(etcd.endpoints[0])
        self._stores: list[AnyStore] = []

    async def start(self) -> None:
        """Put the proxy in place."""
        await self._proxy.start()

    async def open(self) -> AnyStore:
        store = await open_etcd(Address([self._proxy.endpoint], self.prefix), deadline_ms=2_000)
        assert not isinstance(store, Problem), store
        self._stores.append(store)
        return store

    async def pass_time(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    async def lose(self, store: AnyStore) -> None:
        await until(store, Trim(0), lambda answer: answer == Deposed())

    def cut_answer(self, op: Op) -> None:
        self._proxy.cut_answer(after=REQUESTS_BEFORE.get(type(op), 0))

    def hold(self, op: Op) -> None:
        self._proxy.hold_request(after=REQUESTS_BEFORE.get(type(op), 0))

    async def deliver(self) -> None:
        assert await self._proxy.release()

    async def close(self) -> None:
        for store in self._stores:
            await store.close()
        await self._proxy.stop()


async def until(store: AnyStore, op: Op, good: Callable[[Answer], bool]) -> Answer:
    """Repeat an op until its answer is good; a bounded wait for a condition."""
    deadline = time.monotonic() + BOUND_S
    while time.monotonic() < deadline:
        answer = await store.perform(op)
        if good(answer):
            return answer
        await asyncio.sleep(0.02)
    raise AssertionError(f"{op} is still answered {answer} after {BOUND_S} s")


async def answer_to(store: AnyStore, op: Op) -> Answer:
    """Repeat an op until it is answered, as a plane does."""
    return await until(store, op, lambda answer: not isinstance(answer, Unanswered))


async def elected(store: AnyStore, address: str = "here:1", lease_ms: int = LONG_LEASE_MS) -> Fence:
    """Campaign until the lead is won."""
    answer = await until(store, Campaign(address, lease_ms), lambda answer: isinstance(answer, Elected))
    assert isinstance(answer, Elected)
    return answer.fence


async def loaded(store: AnyStore) -> Loaded:
    """What the store holds."""
    answer = await until(store, Load(), lambda answer: isinstance(answer, Loaded))
    assert isinstance(answer, Loaded)
    return answer


async def commit(store: AnyStore, n: int, segment: bytes = b"") -> None:
    """Append one segment, whose answer must be good at once."""
    assert await store.perform(Commit(n, segment or b"segment %d" % n)) == Committed(n)
