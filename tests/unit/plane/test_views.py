"""What people are shown: filters, pages, causes, history."""

from __future__ import annotations

import pytest
from tests.unit.plane.conversation import Conversation
from tests.unit.plane.test_plane import site_with_agent

from fairlead.model.errors import Problem
from fairlead.model.jobs import JobSpec, Need, encode_spec
from fairlead.model.keys import Keys, one
from fairlead.model.reasons import Reason
from fairlead.model.requests import (
    AddToken,
    Cancel,
    Changed,
    Explain,
    History,
    Look,
    RevokeToken,
    Seen,
    Submit,
)


def seen(talk: Conversation, kind: str, name: str = "", **asked: object) -> Seen:
    reply = talk.ask(Look(kind, "default", name, **asked))  # type: ignore[arg-type]
    assert isinstance(reply, Seen), reply
    return reply


def test_a_list_goes_on_where_its_cursor_points() -> None:
    talk = Conversation()
    for number in range(7):
        talk.submit(f"k{number}", name=f"j{number}")
    names: list[str] = []
    after = 0
    while True:
        page = seen(talk, "jobs", after=after, limit=3)
        names += [item["name"] for item in page.items]
        after = page.next
        if not after:
            break
    assert names == [f"j{number}" for number in reversed(range(7))]


def test_instances_are_found_by_the_state_that_is_shown() -> None:
    talk, agent = site_with_agent(cpus=3)
    talk.submit(count=9_000)
    agent.end(one(1, 0, 1), exit=4)
    by_state = {state: seen(talk, "instances", "job", filters={"state": state}) for state in STATES}
    assert [item["index"] for item in by_state["failed"].items] == [0]
    assert [item["index"] for item in by_state["assigned"].items] == [1, 2, 3]
    assert by_state["waiting"].items[0]["index"] == 4
    assert by_state["waiting"].next == 104
    assert by_state["succeeded"].items == []


STATES = ("failed", "assigned", "waiting", "succeeded")


def test_a_look_examines_only_so_much_and_says_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.plane.views.MOST_LOOKED", 4)
    talk = Conversation()
    for number in range(9):
        talk.submit(f"k{number}", name="odd" if number % 2 else "even")
    page = seen(talk, "jobs", filters={"name": "odd"})
    assert [item["id"] for item in page.items] == ["j-8", "j-6"]
    rest = seen(talk, "jobs", filters={"name": "odd"}, after=page.next)
    assert [item["id"] for item in rest.items] == ["j-4", "j-2"]


def test_why_tells_each_way_in_which_instances_ended() -> None:
    talk, agent = site_with_agent(cpus=8)
    talk.submit(count=8)
    agent.end(Keys([1], [0], [3], [1]), exit=7)
    agent.end(Keys([1], [3], [2], [1]), exit=-9)
    agent.end(Keys([1], [5], [3], [1]))
    reply = talk.ask(Explain("job", "default"))
    assert isinstance(reply, Seen)
    causes = [(cause["sentence"], cause["count"]) for cause in reply.items[0]["causes"]]
    assert causes == [("the command exited with 7", 3), ("the command exited with -9", 2)]


def test_why_says_by_how_much_it_does_not_fit() -> None:
    talk, _ = site_with_agent(cpus=2)
    talk.submit(ask={"cpu": 3_000})
    reply = talk.ask(Explain("job", "default"))
    assert isinstance(reply, Seen)
    (cause,) = reply.items[0]["causes"]
    assert cause["reason"] == "too_little"
    assert cause["never"]
    assert (cause["facts"]["asked"], cause["lifted_by"]) == ("3 cpu", "1 more cpu on the nearest agent")


def test_history_tells_every_attempt_in_order() -> None:
    talk, agent = site_with_agent()
    talk.submit(retry_job=1)
    talk.now += 5
    agent.end(one(1, 0, 1), exit=3)
    talk.now += 5
    agent.end(one(1, 0, 2))
    reply = talk.ask(History("job", "default"))
    assert isinstance(reply, Seen)
    told = [item["event"] for item in reply.items]
    assert told[0] == "submitted"
    assert told[-1] == "ended"
    assert [item["sentence"] for item in reply.items if item["event"] == "failed"] == [
        "attempt 1 on a: the command exited with 3"
    ]


