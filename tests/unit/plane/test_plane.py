"""Conversations with a plane: what may leave when, who is believed, what a successor knows."""

from __future__ import annotations

import sys

import pytest
from tests.unit.plane.conversation import Agent, Conversation, submission

from fairlead.controllers.records import describe
from fairlead.model import orders
from fairlead.model.errors import Problem
from fairlead.model.jobs import JobSpec, Need, encode_spec
from fairlead.model.keys import Keys, one
from fairlead.model.lifecycles import Stage
from fairlead.model.reasons import Reason
from fairlead.model.requests import (
    Accepted,
    AddToken,
    Admit,
    Ask,
    Attend,
    Cancel,
    Check,
    Detach,
    Elsewhere,
    Explain,
    Follow,
    Following,
    History,
    Look,
    Seen,
    Submit,
    WantAgent,
)
from fairlead.model.storage import Commit, Deposed, Fence, Load, Loaded, Renew
from fairlead.plane.checkpoints import load_ledger
from fairlead.plane.words import Answered, Answering, Asked, Send, Telling, ToLog, Unlinked
from fairlead.sim.storage import Fate


def site_with_agent(cpus: int = 4) -> tuple[Conversation, Agent]:
    talk = Conversation()
    number = talk.join()
    return talk, talk.connect(number).ready(cpus)


def test_one_action_takes_one_commit_from_submit_to_start() -> None:
    talk, agent = site_with_agent()
    before = talk.truth.head
    accepted = talk.submit()
    assert isinstance(accepted, Accepted)
    assert agent.started() == [(1, 0, 1, 1)]
    assert talk.truth.head == before + 1
    agent.end(one(1, 0, 1))
    assert talk.job()["state"] == "succeeded"
    (ack,) = agent.of(orders.Ack)
    assert ack.what is orders.What.end


def test_neither_the_answer_nor_the_start_leaves_before_the_commit() -> None:
    talk, agent = site_with_agent()
    talk.holds = lambda op: isinstance(op, Commit)
    effects = talk.ask_only(submission())
    assert [type(effect) for effect in effects] == [ToLog]
    assert agent.started() == []
    effects = talk.answer_held()
    assert any(isinstance(effect, Answering) for effect in effects)
    assert agent.started() == [(1, 0, 1, 1)]


def test_a_look_waits_for_the_state_it_shows() -> None:
    talk, _ = site_with_agent()
    talk.holds = lambda op: isinstance(op, Commit)
    talk.ask_only(submission())
    effects = talk.ask_only(Look("jobs", "default"))
    assert not any(isinstance(effect, Answering) for effect in effects)
    talk.answer_held()
    (_, seen) = talk.replies[-2:]
    assert isinstance(seen, Seen)
    assert len(seen.items) == 1


def test_an_unanswered_commit_is_repeated_unchanged_and_applies_once() -> None:
    talk, agent = site_with_agent()
    talk.holds = lambda op: isinstance(op, Commit)
    talk.ask_only(submission())
    (first,) = talk.held
    talk.answer_held(Fate.ANSWER_LOST)
    assert agent.started() == []
    talk.pass_time(1_500)
    assert talk.held == [first]
    talk.holds = lambda op: False
    talk.answer_held()
    assert agent.started() == [(1, 0, 1, 1)]
    assert talk.job()["count"] == 1


def test_a_repeated_submit_answers_as_the_first_and_makes_nothing() -> None:
    talk = Conversation()
    first = talk.submit("same")
    again = talk.submit("same")
    assert first == again
    listed = talk.ask(Look("jobs", "default"))
    assert isinstance(listed, Seen)
    assert len(listed.items) == 1
    other = talk.submit("same", name="other")
    assert getattr(other, "code", "") == "key_reused"


