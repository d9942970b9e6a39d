"""One suite for every store: the simulator's model, SQLite, and a real etcd behind a proxy that cuts and delays."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.contracts.etcd_members import Etcd, running_etcd
from tests.contracts.store_rigs import (
    LARGEST,
    LEASE_MS,
    LONG_LEASE_MS,
    EtcdRig,
    LossyRig,
    MemoryRig,
    Rig,
    SqliteRig,
    answer_to,
    commit,
    elected,
    loaded,
)

from fairlead.model.storage import (
    LARGEST_WRITE,
    Campaign,
    Commit,
    Committed,
    Deposed,
    Done,
    Elected,
    Follower,
    Load,
    Loaded,
    Op,
    Put,
    Renew,
    Renewed,
    Resign,
    Trim,
    Unanswered,
    WrongHead,
)

pytestmark = pytest.mark.anyio
ETCD = pytest.param("etcd", marks=pytest.mark.servers)
SMALL_ETCD = pytest.param("small_etcd", marks=pytest.mark.servers)
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running


@pytest.fixture(scope="module")
def small_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    quota = f"--quota-backend-bytes={LARGEST}"
    with running_etcd(tmp_path_factory.mktemp("small"), flags=[quota]) as running:
        yield running


async def make_rig(kind: str, folder: Path, request: pytest.FixtureRequest) -> Rig:
    if kind == "memory":
        return MemoryRig()
    if kind == "sqlite":
        return SqliteRig(folder)
    rig = EtcdRig(request.getfixturevalue(kind), f"suite-{next(NUMBERS)}/")
    await rig.start()
    return rig


@pytest.fixture(params=["memory", "sqlite", ETCD])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    made = await make_rig(request.param, tmp_path, request)
    yield made
    await made.close()


@pytest.fixture(params=["memory", "sqlite", SMALL_ETCD])
async def small(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    made = await make_rig(request.param, tmp_path, request)
    yield made
    await made.close()


@pytest.fixture(params=["memory", ETCD])
async def lossy(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LossyRig]:
    made = await make_rig(request.param, tmp_path, request)
    assert isinstance(made, LossyRig)
    yield made
    await made.close()


WRITES: list[Op] = [Put({"key": b"value"}), Commit(1, b"segment"), Trim(5)]


# What stands in a store.


async def test_a_fresh_store_is_empty(rig: Rig) -> None:
    store = await rig.open()
    assert await store.perform(Load()) == Loaded({}, [], 0)


async def test_commits_are_loaded_in_order(rig: Rig) -> None:
    store = await rig.open()
    await elected(store)
    for n in range(1, 21):
        await commit(store, n)
    state = await loaded(store)
    assert state.head == 20
    assert state.segments == [(n, b"segment %d" % n) for n in range(1, 21)]


async def test_values_are_written_replaced_and_deleted_together(rig: Rig) -> None:
    store = await rig.open()
    await elected(store)
    assert await store.perform(Put({"job/1": b"one", "job/2": b"two", "köy/é": b""})) == Done()
    assert await store.perform(Put({"job/1": None, "job/2": b"again", "never": None})) == Done()
    assert (await loaded(store)).values == {"job/2": b"again", "köy/é": b""}


async def test_a_put_may_name_thousands_of_keys(rig: Rig) -> None:
    store = await rig.open()
    await elected(store)
    values: dict[str, bytes | None] = {f"page/{n}": b"%d" % n for n in range(6_000)}
    assert await store.perform(Put(values)) == Done()
    assert (await loaded(store)).values == values


async def test_the_largest_write_fits_and_a_larger_one_is_refused(rig: Rig) -> None:
    store = await rig.open()
    await elected(store)
    largest = bytes(LARGEST_WRITE)
    await commit(store, 1, largest)
    assert await store.perform(Put({"k": largest[1:]})) == Done()
    for op in (Commit(2, largest + b"!"), Put({"k": largest})):
        with pytest.raises(ValueError, match="above the limit"):
            await store.perform(op)
    state = await loaded(store)
    assert (state.head, state.segments, state.values) == (1, [(1, largest)], {"k": largest[1:]})


async def test_trimmed_segments_are_gone_and_the_head_stays(rig: Rig) -> None:
    store = await rig.open()
    await elected(store)
    for n in range(1, 6):
        await commit(store, n)
    for below, left in ((0, [1, 2, 3, 4, 5]), (4, [4, 5]), (2, [4, 5]), (6, [])):
        assert await store.perform(Trim(below)) == Done()
        state = await loaded(store)
        assert ([n for n, _ in state.segments], state.head) == (left, 5)
    await commit(store, 6)


async def test_another_handle_finds_what_one_has_written(rig: Rig) -> None:
    first = await rig.open()
    fence = await elected(first)
    await first.perform(Put({"key": b"value"}))
    await commit(first, 1)
    assert await first.perform(Resign()) == Done()
    second = await rig.open()
    assert (second.site, second.generation) == (fence.site, fence.generation)
    assert await loaded(second) == Loaded({"key": b"value"}, [(1, b"segment 1")], 1)
    await elected(second)
    await commit(second, 2)


async def test_a_follower_may_load(rig: Rig) -> None:
    leader, follower = await rig.open(), await rig.open()
    await elected(leader)
    await commit(leader, 1)
    assert (await loaded(follower)).head == 1


# The head of the log.


async def test_a_commit_that_does_not_follow_the_head_is_a_fault_of_the_caller(rig: Rig) -> None:
    store = await rig.open()
    await elected(store)
    await commit(store, 1)
    for n in (0, 3, 7):
        with pytest.raises(WrongHead):
            await store.perform(Commit(n, b"no"))
    await commit(store, 2)
    for n, segment in ((1, b"segment 1"), (2, b"other bytes")):
        with pytest.raises(WrongHead):
            await store.perform(Commit(n, segment))
    assert (await loaded(store)).segments == [(1, b"segment 1"), (2, b"segment 2")]


async def test_a_repeated_commit_stands_once(rig: Rig) -> None:
    store = await rig.open()
    await elected(store)
    for n in (1, 1, 2, 2, 2):
        await commit(store, n)
    assert (await loaded(store)).segments == [(1, b"segment 1"), (2, b"segment 2")]


# Who leads.


@pytest.mark.parametrize("op", [*WRITES, Renew(), Resign()])
async def test_without_the_lead_nothing_is_written(rig: Rig, op: Op) -> None:
    never, follower, leader = await rig.open(), await rig.open(), await rig.open()
    await elected(leader)
    await commit(leader, 1)
    assert await follower.perform(Campaign("f:1", LEASE_MS)) == Follower("here:1")
    for store in (never, follower):
        assert await store.perform(op) == Deposed()
    assert await loaded(leader) == Loaded({}, [(1, b"segment 1")], 1)
    assert await leader.perform(Renew()) == Renewed()


async def test_a_follower_is_told_who_leads(rig: Rig) -> None:
    first, second = await rig.open(), await rig.open()
    await elected(first, "first:7411")
    assert await second.perform(Campaign("second:7411", LEASE_MS)) == Follower("first:7411")
    await first.perform(Resign())
    await elected(second, "second:7411")
    assert await first.perform(Campaign("first:7411", LEASE_MS)) == Follower("second:7411")


async def test_of_many_that_campaign_at_once_one_is_elected(rig: Rig) -> None:
    stores = [await rig.open() for _ in range(4)]
    answers = await asyncio.gather(*(store.perform(Campaign("x:1", LEASE_MS)) for store in stores))
    assert sum(isinstance(answer, Elected) for answer in answers) == 1


async def test_terms_grow_whoever_leads(rig: Rig) -> None:
    terms = []
    for _ in range(5):
        store = await rig.open()
        terms.append((await elected(store)).term)
        await store.perform(Resign())
    assert terms == sorted(set(terms))


async def test_the_lead_is_free_as_soon_as_it_is_resigned(rig: Rig) -> None:
    first, second = await rig.open(), await rig.open()
    await elected(first)
    assert await first.perform(Resign()) == Done()
    assert isinstance(await second.perform(Campaign("s:1", LEASE_MS)), Elected)
    for op in [*WRITES, Renew(), Resign()]:
        assert await first.perform(op) == Deposed()
    assert await loaded(second) == Loaded({}, [], 0)


async def test_a_leader_that_campaigns_again_gets_a_term_of_its_own(rig: Rig) -> None:
    store = await rig.open()
    first = await elected(store)
    await commit(store, 1)
    answer = await store.perform(Campaign("here:1", LEASE_MS))
    assert isinstance(answer, Elected)
    assert answer.fence > first
    await commit(store, 2)


async def test_a_lead_that_was_lost_unnoticed_writes_nothing(rig: Rig) -> None:
    old, new = await rig.open(), await rig.open()
    before = await elected(old, lease_ms=LEASE_MS)
    await commit(old, 1)
    await rig.lose(old)
    for op in (*WRITES, Renew()):
        assert await old.perform(op) == Deposed()
    after = await elected(new)
    assert after > before
    await commit(new, 2)
    for op in (Put({"key": b"late"}), Commit(3, b"late"), Trim(3), Renew(), Resign()):
        assert await old.perform(op) == Deposed()
    assert await loaded(new) == Loaded({}, [(1, b"segment 1"), (2, b"segment 2")], 2)
    await commit(new, 3)


async def test_a_renewed_lease_outlives_its_length(rig: Rig) -> None:
    leader, other = await rig.open(), await rig.open()
    await elected(leader, lease_ms=2 * LEASE_MS)
    for _ in range(5):
        await rig.pass_time(LEASE_MS // 2)
        assert await leader.perform(Renew()) == Renewed()
        assert await other.perform(Campaign("o:1", LEASE_MS)) == Follower("here:1")
    await commit(leader, 1)


async def test_both_lines_work_at_once(rig: Rig) -> None:
    store = await rig.open()
    await elected(store)

    async def write() -> None:
        for n in range(1, 41):
            await commit(store, n)

    async def renew() -> None:
        for _ in range(40):
            assert await store.perform(Renew()) == Renewed()

    await asyncio.gather(write(), renew())
    assert (await loaded(store)).head == 40


# Answers that are lost, and requests that come late.


async def test_a_cut_answer_is_repeated_and_applies_once(lossy: LossyRig) -> None:
    store = await lossy.open()
    await elected(store)
    for n in range(1, 4):
        op = Commit(n, b"segment %d" % n)
        lossy.cut_answer(op)
        assert isinstance(await store.perform(op), Unanswered)
        assert await answer_to(store, op) == Committed(n)
    assert (await loaded(store)).segments == [(n, b"segment %d" % n) for n in range(1, 4)]


async def test_a_put_whose_answer_is_cut_may_be_repeated(lossy: LossyRig) -> None:
    store = await lossy.open()
    await elected(store)
    await store.perform(Put({"gone": b"soon"}))
    op = Put({"key": b"value", "gone": None})
    lossy.cut_answer(op)
    assert isinstance(await store.perform(op), Unanswered)
    assert await answer_to(store, op) == Done()
    assert (await loaded(store)).values == {"key": b"value"}


async def test_a_campaign_whose_answer_is_cut_is_won_under_a_later_term(lossy: LossyRig) -> None:
    store, other = await lossy.open(), await lossy.open()
    first = await elected(other)
    await other.perform(Resign())
    op = Campaign("here:1", LONG_LEASE_MS)
    lossy.cut_answer(op)
    assert isinstance(await store.perform(op), Unanswered)
    assert await other.perform(Campaign("o:1", LEASE_MS)) == Follower("here:1")
    assert await store.perform(Commit(1, b"segment 1")) == Deposed()
    again = await answer_to(store, op)
    assert isinstance(again, Elected)
    assert again.fence.term > first.term + 1
    await commit(store, 1)


async def test_a_late_put_never_undoes_a_newer_one(lossy: LossyRig) -> None:
    store = await lossy.open()
    await elected(store)
    late = Put({"key": b"older", "other": b"older"})
    lossy.hold(late)
    assert isinstance(await store.perform(late), Unanswered)
    assert await answer_to(store, Renew()) == Renewed()
    assert await store.perform(Put({"key": b"newer"})) == Done()
    await lossy.deliver()
    assert (await loaded(store)).values == {"key": b"newer"}


async def test_a_late_put_alone_takes_effect(lossy: LossyRig) -> None:
    """The proof that the late ones of this suite do arrive: unanswered is not failed."""
    store = await lossy.open()
    await elected(store)
    late = Put({"key": b"late"})
    lossy.hold(late)
    assert isinstance(await store.perform(late), Unanswered)
    assert (await loaded(store)).values == {}
    assert await answer_to(store, Renew()) == Renewed()
    await lossy.deliver()
    assert (await loaded(store)).values == {"key": b"late"}


async def test_a_late_commit_does_not_disturb_the_log(lossy: LossyRig) -> None:
    store = await lossy.open()
    await elected(store)
    late = Commit(1, b"segment 1")
    lossy.hold(late)
    assert isinstance(await store.perform(late), Unanswered)
    assert await answer_to(store, Renew()) == Renewed()
    assert await answer_to(store, late) == Committed(1)
    await commit(store, 2)
    await lossy.deliver()
    await commit(store, 3)
    assert (await loaded(store)).segments == [(n, b"segment %d" % n) for n in range(1, 4)]


async def test_a_late_write_of_an_old_leader_is_refused(lossy: LossyRig) -> None:
    old, new = await lossy.open(), await lossy.open()
    await elected(old, lease_ms=LEASE_MS)
    late = Commit(1, b"of the old leader")
    lossy.hold(late)
    assert isinstance(await old.perform(late), Unanswered)
    await lossy.lose(old)
    await elected(new)
    await lossy.deliver()
    await commit(new, 1)
    assert (await loaded(new)).segments == [(1, b"segment 1")]


async def test_a_late_campaign_takes_no_lead_after_a_newer_one(lossy: LossyRig) -> None:
    store, other = await lossy.open(), await lossy.open()
    late = Campaign("late:1", LONG_LEASE_MS)
    lossy.hold(late)
    assert isinstance(await store.perform(late), Unanswered)
    await elected(store, "newer:1")
    assert await store.perform(Resign()) == Done()
    await lossy.deliver()
    await elected(other, "other:1")
    assert await store.perform(Campaign("s:1", LEASE_MS)) == Follower("other:1")


# No room.


async def test_a_full_store_says_so_and_goes_on_when_there_is_room(small: Rig) -> None:
    store = await small.open()
    await elected(store)
    for n in range(1, 4):
        await commit(store, n)
    for _ in range(2):
        head = await small.fill(store, (await loaded(store)).head)
        assert await store.perform(Commit(head + 1, bytes(1 << 16))) == Unanswered("nospace")
        assert await store.perform(Renew()) == Renewed()
        assert await store.perform(Trim(head)) == Done()
        state = await loaded(store)
        assert (state.head, [n for n, _ in state.segments]) == (head, [head])
        await commit(store, head + 1)
    head = await small.fill(store, head + 1)
    assert await store.perform(Resign()) == Done()
