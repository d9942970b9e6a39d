"""Looking, submitting, waiting, ending: what is asked of the site, and what people and programs see."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from tests.unit.ctl.conftest import Call
from tests.unit.ctl.played import PlayedSite, Reply, event, frame, problem

from fairlead.ctl import contexts
from fairlead.ctl.client import path_of
from fairlead.ctl.contexts import Site
from fairlead.ctl.failures import Failure
from fairlead.ctl.main import COMMANDS, fairlead
from fairlead.ctl.names import duration_ms, target
from fairlead.ctl.talk import span

JOB = {
    "id": "j-1", "name": "unit", "submission": "s-1", "tenant": "default", "kind": "action", "state": "failed",
    "count": 3, "counts": {"failed": 1, "succeeded": 2}, "priority": 100, "created": 1, "ended": 2,
    "command": ["make", "test"],
}  # fmt: skip
ACCEPTED = Reply({"submission": "s-1", "jobs": ["j-1"], "names": ["unit"]}, 201)


def job(state: str, **more: Any) -> Reply:
    counts = {state: 1}
    return Reply({**JOB, "state": state, "count": 1, "counts": counts, **more})


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads_and_explains_itself(call: Call, capfd: Any, name: str) -> None:
    assert call(name, "--help") == 0
    assert f"Usage: fairlead {name}" in capfd.readouterr().out


def test_the_page_of_commands_names_each_with_all_its_options() -> None:
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text(encoding="utf-8")
    context = click.Context(fairlead, info_name="fairlead")
    for name in COMMANDS:
        command = fairlead.get_command(context, name)
        assert command is not None
        commands = [command, *(command.commands.values() if isinstance(command, click.Group) else [])]
        assert f"`{name}" in page
        for each in commands:
            for option in (
                option for param in each.params for option in param.opts if option.startswith("--")
            ):
                assert option in page, f"{name} {option}"


def test_a_list_shows_columns_and_json_shows_the_items_themselves(
    site: PlayedSite, call: Call, capfd: Any
) -> None:
    site.on("GET /v1/jobs", Reply({"items": [JOB], "next": 7}), Reply({"items": [JOB], "next": None}))
    assert call("get", "jobs", "--state", "failed", "-l", "team=core") == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "DONE", "AGE"]
    assert [line.split()[:3] for line in lines[1:]] == [["unit", "failed", "3/3"]] * 2
    assert "state=failed" in site.heard[0].path
    assert "selector=team%3Dcore" in site.heard[0].path
    assert "after=7" in site.heard[1].path
    site.on("GET /v1/jobs", Reply({"items": [JOB], "next": None}))
    assert call("get", "jobs", "-o", "json") == 0
    assert json.loads(capfd.readouterr().out) == [JOB]


def test_one_by_name_is_an_object_and_a_bare_name_is_a_job(site: PlayedSite, call: Call, capfd: Any) -> None:
    site.on("GET /v1/jobs/ci%2Funit", Reply(JOB))
    for form, wanted in (("id", "j-1"), ("state", "failed")):
        assert call("get", "ci/unit", "-o", form) == 0
        assert capfd.readouterr().out.strip() == wanted
    assert call("get", "job", "ci/unit", "-o", "json") == 0
    assert json.loads(capfd.readouterr().out) == JOB
    assert call("get", "ci/unit", "-o", "yaml") == 0
    assert "state: failed" in capfd.readouterr().out


def test_what_is_not_there_is_told_in_three_lines_or_as_json(
    site: PlayedSite, call: Call, capfd: Any
) -> None:
    site.on(
        "GET /v1/jobs/nope", problem(404, "no_such_job", "there is no job 'nope'", fix="fairlead get jobs")
    )
    assert call("describe", "nope", "-q") == 2
    assert capfd.readouterr().err == "error: there is no job 'nope'\n  fix: fairlead get jobs\n"
    assert call("get", "nope", "-o", "json") == 2
    told = json.loads(capfd.readouterr().err)
    assert set(told) == {"code", "message", "why", "where", "fix", "retryable", "retry_after"}


def test_why_tells_each_cause_and_what_lifts_it(site: PlayedSite, call: Call, capfd: Any) -> None:
    facts = {"resource": "cpu", "asked": "4 cpu", "best": "2 cpu"}
    cause = {"sentence": "too little cpu", "facts": facts, "lifted_by": "2 more cpu", "never": True}
    item = {"name": "big", "state": "pending", "causes": [cause]}
    site.on("GET /v1/jobs/big/why", Reply({"items": [item], "next": None}))
    assert call("why", "big") == 0
    assert capfd.readouterr().out.splitlines() == [
        "big  pending",
        "  too little cpu",
        "    asked 4 cpu, best 2 cpu",
        "    lifted by  2 more cpu",
        "    nothing that this site has now lifts it",
    ]


def test_history_is_told_in_order(site: PlayedSite, call: Call, capfd: Any) -> None:
    items = [
        {"at": 1, "what": "submitted", "text": "as s-1/unit"},
        {"at": 2, "what": "started", "agent": "a"},
    ]
    site.on("GET /v1/jobs/unit/instances/3/history", Reply({"items": items, "next": None}))
    assert call("history", "unit/3") == 0
    assert [line.split()[2] for line in capfd.readouterr().out.splitlines()] == ["submitted", "started"]


def test_a_file_is_sent_as_it_is_with_its_name(
    site: PlayedSite, call: Call, capfd: Any, tmp_path: Path
) -> None:
    file = tmp_path / "nightly build.yaml"
    file.write_bytes(b"run: make test\n")
    site.on("POST /v1/submissions", ACCEPTED)
    assert call("submit", str(file), "--key", "mine") == 0
    assert capfd.readouterr().out == "s-1\n"
    heard = site.heard[0]
    assert (heard.body, heard.headers["idempotency-key"]) == (b"run: make test\n", "mine")
    assert heard.headers["x-file-name"].endswith("nightly%20build.yaml")


def test_standard_input_is_a_file_too(site: PlayedSite, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"run: x\n")))
    site.on("POST /v1/submissions", ACCEPTED)
    assert call("submit", "-") == 0
    assert (site.heard[0].body, site.heard[0].headers["x-file-name"]) == (b"run: x\n", "stdin")


def test_a_missing_file_is_wrong_input(site: PlayedSite, call: Call, capfd: Any) -> None:
    assert call("submit", "/no/such.yaml") == 2
    assert capfd.readouterr().err.splitlines() == [
        "error: /no/such.yaml cannot be read",
        "  why: No such file or directory",
        "  fix: ls -l /no/such.yaml",
    ]


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("failed", 1)])
def test_submit_and_wait_ends_as_the_work_did(
    site: PlayedSite, call: Call, capfd: Any, tmp_path: Path, state: str, code: int
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("run: x\n")
    site.on("POST /v1/submissions", ACCEPTED)
    running, ended = ({**JOB, "state": word, "count": 1, "counts": {word: 1}} for word in ("running", state))
    lists = [Reply({"items": [each], "next": None}) for each in (running, ended)]
    site.on("GET /v1/jobs", *lists)
    site.on("GET /v1/jobs/j-1", job(state))
    assert call("submit", str(file), "--wait") == code
    got = capfd.readouterr()
    assert got.out == "s-1\n"
    assert f"s-1  {state}" in got.err
    assert "1 of 1" in got.err


@pytest.mark.parametrize(
    ("until", "states", "code"),
    [
        ("ended", ["running", "failed"], 0),
        ("succeeded", ["running", "succeeded"], 0),
        ("succeeded", ["failed"], 1),
        ("running", ["pending", "running"], 0),
        ("running", ["cancelled"], 1),
    ],
)
def test_wait_ends_when_it_is_so_or_can_no_longer_be(
    site: PlayedSite, call: Call, until: str, states: list[str], code: int
) -> None:
    site.on("GET /v1/jobs/unit", job(states[0]), *map(job, states))
    assert call("wait", "unit", "--for", until) == code


def test_wait_gives_up_with_124_and_takes_a_submission_too(site: PlayedSite, call: Call) -> None:
    site.on("GET /v1/jobs/s-1", problem(404, "no_such_job", "there is no job 's-1'"))
    site.on("GET /v1/submissions/s-1", Reply({"id": "s-1", "name": "s-1", "state": "running"}))
    assert call("wait", "s-1", "--timeout", "0s") == 124


def test_cancel_answers_for_each_name_by_itself(site: PlayedSite, call: Call, capfd: Any) -> None:
    said = [{"name": "a", "said": "ok"}, {"name": "b", "said": "no such work"}]
    site.on("POST /v1/cancel", Reply({"items": said}))
    assert call("cancel", "a", "b") == 2
    assert site.heard[0].json() == {"names": ["a", "b"]}
    assert capfd.readouterr().err == "ending a\nerror: b: no such work\n  fix: fairlead get jobs\n"


def test_what_had_ended_is_said_to_have(site: PlayedSite, call: Call, capfd: Any) -> None:
    site.on("POST /v1/cancel", Reply({"items": [{"name": "a", "said": "ended"}]}))
    assert call("cancel", "a") == 0
    assert capfd.readouterr().err == "a had ended\n"


def test_a_wrong_name_is_mended_in_the_line_that_was_typed(site: PlayedSite, call: Call, capfd: Any) -> None:
    refused = problem(
        404, "no_such", "there is no job 'buidl'", why="did you mean build?", fix="fairlead get job build"
    )
    site.on("GET /v1/jobs/buidl/why", refused)
    assert call("why", "buidl", "-o", "table") == 2
    assert capfd.readouterr().err.splitlines()[-1] == "  fix: fairlead why build -o table"


def test_after_a_failure_the_job_that_caused_it_is_named(
    site: PlayedSite, call: Call, capfd: Any, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("run: x\n")
    site.on("POST /v1/submissions", ACCEPTED)
    one = {**JOB, "count": 1}
    unborn = {**one, "state": "cancelled", "counts": {"cancelled": 1}, "never_started": 1, "ended": 9}
    jobs = [
        {**unborn, "id": "j-3", "name": "deploy"},
        {**one, "id": "j-2", "name": "unit", "counts": {"failed": 1}, "ended": 8, "never_started": 0},
        {**one, "id": "j-1", "name": "style", "counts": {"failed": 1}, "ended": 9, "never_started": 0},
    ]
    site.on("GET /v1/jobs", Reply({"items": jobs, "next": None}))
    assert call("submit", str(file), "--wait") == 1
    told = capfd.readouterr().err
    assert "3 of 3; of 3 jobs 2 failed, 1 never started" in told
    assert "never started" in next(line for line in told.splitlines() if "deploy" in line)
    assert told.splitlines()[-2:] == ["fairlead why unit", "fairlead logs unit"]


def test_status_tells_what_runs_where_and_the_front_only_when_asked(
    site: PlayedSite, call: Call, capfd: Any
) -> None:
    told = {"agents": {"ready": 1}, "open_jobs": {"running": 2}, "queued": 3, "unfinished": 4, "term": 5}
    agent = {"name": "a", "state": "ready", "running": 4, "resources": {"cpu": {"free": 0, "total": 4000}}}
    site.on("GET /v1/status", Reply({**told, "front": {"boot": "b1"}}))
    site.on("GET /v1/agents", Reply({"items": [agent], "next": None}))
    assert call("status") == 0
    assert [line.split() for line in capfd.readouterr().out.splitlines()][1:] == [
        ["a", "ready", "4", "0", "of", "4", "-"],
        [],
        ["agents", "1", "ready"],
        ["open", "jobs", "2", "running"],
        ["instances", "4", "placed,", "3", "waiting"],
    ]
    assert call("status", "-o", "wide") == 0
    assert "b1" in capfd.readouterr().out


def test_the_times_of_an_instance_are_times(site: PlayedSite, call: Call, capfd: Any) -> None:
    at = 1_700_000_000_000
    site.on("GET /v1/jobs/boom/instances/0", Reply({"placed": at, "started": at, "ended": at}))
    assert call("describe", "boom/0") == 0
    assert str(at) not in capfd.readouterr().out


def test_an_earlier_attempt_has_its_own_logs(site: PlayedSite, call: Call, capfd: Any) -> None:
    site.on("GET /v1/jobs/unit", job("succeeded"))
    path = "GET /v1/jobs/j-1/instances/0/logs"
    site.on(f"{path}?stream=out&offset=0&attempt=1", Reply(raw=[b"first\n"]))
    assert call("logs", "--stdout", "--attempt", "1", "unit") == 0
    assert capfd.readouterr().out == "first\n"


def test_logs_are_exact_and_go_on_after_a_cut(site: PlayedSite, call: Call, capfdbinary: Any) -> None:
    path = "GET /v1/jobs/j-1/instances/0/logs"
    site.on("GET /v1/jobs/unit", job("succeeded"))
    site.on(f"{path}?stream=out&offset=0", Reply(raw=[b"\x00\xff", b"abc"], cut=True))
    site.on(f"{path}?stream=out&offset=5", Reply(raw=[b"d\n"]))
    site.on(f"{path}?stream=err&offset=0", Reply(raw=[b"oh\n"]))
    assert call("logs", "unit") == 0
    assert capfdbinary.readouterr() == (b"\x00\xffabcd\n", b"oh\n")


def test_followed_logs_end_with_the_work(site: PlayedSite, call: Call, capfd: Any) -> None:
    site.on("GET /v1/jobs/unit", job("running"))
    ended = {"id": "j-1/0", "attempt": 1, "state": "failed", "exit_code": 3}
    site.on("GET /v1/jobs/j-1/instances/0/attach", Reply(raw=[frame(1, b"x\n"), event("end", **ended)]))
    assert call("logs", "-f", "unit") == 0
    assert capfd.readouterr().out == "x\n"


def test_a_token_is_printed_alone(site: PlayedSite, call: Call, capfd: Any) -> None:
    site.on("POST /v1/tokens", Reply({"token": "id.secret.ca", "id": "id"}, 201))
    site.on("DELETE /v1/tokens/id", Reply({"name": "id", "said": "ok"}))
    assert call("token", "create", "--role", "agent", "--ttl", "5m", "--uses", "2") == 0
    assert capfd.readouterr().out == "id.secret.ca\n"
    assert site.heard[0].json() == {"role": "agent", "ttl_ms": 300_000, "uses": 2, "tenant": ""}
    assert call("token", "revoke", "id.secret.ca") == 0


def test_a_bearer_token_opens_the_site(site: PlayedSite, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_TOKEN", "secret")
    site.on("GET /v1/status", Reply({"agents": {"ready": 1}}))
    site.on("GET /v1/agents", Reply({"items": [], "next": None}))
    assert call("status") == 0
    assert site.heard[0].headers["authorization"] == "Bearer secret"


def test_contexts_are_kept_used_and_forgotten(
    call: Call, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("status") == 2
    assert capfd.readouterr().err.splitlines()[-1] == "  fix: fairlead up"
    contexts.keep(Site("lab", "https://lab:7410", "t", "c"))
    contexts.keep(Site("local", "unix:///tmp/x/server/api.sock"))
    mode = os.stat(os.path.join(contexts.home(), "contexts.json")).st_mode
    assert stat.S_IMODE(mode) == 0o600
    assert contexts.find().name == "local"
    assert contexts.find("lab").token == "t"
    assert call("context", "use", "lab") == 0
    assert call("context", "list") == 0
    assert capfd.readouterr().out == "* lab  https://lab:7410\n  local  unix:///tmp/x/server/api.sock\n"
    assert call("context", "forget", "lab") == 0
    assert call("status", "--context", "lab") == 2
    monkeypatch.setenv("FAIRLEAD_API", "unix:///y")
    assert contexts.find().api == "unix:///y"


def test_a_broken_file_of_contexts_is_said_to_be_so(call: Call, capfd: Any) -> None:
    os.makedirs(contexts.home(), exist_ok=True)
    (Path(contexts.home()) / "contexts.json").write_text("{")
    assert call("status") == 2
    assert "cannot be read" in capfd.readouterr().err


def test_wrong_words_are_answered_with_the_nearest(call: Call, capfd: Any) -> None:
    assert call("rnu", "--", "true") == 2
    assert capfd.readouterr().err.splitlines()[1:] == [
        "  why: did you mean run?",
        "  fix: fairlead run -- true",
    ]
    assert call("run", "--mem", "4GB", "--", "make test") == 125
    told = capfd.readouterr().err.splitlines()
    assert told[0] == 'error: no option --mem for "run"'
    assert told[2] == "  fix: fairlead run --memory 4GB -- 'make test'"


def test_a_fault_of_ours_is_no_traceback(site: PlayedSite, call: Call, capfd: Any) -> None:
    site.on("GET /v1/jobs/unit", Reply({"unexpected": 1}))
    assert call("wait", "unit") == 1
    told = capfd.readouterr().err
    assert told.startswith("error: fairlead itself failed: KeyError")
    assert "Traceback" not in told
    with pytest.raises(KeyError):
        call("--debug", "wait", "unit")


@pytest.mark.parametrize(
    ("name", "work", "index"),
    [
        ("unit", "unit", None),
        ("unit/17", "unit", 17),
        ("ci/unit", "ci/unit", None),
        ("ci/unit/0", "ci/unit", 0),
    ],
)
def test_a_name_points_at_work_or_at_one_instance(name: str, work: str, index: int | None) -> None:
    assert (target(name).work, target(name).instance) == (work, index)


def test_times_are_read_and_shown_to_two_units() -> None:
    assert [duration_ms(text, "--x") for text in ("300ms", "10s", "5m", "2h", "1d", "7")] == [
        300, 10_000, 300_000, 7_200_000, 86_400_000, 7_000,
    ]  # fmt: skip
    shown = [span(ms) for ms in (40, 1_400, 12_000, 94_000, 7_500_000, 360_000_000)]
    assert shown == ["40ms", "1.4s", "12s", "1m 34s", "2h 5m", "4d 4h"]
    with pytest.raises(Failure):
        duration_ms("5 parsecs", "--x")


def test_every_part_of_a_path_is_kept_whole() -> None:
    assert path_of("v1", "jobs", "a/b c", "é") == "/v1/jobs/a%2Fb%20c/%C3%A9"
    assert path_of("v1", x="a&b", y=None, z="") == "/v1?x=a%26b"


def test_a_command_starts_without_what_it_does_not_need() -> None:
    heavy = "{'grpc', 'numpy', 'msgspec', 'rich', 'ssl', 'asyncio', 'http.client', 'yaml', 'urllib.request'}"
    code = (
        "import sys, fairlead.ctl.start, fairlead.ctl.main, fairlead.ctl.commands.run, fairlead.ctl.commands.look;"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE
    )
    assert done.stdout == "[]\n"


SOURCE = Path(__file__).parents[3] / "src"