def test_a_successor_knows_all_and_orders_nothing_twice() -> None:
    talk, agent = site_with_agent(cpus=2)
    talk.submit(count=3)
    assert agent.started() == [(1, 0, 2, 1)]
    after = talk.successor()
    agent = after.connect(1).hello(cpus=2)
    assert agent.started() == []
    agent.report(Keys([1], [0], [2], [1]))
    assert agent.started() == []
    agent.end(one(1, 0, 1))
    assert agent.started() == [(1, 2, 1, 1)]


def test_what_an_earlier_term_placed_and_the_agent_lacks_has_vanished() -> None:
    talk, _ = site_with_agent()
    talk.submit()
    after = talk.successor()
    agent = after.connect(1).ready()
    assert agent.started() == [(1, 0, 1, 2)]
    assert after.instance()["attempt"] == 2


def test_what_this_term_placed_and_the_agent_lacks_is_ordered_again() -> None:
    talk, agent = site_with_agent()
    talk.submit()
    talk.cut(agent)
    back = talk.connect(1).ready()
    assert back.started() == [(1, 0, 1, 1)]


def test_missing_work_is_judged_only_after_the_whole_report() -> None:
    talk, _ = site_with_agent(cpus=2)
    talk.submit(count=2)
    after = talk.successor()
    agent = after.connect(1).hello(cpus=2)
    agent.say(orders.Report(one(1, 0, 1), [1], [int(Stage.running)], [""]))
    assert agent.started() == []
    agent.say(orders.Report(one(1, 1, 1), [1], [int(Stage.running)], [""]), orders.Reported(2))
    assert agent.started() == []
    assert after.instance(1)["attempt"] == 1


def test_a_report_that_is_not_whole_ends_the_session() -> None:
    talk, _ = site_with_agent()
    talk.submit()
    agent = talk.connect(1).hello()
    agent.say(orders.Reported(5))
    assert agent.hung_up


def test_a_machine_that_rebooted_lost_what_it_ran() -> None:
    talk, agent = site_with_agent()
    talk.submit()
    talk.cut(agent)
    back = talk.connect(1).ready(boot="boot-2")
    assert back.started() == [(1, 0, 1, 2)]
    assert talk.instance()["attempt"] == 2


def test_a_clone_is_refused_and_nothing_it_says_is_believed() -> None:
    talk, agent = site_with_agent()
    talk.submit()
    clone = talk.connect(1)
    clone.hello(boot="boot-2", mark="another machine")
    (welcome,) = clone.of(orders.Welcome)
    assert "identity" in welcome.refusal
    clone.end(one(1, 0, 1))
    assert talk.instance()["state"] == "assigned"
    agent.end(one(1, 0, 1))
    assert talk.job()["state"] == "succeeded"


def test_a_silent_agent_is_suspect_at_once_and_lost_later() -> None:
    talk, agent = site_with_agent()
    other = talk.connect(talk.join("b")).ready()
    talk.submit()
    (runs_on,) = [one_of for one_of in (agent, other) if one_of.started()]
    stays = other if runs_on is agent else agent
    talk.cut(runs_on)
    state = {item["name"]: item["state"] for item in talk.ask(Look("agents", "default")).items}
    assert sorted(state.values()) == ["ready", "suspect"]
    for _ in range(7):
        talk.pass_time(5_000)
        stays.say(orders.Load(0, 0))
    assert stays.started() == [(1, 0, 1, 2)]


def test_an_exclusive_attempt_is_not_run_again_before_its_lease_is_over() -> None:
    talk, agent = site_with_agent()
    other = talk.connect(talk.join("b")).ready()
    talk.submit(exclusive=True)
    runs_on, stays = (agent, other) if agent.started() else (other, agent)
    talk.cut(runs_on)
    for _ in range(60):
        talk.pass_time(10_000, every=1_000)
        stays.say(orders.Load(0, 0))
    assert stays.started() == []
    for _ in range(15):
        talk.pass_time(10_000, every=1_000)
        stays.say(orders.Load(0, 0))
    assert stays.started() == [(1, 0, 1, 2)]