def test_unknown_names_and_kinds_are_problems() -> None:
    talk = Conversation()
    for asked in (
        Look("jobs", "default", "nobody"),
        Look("wizards", "default"),
        Look("instances", "default", "nobody/3"),
        Look("jobs", "default", filters={"submission": "nobody"}),
        Explain("nobody", "default"),
        History("nobody", "default"),
    ):
        reply = talk.ask(asked)
        assert isinstance(reply, Problem)
        assert reply.code == "no_such"


def test_the_name_of_a_submission_stands_for_its_one_job() -> None:
    talk = Conversation()
    talk.submit()
    for name in ("last", "job-1", "s-1", "job", "j-1"):
        reply = talk.ask(Explain(name, "default"))
        assert isinstance(reply, Seen), reply
        assert reply.items[0]["id"] == "j-1"
    assert isinstance(talk.ask(Look("instances", "default", "last/0")), Seen)


def names(page: Seen) -> list[str]:
    return [item["name"] for item in page.items]


def test_a_list_is_filtered_by_a_rule_over_labels() -> None:
    talk = Conversation()
    for name, team in (("a", "core"), ("b", "web"), ("c", "core")):
        talk.submit(name, name=name, labels={"team": team})
    for text in ("team == core", "team=core", "team in (core)"):
        assert names(seen(talk, "jobs", filters={"selector": text})) == ["c", "a"]
    assert names(seen(talk, "jobs", filters={"selector": "not team == core", "state": "pending"})) == ["b"]
    talk.connect(talk.join("m")).ready()
    assert names(seen(talk, "agents", filters={"selector": "arch == x86_64"})) == ["m"]
    assert names(seen(talk, "agents", filters={"selector": "arch=arm64"})) == []


@pytest.mark.parametrize(
    ("kind", "filters", "code", "told"),
    [
        ("jobs", {"selector": "team ="}, "rule", "`=` means nothing here"),
        ("jobs", {"state": "faild"}, "no_such_state", "fairlead get jobs --state failed"),
        ("agents", {"state": "dead"}, "no_such_state", "they are joining, ready"),
        ("submissions", {"selector": "a"}, "unknown_parameter", "not filtered by `selector`"),
        ("jobs", {"submission": "nihgtly"}, "no_such", "did you mean nightly?"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(
    kind: str, filters: dict[str, str], code: str, told: str
) -> None:
    talk = Conversation()
    spec = encode_spec(JobSpec(name="job", command=["true"]))
    talk.ask(Submit("k", "d", "nightly", "default", "me", [spec]))
    reply = talk.ask(Look(kind, "default", filters=filters))
    assert isinstance(reply, Problem)
    assert reply.code == code
    assert told in f"{reply.message} {reply.why} {reply.fix}"
    assert reply.fix


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    talk = Conversation()
    talk.submit(name="build")
    for asked in (Explain("buidl", "default"), Look("jobs", "default", "buidl")):
        reply = talk.ask(asked)
        assert isinstance(reply, Problem)
        assert (reply.why, reply.fix) == ("did you mean build?", "fairlead get job build")


def test_why_and_history_name_the_need_that_failed() -> None:
    talk, agent = site_with_agent()
    talk.submit("k1", name="build")
    talk.submit("k2", name="deploy", needs=[Need("build")])
    agent.end(one(1, 0, 1), exit=3)
    assert talk.job("deploy")["state"] == "cancelled"
    assert [talk.job(name)["never_started"] for name in ("build", "deploy")] == [0, 1]
    for asked in (Explain("deploy", "default"), History("deploy", "default")):
        reply = talk.ask(asked)
        assert "it needs build, which failed" in str(reply)
    assert talk.instance(0, "deploy")["sentence"] == "it needs build, which failed"


def test_what_had_ended_is_not_said_to_be_ending() -> None:
    talk, agent = site_with_agent()
    talk.submit()
    for said in ("ok", "ended"):
        reply = talk.ask(Cancel(["job"], "default", int(Reason.cancelled_by_user)))
        assert isinstance(reply, Changed)
        assert reply.said == [said]
        agent.end(one(1, 0, 1), exit=-15)


def test_a_token_says_why_it_opens_nothing() -> None:
    talk = Conversation()
    for id, uses, ttl in (("a", -1, 0), ("b", 0, 0), ("c", 1, 5), ("d", 1, 0)):
        talk.ask(AddToken(id, "d", "agent", "", uses, ttl))
    talk.ask(RevokeToken("d"))
    talk.now += 10
    states = {item["id"]: item["state"] for item in seen(talk, "tokens").items}
    assert states == {"a": "good", "b": "used", "c": "expired", "d": "revoked"}
