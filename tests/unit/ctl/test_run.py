"""`run` and `attach`: output and exit codes come through whatever happens on the way."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.ctl.conftest import Call
from tests.unit.ctl.played import PlayedSite, Reply, event, frame, problem

from fairlead.ctl import steering
from fairlead.ctl.commands.run import document
from fairlead.ctl.following import Signals, frames
from fairlead.model.submission import read_submission

ATTACH = "GET /v1/jobs/j-1/instances/0/attach"
OUT, ERR = 1, 2


def instance(state: str, **more: Any) -> dict[str, Any]:
    return {"id": "j-1/0", "job": "j-1", "index": 0, "attempt": 1, "state": state, "reason": "", **more}


def accepts(site: PlayedSite) -> None:
    site.on(
        "POST /v1/submissions", Reply({"submission": "s-1", "jobs": ["j-1"], "names": ["lucky-heron"]}, 201)
    )


def ends(site: PlayedSite, state: str, **more: Any) -> None:
    accepts(site)
    said = instance(state, **more)
    site.on(ATTACH, Reply(raw=[event("state", **instance("running")), event("end", **said)]))


def test_both_streams_come_through_apart_and_exact(site: PlayedSite, call: Call, capfdbinary: Any) -> None:
    accepts(site)
    out, err = bytes(range(256)) * 5000, b"\xff\x00not text\r\n" * 2000
    both = frame(OUT, out) + frame(ERR, err)
    pieces = [
        event("state", **instance("running")),
        *(both[at : at + 7919] for at in range(0, len(both), 7919)),
    ]
    site.on(ATTACH, Reply(raw=[*pieces, event("end", **instance("succeeded"))]))
    assert call("run", "--", "make") == 0
    got = capfdbinary.readouterr()
    assert got.out == out
    assert got.err == err


@pytest.mark.parametrize(
    ("state", "more", "code"),
    [
        ("succeeded", {}, 0),
        ("failed", {"reason": "exited", "exit_code": 7}, 7),
        ("failed", {"reason": "signalled", "signal": 9}, 137),
        ("failed", {"reason": "not_found"}, 127),
        ("failed", {"reason": "not_executable"}, 126),
        ("timed_out", {"reason": "run_limit"}, 124),
        ("cancelled", {"reason": "cancelled_by_user"}, 130),
        ("refused", {"reason": "no_such_dir"}, 125),
        ("lost", {"reason": "agent_silent"}, 125),
        ("failed", {"reason": "spawn_failed"}, 125),
    ],
)
def test_every_end_has_its_exit_code(
    site: PlayedSite, call: Call, state: str, more: dict[str, Any], code: int
) -> None:
    ends(site, state, **more)
    assert call("run", "true") == code


def test_an_exit_of_the_command_itself_adds_nothing_to_its_output(
    site: PlayedSite, call: Call, capfd: Any
) -> None:
    ends(site, "failed", reason="exited", exit_code=7, sentence="the command exited with 7")
    assert call("run", "--", "false") == 7
    assert capfd.readouterr() == ("", "")


def test_an_end_that_is_not_the_commands_own_is_told_with_a_way_on(
    site: PlayedSite, call: Call, capfd: Any
) -> None:
    ends(site, "lost", reason="agent_silent", sentence="its agent fell silent")
    assert call("run", "--", "true") == 125
    assert capfd.readouterr().err == (
        "error: lucky-heron was lost\n  why: its agent fell silent\n  fix: fairlead why lucky-heron\n"
    )


def test_a_cut_stream_goes_on_at_the_byte_where_it_was(site: PlayedSite, call: Call, capfd: Any) -> None:
    accepts(site)
    begun = event("state", **instance("running"))
    half = frame(OUT, b"world")[:7]
    site.on(
        ATTACH,
        Reply(raw=[begun, frame(OUT, b"hello "), frame(ERR, b"oh"), half], cut=True),
        Reply(raw=[begun, frame(OUT, b"world"), event("end", **instance("succeeded"))]),
    )
    assert call("run", "--", "true") == 0
    assert capfd.readouterr() == ("hello world", "oh")
    asked = [each.path.split("?")[1] for each in site.of(ATTACH)]
    assert asked == ["out=0&err=0", "out=6&err=2&attempt=1"]


def test_a_stream_that_ends_without_its_end_is_asked_for_again(
    site: PlayedSite, call: Call, capfd: Any
) -> None:
    accepts(site)
    end = event("end", **instance("succeeded"))
    site.on(ATTACH, Reply(raw=[frame(OUT, b"a")]), Reply(raw=[frame(OUT, b"b"), end]))
    assert call("run", "--", "true") == 0
    assert capfd.readouterr().out == "ab"


def test_a_rerun_prints_the_new_attempt_from_its_beginning(site: PlayedSite, call: Call, capfd: Any) -> None:
    accepts(site)
    again = [event("attempt", attempt=2), frame(OUT, b"second\n")]
    cut = Reply(raw=[event("state", **instance("running")), frame(OUT, b"first\n"), *again], cut=True)
    site.on(ATTACH, cut, Reply(raw=[event("end", **instance("succeeded", attempt=2))]))
    assert call("run", "--", "true") == 0
    assert capfd.readouterr().out == "first\nsecond\n"
    assert site.of(ATTACH)[1].path.endswith("out=7&err=0&attempt=2")


def test_bytes_that_are_lost_are_said_to_be(site: PlayedSite, call: Call, capfd: Any) -> None:
    accepts(site)
    gap = event("gap", stream="out", offset=2, until=12)
    cut = Reply(raw=[event("state", **instance("running")), frame(OUT, b"ab"), gap], cut=True)
    site.on(ATTACH, cut, Reply(raw=[frame(OUT, b"z"), event("end", **instance("succeeded"))]))
    assert call("run", "--", "true") == 0
    assert capfd.readouterr() == ("abz", "10 bytes of stdout are lost\n")
    assert "out=12" in site.of(ATTACH)[1].path


def test_a_lost_answer_to_the_submit_is_asked_for_again_under_the_same_key(
    site: PlayedSite, call: Call
) -> None:
    ends(site, "succeeded")
    accepted = site.answers["POST /v1/submissions"]
    site.on(
        "POST /v1/submissions", Reply(raw=[b'{"subm'], cut=True), problem(503, "no_leader", "no"), *accepted
    )
    assert call("run", "--", "true") == 0
    keys = {each.headers["idempotency-key"] for each in site.of("POST /v1/submissions")}
    assert len(site.of("POST /v1/submissions")) == 3
    assert len(keys) == 1


def test_an_unanswered_run_ends_with_125_after_the_time_it_was_given(
    site: PlayedSite, call: Call, capfd: Any
) -> None:
    site.close()
    assert call("run", "--connect-timeout", "0.2", "--", "true") == 125
    error = capfd.readouterr().err.splitlines()
    assert error[-3:] == [
        f"error: no answer from {site.api} within 0.2s",
        "  why: its socket is not there, so no server runs",
        f"  fix: fairlead up --detach --dir {site.path.parent.parent}",
    ]


def test_a_site_that_is_down_is_said_to_be_so_once(
    site: PlayedSite, call: Call, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.ctl.client.SAY_DOWN_AFTER", 0.1)
    site.close()
    assert call("status", "--connect-timeout", "1") == 125
    told = capfd.readouterr().err.splitlines()
    assert told[0] == "no server runs (fairlead up); waiting up to 1s for one"
    assert len(told) == 4


def test_a_refused_job_is_told_whole_by_option_and_ends_with_125(
    site: PlayedSite, call: Call, capfd: Any
) -> None:
    first = {"code": "x", "message": "`-1` is negative", "where": "jobs[0].resources.cpu", "why": "0 or more"}
    second = {"code": "name", "message": "`9` is not a name", "where": "jobs[0].name"}
    site.on("POST /v1/submissions", Reply({**first, "problems": [first, second]}, 400))
    assert call("run", "--cpus", "-1", "--name", "9", "--", "true") == 125
    assert capfd.readouterr().err == (
        "error: --cpus: `-1` is negative\n  why: 0 or more\n  fix: fairlead run --cpus 1 --name build -- true\n"
        "error: --name: `9` is not a name\n  fix: fairlead run --cpus 1 --name build -- true\n"
    )


def test_detach_prints_the_id_alone(site: PlayedSite, call: Call, capfd: Any) -> None:
    accepts(site)
    assert call("run", "--detach", "--", "sleep", "5") == 0
    assert capfd.readouterr().out == "j-1\n"
    assert site.heard[0].json()["jobs"][0]["on_caller_gone"] == "continue"


def test_what_run_asks_for_is_a_job_that_the_model_accepts(site: PlayedSite, call: Call) -> None:
    ends(site, "succeeded")
    options = (
        "--name unit --cpus 500m --memory 4GiB --gpus 1 --resource licence.synth=2 --parallel 1 --limit 10m"
    )
    more = ["--where", "region == eu", "--env", "CI=true", "--label", "team=core", "--priority", "7"]
    assert call("run", *options.split(), *more, "--needs", "build", "--", "sh", "-c", "exit 7") == 0
    sent = site.heard[0].json()
    read = read_submission(sent)
    assert not isinstance(read, list)
    spec = read.specs[0]
    assert (spec.name, spec.command, spec.dir) == ("unit", ["sh", "-c", "exit 7"], os.getcwd())
    assert spec.ask == {"cpu": 500, "memory": 4 << 30, "gpu": 1000, "licence.synth": 2000}
    assert (spec.where, spec.labels, spec.priority) == (["region == eu"], {"team": "core"}, 7)
    assert (spec.run_ms, spec.parallel) == (600_000, 1)
    assert spec.env == {"CI": "true", "PATH": os.environ["PATH"]}
    assert spec.cancel_when_caller_gone
    assert [need.job for need in spec.needs] == ["build"]


def test_elsewhere_it_runs_in_a_fresh_workspace() -> None:
    given = dict.fromkeys(("name", "cpus", "memory", "gpus", "count", "parallel", "limit", "priority"))
    lists: dict[str, Any] = dict.fromkeys(("resources", "where", "needs", "env", "labels"), ())
    assert document(("true",), {**given, **lists}, local=False) == {"command": ["true"]}


def test_options_behind_the_command_are_the_commands(site: PlayedSite, call: Call) -> None:
    ends(site, "succeeded")
    assert call("run", "echo", "--name", "-q") == 0
    assert site.heard[0].json()["jobs"][0]["command"] == ["echo", "--name", "-q"]


def test_of_several_instances_each_is_printed_in_turn_and_the_worst_code_counts(
    site: PlayedSite, call: Call, capfd: Any
) -> None:
    accepts(site)
    for index, code in enumerate((0, 3, 0)):
        state = instance("failed" if code else "succeeded", index=index, exit_code=code, reason="exited")
        path = f"GET /v1/jobs/j-1/instances/{index}/attach"
        site.on(path, Reply(raw=[frame(OUT, b"%d\n" % index), event("end", **state)]))
    assert call("run", "--count", "3", "--", "true") == 3
    assert capfd.readouterr() == ("0\n1\n2\n", "lucky-heron: 1 of 3 did not succeed: 1 failed\n")


def test_attach_goes_on_where_the_work_is(site: PlayedSite, call: Call, capfd: Any) -> None:
    ends(site, "failed", reason="exited", exit_code=4)
    site.on("GET /v1/jobs/ci%2Funit", Reply({"id": "j-1", "name": "unit", "count": 1}))
    assert call("attach", "ci/unit") == 4


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 1000])
def test_frames_are_whole_however_they_are_cut(size: int) -> None:
    wanted = [(1, b"abc"), (0, b"{}"), (2, b""), (1, bytes(300))]
    stream = b"".join(frame(kind, payload) for kind, payload in wanted)
    assert list(frames(stream[at : at + size] for at in range(0, len(stream), size))) == wanted


def client(site: PlayedSite, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "FAIRLEAD_API": site.api}
    return subprocess.Popen(
        [sys.executable, "-m", "fairlead", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[3] / "src",
        **options,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_off_a_terminal_an_interrupt_cancels_and_waits_for_the_end(
    site: PlayedSite, number: signal.Signals
) -> None:
    accepts(site)
    running = [event("state", **instance("running")), frame(OUT, b"begun\n")]
    ended = [frame(OUT, b"cleaned up\n"), event("end", **instance("cancelled", reason="cancelled_by_user"))]
    site.on(ATTACH, Reply(raw=running, hold=True), Reply(raw=ended))
    site.on("POST /v1/jobs/j-1/cancel", Reply({"name": "j-1", "said": "ok"}))
    process = client(site, "run", "--", "make")
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"cleaned up\n", b"")
    assert len(site.of("POST /v1/jobs/j-1/cancel")) == 1


def test_a_second_interrupt_leaves_at_once(site: PlayedSite) -> None:
    accepts(site)
    running = [event("state", **instance("running")), frame(OUT, b"begun\n")]
    site.on(ATTACH, Reply(raw=running, hold=True))
    site.on("POST /v1/jobs/j-1/cancel", Reply({"name": "j-1", "said": "ok"}))
    process = client(site, "run", "--", "make")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    site.wait_for(ATTACH, 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130


def test_a_run_begun_in_an_outage_waits_and_completes(site: PlayedSite) -> None:
    ends(site, "succeeded")
    site.close()
    process = client(site, "run", "--", "true")
    assert process.stderr is not None
    assert b"no server runs" in process.stderr.readline()
    site.open()
    process.communicate(timeout=20)
    assert process.returncode == 0


def test_a_reader_that_goes_away_ends_the_work(site: PlayedSite) -> None:
    accepts(site)
    many = [frame(OUT, b"y\n" * 30_000) for _ in range(20)]
    site.on(ATTACH, Reply(raw=[event("state", **instance("running")), *many], hold=True))
    site.on("POST /v1/cancel", Reply({"items": [{"name": "j-1", "said": "ok"}]}))
    process = client(site, "run", "--", "yes")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(20) == 141, process.stderr.read()
    assert site.of("POST /v1/cancel")[0].json() == {"names": ["j-1"], "caller_gone": True}
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def test_the_submitted_body_is_what_the_front_reads(site: PlayedSite, call: Call) -> None:
    ends(site, "succeeded")
    assert call("run", "--", "true") == 0
    heard = site.heard[0]
    assert heard.headers["content-type"] == "application/json"
    assert msgspec.json.decode(heard.body) == json.loads(heard.body)


@pytest.mark.parametrize(
    ("typed", "fix"),
    [
        ("--label foo -- true", "run --label foo=core -- true"),
        ("--label a=b --label foo --count 2 true", "run --label a=b --label foo=core --count 2 true"),
        ("--env UNHEARD_OF -- true", "run --env UNHEARD_OF= -- true"),
        ("--resource disk true", "run --resource disk=1GiB true"),
        ("--resource gpu true", "run --resource disk=1GiB true"),
    ],
)
def test_the_way_out_of_a_wrong_option_is_the_line_that_was_typed(
    site: PlayedSite, call: Call, capfd: Any, typed: str, fix: str
) -> None:
    assert call("run", *typed.split()) == 125
    told = capfd.readouterr().err
    assert told.splitlines()[-1] == f"  fix: fairlead {fix}"
    assert told.splitlines()[0].count("--") == 1


def test_a_value_is_mended_as_it_was_probably_meant(site: PlayedSite, call: Call, capfd: Any) -> None:
    refused = {
        "code": "unit",
        "message": "`10` has no unit",
        "where": "jobs[0].limits.run",
        "fix": "write 10s",
    }
    site.on("POST /v1/submissions", problem(400, **refused))
    assert call("run", "--limit", "10", "make", "--limit", "4") == 125
    assert capfd.readouterr().err.splitlines()[-1] == "  fix: fairlead run --limit 10s make --limit 4"


def test_input_that_the_command_will_not_see_is_said_once(site: PlayedSite) -> None:
    ends(site, "succeeded")
    for given, note in ((b"x", b"note: standard input is not passed on yet\n"), (None, b"")):
        more = {"input": given} if given else {"stdin": subprocess.DEVNULL}
        environment = {**os.environ, "FAIRLEAD_API": site.api}
        told = subprocess.run(
            [sys.executable, "-m", "fairlead", "run", "--", "cat"],
            env=environment,
            cwd=Path(__file__).parents[3] / "src",
            capture_output=True,
            timeout=20,
            check=True,
            **more,  # type: ignore[call-overload]
        )
        assert told.stderr == note


class Terminal:
    """A `run` whose input and talk are a terminal, with somebody at it."""

    def __init__(self, site: PlayedSite) -> None:
        self.mine, theirs = pty.openpty()
        environment = {**os.environ, "FAIRLEAD_API": site.api, "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairlead", "run", "--", "make"],
            env=environment,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            cwd=Path(__file__).parents[3] / "src",
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        os.write(self.mine, text.encode())

    def read_to(self, text: bytes) -> None:
        seen = b""
        while text not in seen:
            assert select.select([self.mine], [], [], 20)[0], seen
            seen += os.read(self.mine, 4096)

    def leave(self) -> int:
        assert self.process.stdout is not None
        self.process.stdout.close()
        code = self.process.wait(20)
        os.close(self.mine)
        return code


@pytest.mark.parametrize(("answers", "cancels"), [([], 1), (["x", "cancle", "c"], 1), (["d"], 0)])
def test_on_a_terminal_ctrl_c_asks_until_it_is_answered_and_a_second_one_cancels(
    site: PlayedSite, answers: list[str], cancels: int
) -> None:
    accepts(site)
    running = [event("state", **instance("running")), frame(OUT, b"begun\n")]
    ended = [event("end", **instance("cancelled", reason="cancelled_by_user"))]
    site.on(ATTACH, Reply(raw=running, hold=True), Reply(raw=ended))
    site.on("POST /v1/jobs/j-1/cancel", Reply({"name": "j-1", "said": "ok"}))
    site.on("POST /v1/jobs/j-1/detach", Reply({"name": "j-1", "said": "ok"}))
    terminal = Terminal(site)
    assert terminal.process.stdout is not None
    assert terminal.process.stdout.readline() == b"begun\n"
    terminal.process.send_signal(signal.SIGINT)
    terminal.read_to(b"[c/d/G]")
    for at, answer in enumerate(answers):
        if at:
            terminal.read_to(b"[c/d/G]")
        terminal.type(f"{answer}\n")
    if not answers:
        terminal.process.send_signal(signal.SIGINT)
    assert terminal.leave() == 130
    assert len(site.of("POST /v1/jobs/j-1/cancel")) == cancels
    assert len(site.of("POST /v1/jobs/j-1/detach")) == 1 - cancels


def test_an_unanswered_question_means_going_on(site: PlayedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        assert steering._typed(Signals(), 0, time.monotonic()) == ""
        assert steering.CHOICES[""] == "go on"
    os.close(mine)