def test_many_silent_together_are_not_lost() -> None:
    talk = Conversation()
    agents = [talk.connect(talk.join(f"a{n}")).ready() for n in range(8)]
    talk.submit(count=8, ask={"cpu": 4000})
    for agent in agents[:5]:
        talk.cut(agent)
    for _ in range(12):
        talk.pass_time(5_000)
        for agent in agents[5:]:
            agent.say(orders.Load(0, 0))
    assert all(talk.instance(index)["attempt"] == 1 for index in range(8))


def test_an_old_copy_is_killed_when_it_comes_back() -> None:
    talk, agent = site_with_agent()
    talk.submit()
    other = talk.connect(talk.join("b")).ready()
    talk.cut(agent)
    for _ in range(7):
        talk.pass_time(5_000)
        other.say(orders.Load(0, 0))
    back = talk.connect(1).hello()
    back.report(one(1, 0, 1))
    (stop,) = back.of(orders.Stop)
    assert stop.how is orders.How.kill
    assert list(stop.keys.spans()) == [(1, 0, 1, 1)]


def test_a_deposed_leader_falls_silent_and_sends_everyone_elsewhere() -> None:
    talk, agent = site_with_agent()
    talk.holds = lambda op: isinstance(op, Commit | Renew)
    talk.ask_only(submission())
    (commit,) = talk.held
    talk.held.clear()
    effects = talk.step(Answered(commit, Deposed()))
    assert agent.hung_up
    assert agent.of(orders.Moved)
    assert agent.started() == []
    assert any(
        isinstance(effect, Answering) and isinstance(effect.reply.reply, Elsewhere) for effect in effects
    )


def test_nothing_leaves_once_two_thirds_of_the_lease_are_over() -> None:
    talk, agent = site_with_agent()
    talk.holds = lambda op: isinstance(op, Renew)
    talk.pass_time(4_000)
    agent.heard.clear()
    effects = talk.ask_only(submission())
    agent.say(orders.Load(0, 0))
    assert not any(isinstance(effect, Send | Answering) for effect in effects)
    assert agent.heard == []
    talk.holds = lambda op: False
    talk.answer_held()
    assert agent.started() == [(1, 0, 1, 1)]


def test_an_agent_that_obeyed_a_later_leader_is_not_spoken_to() -> None:
    talk = Conversation()
    agent = talk.connect(talk.join())
    agent.hello(fence=Fence("site", 1, 99))
    assert agent.hung_up
    assert not agent.of(orders.Welcome)


def test_frames_that_make_no_sense_end_the_session_and_nothing_else() -> None:
    talk, agent = site_with_agent()
    talk.submit()
    agent.say(orders.Ended(one(1, 0, 1), [1], [77], [0], [0], [0], [0], [0]))
    assert agent.hung_up
    assert talk.instance()["attempt"] == 1
    back = talk.connect(1).ready()
    back.say(orders.Ended(Keys([1], [0], [1], [1]), [], [1], [0], [0], [0], [0], [0]))
    assert back.hung_up


@pytest.mark.parametrize("name", ["a-²", "a/²", "²", "a-" + "9" * 5_000, "a/" + "9" * 5_000, "٣"])
def test_what_only_looks_like_a_number_is_a_name_that_nobody_has(name: str) -> None:
    talk = Conversation()
    talk.submit(name="a")
    looks = [Look(kind, "default", name) for kind in ("jobs", "submissions", "instances", "agents")]
    asked = [*looks, Explain(name, "default"), History(name, "default"), WantAgent(name, 1, "")]
    for request in asked:
        assert talk.ask(request).code == "no_such", request  # type: ignore[union-attr]


@pytest.mark.parametrize("total", [-1, 1 << 53, 1 << 63, -(1 << 63), 2_000_000])
def test_an_agent_that_claims_what_no_machine_has_is_not_let_in(total: int) -> None:
    talk = Conversation()
    agent = talk.connect(talk.join())
    agent.say(orders.Hello("boot", "mark", None, ["gpu"], [total], [], []))
    assert agent.hung_up
    again = talk.connect(agent.number).ready()
    assert not again.hung_up


