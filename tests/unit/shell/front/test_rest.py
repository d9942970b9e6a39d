from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
from tests.unit.shell.front.harness import MemoryControl, run, running

from fairlead.model import changes, requests
from fairlead.model.errors import Problem
from fairlead.model.jobs import decode_spec
from fairlead.model.keys import one
from fairlead.model.lifecycles import Wanted
from fairlead.model.requests import Changed
from fairlead.shell.front import access
from fairlead.shell.front.routes import ROUTES
from fairlead.shell.front.server import short_path
from fairlead.shell.front.submissions import Body, read_body

JOBS = {"name": "ci", "jobs": [{"name": "build", "command": ["make"]}, {"name": "test", "run": "make test"}]}


def job(number: str = "j-1", **facts: Any) -> dict[str, Any]:
    return {"id": number, "name": "build", "state": "pending", "pending_output": 0, **facts}


def asked(control: MemoryControl, kind: type) -> list[Any]:
    return [request for request in control.asked if type(request) is kind]


def test_a_submission_in_json_reaches_control_as_checked_specs(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            answer = await front.call("POST", "/v1/submissions", {**JOBS, "tenant": "core"})
            assert answer.status == 201
            assert answer.json == {"submission": "ci-1", "jobs": ["j-1", "j-2"], "names": ["a"]}
            (sent,) = asked(front.control, requests.Submit)
            assert (sent.name, sent.tenant, sent.caller) == ("ci", "core", "local")
            assert [decode_spec(body).name for body in sent.specs] == ["build", "test"]

    run(work)


def test_a_job_file_in_yaml_is_a_submission_too(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            body = b"name: ci\njobs:\n- name: build\n  run: make\n"
            answer = await front.call("POST", "/v1/submissions", body, headers={"Content-Type": "text/yaml"})
            assert answer.status == 201, answer.body
            assert asked(front.control, requests.Submit)[0].tenant == "default"

    run(work)


def test_others_are_served_while_a_large_submission_is_read(tmp_path: Path) -> None:
    body = "jobs:\n" + "".join(f"- name: j{n}\n  run: make {n}\n" for n in range(3_000))

    async def work() -> None:
        async with running(tmp_path) as front:
            submitting = asyncio.create_task(
                front.call("POST", "/v1/submissions", body.encode(), headers={"Content-Type": "text/yaml"})
            )
            served = 0
            while not submitting.done():
                assert (await front.call("GET", "/healthz")).status == 200
                served += 1
            assert submitting.result().status == 201
            assert len(asked(front.control, requests.Submit)[0].specs) == 3_000
            # Some got through meanwhile; how many is the machine's business.
            assert served > 1

    run(work)


def test_everything_wrong_with_a_file_is_told_with_its_place(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            body = b"jobs:\n- name: build\n  run: make\n  prioritty: 3\n- name: b\n  run: x\n  count: lots\n"
            headers = {"Content-Type": "text/yaml", "X-File-Name": "my%20ci.yaml"}
            answer = await front.call("POST", "/v1/submissions", body, headers=headers)
            assert answer.status == 400
            assert answer.headers["content-type"] == "application/problem+json"
            assert len(answer.json["problems"]) == 2
            assert [problem["where"][:12] for problem in answer.json["problems"]] == [
                "my ci.yaml:4",
                "my ci.yaml:7",
            ]
            assert not asked(front.control, requests.Submit)

    run(work)


def test_the_same_key_and_body_again_does_it_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            key = {"Idempotency-Key": "once"}
            first = await front.call("POST", "/v1/submissions", JOBS, headers=key)
            second = await front.call("POST", "/v1/submissions", JOBS, headers=key)
            assert first.json == second.json
            assert first.headers["idempotency-key"] == "once"
            other = await front.call("POST", "/v1/submissions", {"run": "x"}, headers=key)
            assert (other.status, other.json["code"]) == (409, "key_reused")

    run(work)


def test_a_change_without_a_key_gets_one_of_the_fronts_own(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            for _ in range(2):
                await front.call("POST", "/v1/submissions", JOBS)
            keys = [sent.key for sent in asked(front.control, requests.Submit)]
            assert keys == [f"{front.site.boot}-0", f"{front.site.boot}-1"]

    run(work)


def test_an_unreachable_control_is_a_problem_that_may_be_tried_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.down = True
            answer = await front.call("POST", "/v1/submissions", JOBS)
            assert (answer.status, answer.json["code"], answer.json["retryable"]) == (
                503,
                "unavailable",
                True,
            )
            assert answer.headers["retry-after"] == "1"
            assert (await front.call("GET", "/readyz")).status == 503
            assert (await front.call("GET", "/healthz")).status == 200

    run(work)


def test_control_that_is_moving_is_a_problem_that_may_be_tried_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.answers[requests.Look] = lambda _: requests.Elsewhere("b:1")
            assert (await front.call("GET", "/v1/jobs")).status == 503

    run(work)


def test_lists_go_on_by_cursor_and_pass_filters_on(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            for n in range(5):
                front.control.items["jobs", f"j-{n}"] = job(f"j-{n}")
            first = (await front.call("GET", "/v1/jobs?limit=2&state=running")).json
            second = (await front.call("GET", f"/v1/jobs?limit=4&after={first['next']}")).json
            assert [item["id"] for item in first["items"] + second["items"]] == [f"j-{n}" for n in range(5)]
            assert second["next"] is None
            assert asked(front.control, requests.Look)[0].filters == {"state": "running"}
            await front.call("GET", "/v1/jobs?limit=100000&tenant=core")
            assert asked(front.control, requests.Look)[-1].limit == requests.LOOK_ROWS
            assert asked(front.control, requests.Look)[-1].tenant == "core"

    run(work)


def test_a_quoted_slash_belongs_to_the_name(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.items["jobs", "ci-1/build"] = job()
            assert (await front.call("GET", "/v1/jobs/ci-1%2Fbuild")).json["id"] == "j-1"
            await front.call("GET", "/v1/jobs/ci-1%2Fbuild/instances/7")
            assert asked(front.control, requests.Look)[-1].name == "ci-1/build/7"

    run(work)


def test_why_and_history_are_asked_for_jobs_and_instances(tmp_path: Path) -> None:
    async def work() -> None:
        control = MemoryControl()
        control.answers[requests.Explain] = lambda request: requests.Seen([{"name": request.name}])
        control.answers[requests.History] = lambda request: requests.Seen([{"name": request.name}])
        async with running(tmp_path, control) as front:
            for verb in ("why", "history"):
                assert (await front.call("GET", f"/v1/jobs/j-1/{verb}")).json["items"] == [{"name": "j-1"}]
                answer = await front.call("GET", f"/v1/jobs/j-1/instances/3/{verb}")
                assert answer.json["items"] == [{"name": "j-1/3"}]

    run(work)


def test_waiting_is_answered_as_soon_as_it_ended(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.items["jobs", "build"] = job(state="running")
            waiting = asyncio.create_task(front.call("GET", "/v1/jobs/build?wait=50s"))
            while front.site.feed._jobs.get(1) is None:
                await asyncio.sleep(0.005)
            looks = len(front.control.asked)
            front.control.items["jobs", "build"]["state"] = "failed"
            front.control.tell(changes.Closed(one(2, 0, 0), [3], [1]))
            front.control.tell(changes.Closed(one(1, 0, 0), [3], [1]))
            async with asyncio.timeout(1):
                assert (await waiting).json["state"] == "failed"
            assert len(front.control.asked) <= looks + 3
            assert not front.site.feed._jobs

    run(work)


def test_waiting_ends_with_its_time_and_tells_the_state(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.items["jobs", "build"] = job(state="running")
            answer = await front.call("GET", "/v1/jobs/build?wait=60ms")
            assert (answer.status, answer.json["state"]) == (200, "running")

    run(work)


def test_waiting_for_output_goes_on_behind_the_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.items["jobs", "build"] = job(state="succeeded", pending_output=1)
            front.control.items["submissions", "ci-1"] = {"id": "s-1", "state": "succeeded", "jobs": ["j-1"]}
            assert (await front.call("GET", "/v1/submissions/ci-1?wait=50s&output=1")).status == 200
            waiting = asyncio.create_task(front.call("GET", "/v1/jobs/build?wait=50s&output=1"))
            while front.site.feed._jobs.get(1) is None:
                await asyncio.sleep(0.005)
            front.control.items["jobs", "build"]["pending_output"] = 0
            front.control.tell(changes.OutputDone(one(1, 0, 1), [2], [0], [0]))
            async with asyncio.timeout(1):
                assert (await waiting).json["pending_output"] == 0

    run(work)


def test_a_cut_link_to_control_makes_waiters_look_anew(tmp_path: Path) -> None:
    async def work() -> None:
        control = MemoryControl(floor=40)
        async with running(tmp_path, control) as front:
            while front.site.feed.head != 39:
                await asyncio.sleep(0.005)
            front.control.tell(changes.Closed(one(1, 0, 0), [3], [1]))
            while front.site.feed.head != 40:
                await asyncio.sleep(0.005)
            assert front.site.feed.resyncs == 1

    run(work)


def test_many_are_cancelled_in_one_call_and_answered_each(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.items["jobs", "build"] = job()
            answer = await front.call("POST", "/v1/cancel", {"names": ["build", "nix"]})
            assert [item["said"] for item in answer.json["items"]] == ["ok", "there is no such job"]
            assert (await front.call("POST", "/v1/jobs/build/cancel")).json["said"] == "ok"
            assert (await front.call("POST", "/v1/jobs/nix/cancel")).status == 404
            assert (await front.call("POST", "/v1/cancel", {"names": []})).status == 400

    run(work)


def test_agents_are_cordoned_drained_and_opened(tmp_path: Path) -> None:
    async def work() -> None:
        control = MemoryControl()
        control.answers[requests.WantAgent] = lambda request: Changed([request.name], ["ok"])
        async with running(tmp_path, control) as front:
            for verb in ("cordon", "drain", "uncordon"):
                body = {"reason": "disk"} if verb == "drain" else b""
                assert (await front.call("POST", f"/v1/agents/a1/{verb}", body)).status == 200
            sent = asked(control, requests.WantAgent)
            assert [request.wanted for request in sent] == [Wanted.cordoned, Wanted.draining, Wanted.open]
            assert sent[1].reason == "disk"

    run(work)


def test_a_tokens_secret_is_shown_once_and_only_its_digest_is_kept(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            made = await front.call("POST", "/v1/tokens", {"role": "view"})
            assert made.status == 201
            (sent,) = asked(front.control, requests.AddToken)
            name, secret = made.json["token"].split(".")
            assert (sent.id, sent.digest) == (name, hashlib.sha256(secret.encode()).hexdigest())
            assert (sent.role, sent.uses, sent.ttl_ms) == ("view", -1, 30 * access.DAY_MS)
            joining = (await front.call("POST", "/v1/tokens", {"role": "agent"})).json["token"]
            assert len(joining.split(".")) == 3
            assert asked(front.control, requests.AddToken)[1].uses == 1
            wrong = await front.call("POST", "/v1/tokens", {"role": "king"})
            assert (wrong.status, wrong.json["where"]) == (400, "role")

    run(work)


def test_a_machine_joins_with_its_token_and_gets_its_certificate(tmp_path: Path) -> None:
    async def work() -> None:
        control = MemoryControl()
        control.answers[requests.Admit] = lambda request: requests.Admitted(
            7,
            [
                request.name if request.count == 1 else f"{request.name}-{7 + at}"
                for at in range(request.count)
            ],
            "site",
        )
        async with running(tmp_path, control) as front:
            token = (await front.call("POST", "/v1/tokens", {"role": "agent"})).json["token"]
            body = {"token": token, "csr": "CSR", "name": "box"}
            joined = await front.call("POST", "/v1/join", body, tcp=True)
            assert joined.status == 201
            assert joined.json["certificate"] == "CERTIFICATE agent 7"
            assert (joined.json["number"], joined.json["name"], joined.json["site"]) == (7, "box", "site")
            assert (joined.json["control"], joined.json["output"]) == (["c:1"], ["o:1"])
            assert joined.json["ca"].startswith("-----BEGIN")
            (admit,) = asked(control, requests.Admit)
            assert (admit.token, admit.role) == (token.split(".")[0], "agent")
            many = (await front.call("POST", "/v1/join", {**body, "count": 3}, tcp=True)).json
            assert [member["name"] for member in many["agents"]] == ["box-7", "box-8", "box-9"]
            bad = await front.call("POST", "/v1/join", {**body, "csr": "?"}, tcp=True)
            assert (bad.status, bad.json["where"]) == (400, "csr")
            assert (await front.call("POST", "/v1/join", {**body, "token": "x"}, tcp=True)).status == 401

    run(work)


OPEN = {"/v1/join", "/v1/renew", "/v1/authority", "/healthz", "/readyz", "/openapi.json"}


def test_without_a_token_nothing_is_served_on_tcp_but_what_everybody_may_see(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            for route in ROUTES:
                path = "/".join("1" if part.startswith("{") else part for part in route.path.split("/"))
                answer = await front.call(route.method, path, tcp=True)
                assert (answer.status == 401) == (route.path not in OPEN), (route, answer)
                assert not route.role or answer.headers["www-authenticate"] == "Bearer"

    run(work)


@pytest.mark.parametrize("role", ["view", "submit", "operator", "admin", "agent", "server"])
def test_a_role_opens_its_routes_and_no_others(tmp_path: Path, role: str) -> None:
    async def work() -> None:
        control = MemoryControl()
        control.answers[requests.Look] = lambda _: Problem("no_such", "none")
        control.principals["abcdefgh", hashlib.sha256(b"a" * 32).hexdigest()] = requests.Principal(role, "")
        token = {"Authorization": "Bearer abcdefgh." + "a" * 32}
        async with running(tmp_path, control) as front:
            for route in ROUTES:
                if route.path == "/v1/events" or not route.role:
                    continue
                path = "/".join("1" if part.startswith("{") else part for part in route.path.split("/"))
                answer = await front.call(route.method, path, headers=token, tcp=True)
                allowed = access.RANKS.get(role, 0) >= access.RANKS[route.role]
                assert (answer.status not in (401, 403)) == allowed, (route.path, answer)
            assert len(asked(control, requests.Check)) == 1

    run(work)


def test_a_token_that_is_revoked_here_opens_nothing_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            made = (await front.call("POST", "/v1/tokens", {"role": "view"})).json
            header = {"Authorization": f"Bearer {made['token']}"}
            assert (await front.call("GET", "/v1/jobs", headers=header, tcp=True)).status == 200
            assert (await front.call("DELETE", f"/v1/tokens/{made['id']}")).status == 200
            assert (await front.call("GET", "/v1/jobs", headers=header, tcp=True)).status == 401

    run(work)


def test_a_token_of_one_tenant_sees_and_submits_for_that_tenant_only(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            made = (await front.call("POST", "/v1/tokens", {"role": "submit", "tenant": "core"})).json
            header = {"Authorization": f"Bearer {made['token']}"}
            await front.call("GET", "/v1/jobs?tenant=other", headers=header, tcp=True)
            assert asked(front.control, requests.Look)[-1].tenant == "core"
            denied = await front.call(
                "POST", "/v1/submissions", {**JOBS, "tenant": "other"}, headers=header, tcp=True
            )
            assert denied.status == 403
            done = await front.call("POST", "/v1/submissions", JOBS, headers=header, tcp=True)
            assert done.status == 201
            sent = asked(front.control, requests.Submit)[-1]
            assert (sent.tenant, sent.caller) == ("core", made["id"])
            assert (await front.call("GET", "/v1/events", headers=header, tcp=True)).status == 403

    run(work)


def test_every_refusal_is_a_problem_document(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            big = b" " * (4 << 20) + b"x"
            calls = [
                ("GET", "/v1/jbos", b"", 404, "no_such_route"),
                ("GET", "/", b"", 404, "no_such_route"),
                ("GET", "/v1/jobs/%2e%2e/%00", b"", 404, "no_such_route"),
                ("PATCH", "/v1/jobs", b"", 405, "method_not_allowed"),
                ("GET", "/v1/jobs/nix", b"", 404, "no_such"),
                ("GET", "/v1/jobs/nix?wait=soon", b"", 400, "bad_parameter"),
                ("GET", "/v1/jobs/nix?wiat=1s", b"", 400, "unknown_parameter"),
                ("GET", "/v1/jobs?after=-1", b"", 400, "bad_parameter"),
                ("POST", "/v1/cancel", b"{", 400, "bad_json"),
                ("POST", "/v1/cancel", b"\xff\xfe", 400, "bad_json"),
                ("POST", "/v1/cancel", b'{"names": 3}', 400, "bad_request"),
                ("POST", "/v1/cancel", b'{"names": ["a"], "nmaes": 1}', 400, "bad_request"),
                ("POST", "/v1/submissions", big, 413, "too_large"),
                ("POST", "/v1/submissions", b"[]", 400, "not_a_mapping"),
            ]
            for method, path, body, status, code in calls:
                answer = await front.call(method, path, body)
                assert (answer.status, answer.json["code"]) == (status, code), (path, answer)
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.json["status"] == status
                assert {"type", "title", "message", "why", "where", "fix", "retryable", "retry_after"} <= set(
                    answer.json
                )
            assert "4194304" in (await front.call("POST", "/v1/submissions", big)).json["why"]
            assert (await front.call("PATCH", "/v1/jobs")).headers["allow"] == "GET"
            media = {"Content-Type": "text/csv"}
            assert (await front.call("POST", "/v1/submissions", b"a", headers=media)).status == 415

    run(work)


def test_a_fault_is_told_by_number_and_logged_with_its_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("secret detail")

    async def work() -> None:
        async with running(tmp_path) as front:
            front.control.answers[requests.Look] = broken
            answer = await front.call("GET", "/v1/jobs")
            assert (answer.status, answer.json["code"]) == (500, "fault")
            assert b"secret" not in answer.body and b"Traceback" not in answer.body
            number = answer.json["why"].split()[1].rstrip(";")
            (record,) = [record for record in caplog.records if record.exc_info]
            assert number in record.getMessage()

    run(work)


def test_figures_addresses_and_status_are_served(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            where = (await front.call("GET", "/v1/addresses")).json
            assert where["http"] == f"http://127.0.0.1:{front.site.port}"
            assert where["socket"] == front.socket
            status = (await front.call("GET", "/v1/status")).json
            assert (status["term"], status["front"]["boot"]) == (1, front.site.boot)
            text = (await front.call("GET", "/metrics")).body.decode()
            assert 'fairlead_front_requests_total{route="get_status",status="200"} 1.0' in text
            assert "fairlead_front_followers 0.0" in text
            assert (await front.call("GET", "/readyz")).json == {"status": "ready"}

    run(work)


def test_head_is_answered_like_get_without_the_body(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            with short_path(front.socket) as short:
                reader, writer = await asyncio.open_unix_connection(short)
            writer.write(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"\r\n\r\n")
            writer.close()

    run(work)


def test_a_token_is_believed_for_a_moment(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            made = (await front.call("POST", "/v1/tokens", {"role": "view"})).json
            header = {"Authorization": f"Bearer {made['token']}"}
            calls = [front.call("GET", "/v1/jobs", headers=header, tcp=True) for _ in range(10)]
            assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
            assert len(asked(front.control, requests.Check)) == 1
            front.control.principals.clear()
            assert (await front.call("GET", "/v1/jobs", headers=header, tcp=True)).status == 200
            front.site.access._known.clear()
            assert (await front.call("GET", "/v1/jobs", headers=header, tcp=True)).status == 401

    run(work)


def test_what_is_believed_of_a_token_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "BELIEVED_S", -1.0)

    async def work() -> None:
        async with running(tmp_path) as front:
            made = (await front.call("POST", "/v1/tokens", {"role": "view"})).json
            header = {"Authorization": f"Bearer {made['token']}"}
            for _ in range(3):
                assert (await front.call("GET", "/v1/jobs", headers=header, tcp=True)).status == 200
            assert len(asked(front.control, requests.Check)) == 3

    run(work)


def test_a_token_that_control_cannot_be_asked_about_is_not_called_bad(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as front:
            made = (await front.call("POST", "/v1/tokens", {"role": "view"})).json
            header = {"Authorization": f"Bearer {made['token']}"}
            front.control.down = True
            assert (await front.call("GET", "/v1/jobs", headers=header, tcp=True)).status == 503
            front.control.down = False
            assert (await front.call("GET", "/v1/jobs", headers=header, tcp=True)).status == 200

    run(work)


def test_the_same_command_under_another_key_is_called_otherwise() -> None:
    def named(headers: dict[str, str]) -> str:
        read = read_body(b'{"jobs": [{"command": ["true"]}, {"name": "x", "command": ["true"]}]}', headers)
        assert isinstance(read, Body)
        return decode_spec(read.specs[0]).name

    first, again, other = (named({"idempotency-key": key}) for key in ("k1", "k1", "k2"))
    assert first == again != other
    # What stands in a file is called after what stands there.
    file = {"x-file-name": "ci.json"}
    assert named({"idempotency-key": "k1", **file}) == named({"idempotency-key": "k2", **file})
