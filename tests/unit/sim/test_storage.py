"""The simulator's store: what the contract suite cannot see, and any order of faults."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.storage import (
    Campaign,
    Commit,
    Committed,
    Deposed,
    Done,
    Elected,
    Follower,
    Load,
    Loaded,
    Put,
    Renew,
    Renewed,
    Resign,
    Trim,
    Unanswered,
    WrongHead,
)
from fairlead.sim.storage import Fate, Handle, Truth

LEASE_MS = 5_000
CAMPAIGN = Campaign("a:1", LEASE_MS)


def elected(truth: Truth, now: int = 0) -> Handle:
    handle = truth.handle()
    assert isinstance(handle.perform(CAMPAIGN, now), Elected)
    return handle


def test_a_lease_ends_on_the_virtual_clock_to_the_millisecond() -> None:
    truth = Truth("s")
    leader, other = elected(truth), truth.handle()
    assert leader.perform(Renew(), 4_999) == Renewed()
    assert other.perform(CAMPAIGN, 9_998) == Follower("a:1")
    assert leader.perform(Put({"k": b"v"}), 9_999) == Deposed()
    assert isinstance(other.perform(CAMPAIGN, 9_999), Elected)


def test_a_store_may_end_a_lease_before_its_time() -> None:
    truth = Truth("s")
    leader = elected(truth)
    truth.end_lease()
    assert leader.perform(Commit(1, b""), 1) == Deposed()
    assert leader.perform(Renew(), 1) == Deposed()


def test_a_lost_op_never_takes_effect() -> None:
    truth = Truth("s")
    leader = elected(truth)
    assert isinstance(leader.perform(Commit(1, b""), 1, Fate.LOST), Unanswered)
    assert (truth.head, truth.delayed) == (0, [])


def test_an_op_whose_answer_is_lost_has_taken_effect() -> None:
    truth = Truth("s")
    leader = elected(truth)
    assert isinstance(leader.perform(Commit(1, b"x"), 1, Fate.ANSWER_LOST), Unanswered)
    assert truth.segments == {1: b"x"}
    assert leader.perform(Commit(1, b"x"), 2) == Committed(1)


def test_a_campaign_whose_answer_is_lost_leads_until_its_lease_ends() -> None:
    truth = Truth("s")
    unaware, other = truth.handle(), truth.handle()
    assert isinstance(unaware.perform(CAMPAIGN, 0, Fate.ANSWER_LOST), Unanswered)
    assert unaware.perform(Commit(1, b""), 1) == Deposed()
    assert other.perform(CAMPAIGN, LEASE_MS - 1) == Follower("a:1")
    assert isinstance(other.perform(CAMPAIGN, LEASE_MS), Elected)


def test_late_puts_apply_in_the_order_in_which_they_were_sent_or_not_at_all() -> None:
    truth = Truth("s")
    leader = elected(truth)
    for value in (b"1", b"2", b"3"):
        leader.perform(Put({"k": value}), 1, Fate.DELAYED)
    truth.deliver(1, 2)
    assert truth.values == {"k": b"2"}
    truth.deliver(0, 3)
    assert truth.values == {"k": b"2"}
    truth.deliver(0, 4)
    assert truth.values == {"k": b"3"}


def test_a_late_commit_that_was_overtaken_is_nobodys_fault() -> None:
    truth = Truth("s")
    leader = elected(truth)
    leader.perform(Commit(1, b"x"), 1, Fate.DELAYED)
    assert leader.perform(Commit(1, b"x"), 2) == Committed(1)
    assert leader.perform(Commit(2, b"y"), 3) == Committed(2)
    truth.deliver(0, 4)
    assert truth.segments == {1: b"x", 2: b"y"}


def test_a_full_store_elects_nobody_but_tells_who_leads() -> None:
    truth = Truth("s")
    leader, other = elected(truth), truth.handle()
    assert other.perform(CAMPAIGN, 1, Fate.NO_SPACE) == Follower("a:1")
    for op in (Put({"k": b""}), Commit(1, b"")):
        assert leader.perform(op, 1, Fate.NO_SPACE) == Unanswered("nospace")
    assert leader.perform(Trim(3), 1, Fate.NO_SPACE) == Done()
    assert leader.perform(Renew(), 1, Fate.NO_SPACE) == Renewed()
    assert leader.perform(Resign(), 1, Fate.NO_SPACE) == Done()
    assert other.perform(CAMPAIGN, 1, Fate.NO_SPACE) == Unanswered("nospace")
    assert other.perform(Load(), 1, Fate.NO_SPACE) == Loaded({}, [], 0)


class Server:
    """Repeats what was unanswered, as the plane does, and knows what it was promised."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.handle = truth.handle()
        self.leads = False
        self.next = 0
        self.puts = 0
        self.terms: list[int] = []
        self.kept: dict[str, bytes] = {}
        self.open: Put | Commit | None = None

    def campaign(self, now: int, fate: Fate) -> None:
        answer = self.handle.perform(Campaign("x:1", LEASE_MS), now, fate)
        self.leads = isinstance(answer, Elected)
        self.open = None
        if isinstance(answer, Elected):
            self.terms.append(answer.fence.term)
            state = self.handle.perform(Load(), now)
            assert isinstance(state, Loaded)
            self.next = state.head + 1
            self.kept = {}

    def write(self, op: Put | Commit, now: int, fate: Fate) -> None:
        op = self.open or op
        answer = self.handle.perform(op, now, fate)
        self.open = op if isinstance(answer, Unanswered) else None
        if isinstance(answer, Deposed):
            self.leads = False
        if isinstance(answer, Committed):
            self.next += 1
        if isinstance(answer, Done) and isinstance(op, Put):
            self.kept.update((key, value or b"") for key, value in op.values.items())

    def put(self, now: int, fate: Fate) -> None:
        self.puts += 1
        self.write(Put({f"of/{self.handle.owner}": b"%d" % self.puts}), now, fate)

    def commit(self, now: int, fate: Fate) -> None:
        self.write(Commit(self.next, b"%d by %d" % (self.next, self.handle.owner)), now, fate)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["campaign", "put", "commit", "commit", "resign", "deliver", "wait"]),
        st.sampled_from([Fate.ANSWERED, *Fate]),
    ),
    max_size=80,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_whatever_is_lost_or_late_the_log_stays_whole_and_terms_grow(
    steps: list[tuple[int, str, Fate]],
) -> None:
    truth, now = Truth("s"), 0
    servers = [Server(truth) for _ in range(3)]
    log: dict[int, bytes] = {}
    terms: list[int] = []
    for who, what, fate in steps:
        server = servers[who]
        now += 100
        if what == "wait":
            now += LEASE_MS
        elif what == "deliver" and truth.delayed:
            truth.deliver(now % len(truth.delayed), now)
        elif what == "campaign":
            server.campaign(now, fate)
            terms += [term for term in server.terms if term not in terms]
        elif what == "resign" and server.leads:
            server.handle.perform(Resign(), now, fate)
            server.leads, server.open = False, None
        elif what in ("put", "commit") and server.leads:
            (server.put if what == "put" else server.commit)(now, fate)
        check(truth, log, servers)
    assert terms == sorted(set(terms))


def check(truth: Truth, log: dict[int, bytes], servers: list[Server]) -> None:
    assert list(truth.segments) == list(range(1, truth.head + 1))
    assert all(truth.segments[n] == segment for n, segment in log.items())
    log.update(truth.segments)
    for server in servers:
        if server.leads and truth.lead is not None and truth.lead.term == server.handle.term:
            for key, value in server.kept.items():
                unanswered = server.open.values if isinstance(server.open, Put) else {}
                assert truth.values[key] in (value, unanswered.get(key))


def test_a_leader_with_a_wrong_head_is_told_so() -> None:
    leader = elected(Truth("s"))
    with pytest.raises(WrongHead, match="head 0"):
        leader.perform(Commit(5, b""), 1)