@pytest.mark.parametrize(
    "odd",
    [
        orders.Hello("x" * 2_000_000, "mark", None, ["cpu"], [1], [], []),
        orders.Hello("boot", "mark", None, ["cpu"], [], [], []),
        orders.Hello("boot", "mark", None, [f"r{n}" for n in range(1_000)], [1] * 1_000, [], []),
    ],
)
def test_an_agent_that_says_too_much_of_itself_is_not_let_in(odd: orders.Hello) -> None:
    talk = Conversation()
    agent = talk.connect(talk.join())
    agent.say(odd)
    assert agent.hung_up
    assert talk.plane.core is not None
    assert not talk.plane.core.ledger.agents[agent.number].boot


@pytest.mark.parametrize("reason", [-1, 0, 7_777])
def test_work_is_not_cancelled_for_a_reason_that_nobody_knows(reason: int) -> None:
    talk, _ = site_with_agent()
    talk.submit()
    assert talk.ask(Cancel(["job"], "default", reason)).code == "invalid"  # type: ignore[union-attr]
    assert talk.job()["state"] == "running"


def test_followers_hear_every_segment_once_and_in_order() -> None:
    talk, agent = site_with_agent()
    following = talk.ask(Follow(1))
    assert following == Following(1, False)
    talk.submit()
    agent.end(one(1, 0, 1))
    numbers = [telling.told.part.n for telling in talk.told]
    assert numbers == list(range(1, talk.truth.head + 1))
    assert talk.ask(Follow(10_000)) == Following(talk.truth.head + 1, True)


def test_a_cancel_stops_what_runs_and_closes_what_waits() -> None:
    talk, agent = site_with_agent(cpus=1)
    talk.submit(count=3)
    talk.ask(Cancel(["job"], "default", 10))
    (stop,) = agent.of(orders.Stop)
    assert list(stop.keys.spans()) == [(1, 0, 1, 1)]
    assert talk.instance(2)["state"] == "cancelled"
    agent.end(one(1, 0, 1), exit=1)
    assert talk.instance(0)["state"] == "failed"
    assert talk.job()["state"] == "cancelled"
    assert len(agent.started()) == 1


def test_a_large_batch_is_several_segments_and_void_without_its_last() -> None:
    talk = Conversation()
    talk.submit("before", name="before")
    head = talk.truth.head
    specs = [submission(f"k{n}", name=f"j{n}", env={"X": "x" * 200_000}).specs[0] for n in range(8)]
    big = submission("big")
    talk.holds = lambda op: isinstance(op, Commit)
    talk.ask_only(type(big)("big", "d", "big", "default", "me", specs))
    talk.answer_held()
    assert talk.truth.head == head + 1
    assert len(talk.held) == 1
    after = talk.successor()
    listed = after.ask(Look("jobs", "default"))
    assert isinstance(listed, Seen)
    assert [item["name"] for item in listed.items] == ["before"]
    after.submit("after", name="after")
    again = after.successor().ask(Look("jobs", "default"))
    assert isinstance(again, Seen)
    assert [item["name"] for item in again.items] == ["after", "before"]


def test_checkpoints_and_segments_make_the_same_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.plane.checkpoints.ROUND_BYTES", 600)
    monkeypatch.setattr("fairlead.plane.checkpoints.PIECE_BYTES", 400)
    talk, agent = site_with_agent(cpus=64)
    for number in range(6):
        talk.submit(f"k{number}", name=f"j{number}", count=40, retry_job=1)
        agent.end(Keys([number + 1], [0], [20], [1]))
        agent.end(Keys([number + 1], [20], [4], [1]), exit=3)
    assert talk.truth.values
    assert min(talk.truth.segments) > 1
    loaded = talk.handle.perform(Load(), talk.now)
    assert isinstance(loaded, Loaded)
    ledger, _ = load_ledger(loaded)
    assert talk.plane.core is not None
    assert describe(ledger) == describe(talk.plane.core.ledger)


def test_a_hundred_thousand_instances_leave_no_object_each() -> None:
    talk = Conversation()
    link = talk.connect(talk.join())
    count = 100_000
    before = sys.getallocatedblocks()
    link.ready(cpus=count)
    talk.submit(count=count)
    spans = link.started()
    assert sum(many for _, _, many, _ in spans) == count
    link.end(Keys(*(list(column) for column in zip(*spans, strict=True))))
    assert talk.job()["state"] == "succeeded"
    assert sys.getallocatedblocks() - before < count // 5


def test_a_token_is_used_once() -> None:
    talk = Conversation()
    talk.join("a")
    again = talk.ask(Admit("t-a", "digest", "agent", "b"))
    assert getattr(again, "code", "") == "denied"
    wrong = talk.ask(Admit("t-a", "other digest", "agent", "c"))
    assert getattr(wrong, "code", "") == "denied"
    assert getattr(talk.ask(AddToken("x", "d", "king", "default", 1, 0)), "code", "") == "invalid"


def test_needs_hold_a_job_back_until_they_are_met() -> None:
    talk, agent = site_with_agent()
    specs = [
        JobSpec(name="build", command=["true"]),
        JobSpec(name="test", command=["true"], needs=[Need("build")]),
        JobSpec(name="mourn", command=["true"], needs=[Need("build", "failure")]),
        JobSpec(name="tidy", command=["true"], needs=[Need("test", "always")]),
    ]
    talk.ask(Submit("k", "d", "ci", "default", "me", [encode_spec(spec) for spec in specs]))
    assert agent.started() == [(1, 0, 1, 1)]
    assert talk.instance(0, "test")["state"] == "blocked"
    agent.end(one(1, 0, 1))
    assert agent.started()[1:] == [(2, 0, 1, 1)]
    assert talk.job("mourn")["state"] == "cancelled"
    assert talk.instance(0, "mourn")["reason"] == "need_failed"
    agent.end(one(2, 0, 1), exit=1)
    assert agent.started()[2:] == [(4, 0, 1, 1)]


def test_parallel_lets_only_so_many_out() -> None:
    talk, agent = site_with_agent(cpus=64)
    talk.submit(count=10, parallel=3)
    assert sum(count for _, _, count, _ in agent.started()) == 3
    agent.end(one(1, 0, 1))
    assert sum(count for _, _, count, _ in agent.started()) == 4


def test_failures_are_retried_within_their_budget() -> None:
    talk, agent = site_with_agent()
    talk.submit(retry_job=1)
    agent.end(one(1, 0, 1), exit=3)
    assert agent.started()[-1] == (1, 0, 1, 2)
    agent.end(one(1, 0, 2), exit=3)
    assert talk.job()["state"] == "failed"
    assert talk.instance()["exit_code"] == 3


def test_a_refusal_rests_the_pair_and_charges_nothing() -> None:
    talk, agent = site_with_agent()
    talk.submit()
    agent.say(orders.Refused(one(1, 0, 1), [30]))
    assert len(agent.started()) == 1
    talk.pass_time(1_100, every=100)
    assert agent.started()[-1] == (1, 0, 1, 2)


def test_work_that_waited_past_its_pending_limit_times_out() -> None:
    talk = Conversation()
    talk.submit(pending_ms=5_000)
    talk.pass_time(4_500)
    assert talk.job()["state"] == "pending"
    talk.pass_time(1_000)
    assert talk.instance()["state"] == "timed_out"


def test_output_follows_the_end_as_a_fact_of_its_own() -> None:
    talk, agent = site_with_agent()
    talk.submit()
    agent.end(one(1, 0, 1), output=1)
    assert (talk.job()["state"], talk.instance()["output"]) == ("succeeded", "pending")
    agent.say(orders.OutputDone(one(1, 0, 1), [1], [5], [0]))
    assert talk.instance()["output"] == "complete"
    assert talk.instance()["out_length"] == 5
    assert [ack.what for ack in agent.of(orders.Ack)] == [orders.What.end, orders.What.output]


def test_tellings_leave_only_after_the_answer_to_the_follow() -> None:
    talk = Conversation()
    talk.submit("one", name="one")
    effects = talk.step(Asked(7, Ask(1, Follow(1))))
    kinds = [type(effect) for effect in effects if isinstance(effect, Answering | Telling)]
    assert kinds[0] is Answering
    assert set(kinds[1:]) == {Telling}


def test_servers_are_shown_with_their_addresses_and_who_leads() -> None:
    talk = Conversation()
    (alone,) = talk.ask(Look("servers", "")).items  # type: ignore[union-attr]
    assert (alone["name"], alone["state"], alone["output"]) == ("127.0.0.1:1", "leading", None)
    talk.step(Asked(7, Ask(1, Follow(-1, "127.0.0.1:1", "127.0.0.1:2"))))
    talk.step(Asked(8, Ask(1, Follow(-1, "127.0.0.1:4", "127.0.0.1:5"))))
    first, second = talk.ask(Look("servers", "")).items  # type: ignore[union-attr]
    assert (first["leader"], first["output"], first["term"]) == (True, "127.0.0.1:2", 1)
    assert (second["leader"], second["control"], second["output"]) == (False, "127.0.0.1:4", "127.0.0.1:5")
    page = talk.ask(Look("servers", "", limit=1))
    assert (page.items, page.next) == ([first], 1)  # type: ignore[union-attr]
    assert talk.ask(Look("servers", "", after=1)).items == [second]  # type: ignore[union-attr]
    assert talk.ask(Look("servers", "", "127.0.0.1:4")).items == [second]  # type: ignore[union-attr]
    assert talk.ask(Look("servers", "", "127.0.0.1:9")).code == "no_such"  # type: ignore[union-attr]
    talk.step(Unlinked(8))
    assert talk.ask(Look("servers", "")).items == [first]  # type: ignore[union-attr]


def test_a_job_ends_when_nobody_has_waited_for_it_for_a_minute() -> None:
    talk, agent = site_with_agent()
    talk.submit(cancel_when_caller_gone=True)
    for _ in range(20):
        talk.pass_time(5_000)
        agent.say(orders.Load(0, 0))
        talk.ask(Attend([1]))
    assert not agent.of(orders.Stop)
    for _ in range(13):
        talk.pass_time(5_000)
        agent.say(orders.Load(0, 0))
    (stop,) = agent.of(orders.Stop)
    assert stop.reason == Reason.caller_gone


def test_a_job_that_its_caller_left_on_purpose_goes_on_also_under_a_successor() -> None:
    talk, agent = site_with_agent()
    talk.submit(cancel_when_caller_gone=True)
    talk.ask(Detach("job", "default"))
    for _ in range(14):
        talk.pass_time(5_000)
        agent.say(orders.Load(0, 0))
    assert not agent.of(orders.Stop)
    after = talk.successor()
    back = after.connect(1).hello()
    back.report(one(1, 0, 1))
    for _ in range(14):
        after.pass_time(5_000)
        back.say(orders.Load(0, 0))
    assert not back.of(orders.Stop)
    assert after.job()["state"] == "running"


def test_a_digest_that_is_no_digest_and_a_join_of_nobody_are_refused() -> None:
    talk = Conversation()
    talk.ask(AddToken("t", "digest", "agent", "default", 1, 0))
    for admit in (Admit("t", "dïgest", "agent", "a"), Admit("t", "digest", "agent", "a", 0)):
        assert isinstance(talk.ask(admit), Problem)
    assert isinstance(talk.ask(Check("t", "dïgest")), Problem)
    talk.ask(AddToken("none", "digest", "agent", "default", 0, 0))
    assert isinstance(talk.ask(Admit("none", "digest", "agent", "", 0)), Problem)
