"""Requests made from the site's own OpenAPI document, sound and unsound, against a real site.

No answer is a fault of the server, every refusal is a problem document, and no log has a traceback.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.system.site import Site

EXAMPLES = 350
NAMES = [
    "a0",
    "s-1",
    "j-1",
    "last",
    "agent-1",
    "1",
    "0",
    "-1",
    "a0/0",
    "²",
    "é",
    "\x00",
    "..",
    "%",
    "a b",
    "x" * 300,
]
TEXTS = [*NAMES, "", "default", "running", "1e400", "null", "9" * 5_000, "\n", "💥"]
NUMBERS = ["0", "1", "-1", "999999999999999", "9" * 40, "1.5", "²", "", "x"]
# Only what ends at once: a fuzzer need not wait.
DURATIONS = ["0s", "1ms", "-1s", "1", "x", "", "99999999999d"]
JOBS = [
    {"run": "true"},
    {"name": "a0", "run": "true", "count": 2},
    {"command": ["true"], "resources": {"cpu": "64"}},
    {"name": "b", "run": "true", "needs": ["a0"]},
    {"name": "b", "run": "true", "count": -1},
    {"name": "b", "run": "true", "matrix": {"py": [1, 2.5, None]}},
    {"name": "b", "run": "true", "resources": {"cpu": "1e999", "memory": "-4GiB", "": []}},
    {"name": "b", "run": "true", "limits": {"run": "9999999999d"}},
    {"name": "b", "run": "true", "where": ["arch in ("], "labels": {"": None}},
    {"name": "b", "run": "true", "env": {"A=": "\x00"}},
    {"nmae": "b"},
    {},
    [],
    None,
]


@dataclass(frozen=True)
class Asked:
    """One request, with the route that it is made for."""

    route: str
    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def anything() -> st.SearchStrategy[Any]:
    """Any small JSON."""
    plain = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)
    )
    return st.recursive(
        plain,
        lambda more: st.lists(more, max_size=3) | st.dictionaries(st.text(max_size=5), more, max_size=3),
        max_leaves=6,
    )


def fitting(schema: dict[str, Any], schemas: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a schema, and now and then of another type."""
    if "$ref" in schema:
        return fitting(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    kind = schema.get("type")
    if kind == "object":
        fields = {name: fitting(one, schemas) for name, one in schema.get("properties", {}).items()}
        needed = {name: fields.pop(name) for name in schema.get("required", [])}
        return st.fixed_dictionaries(needed, optional=fields)
    if kind == "string":
        return st.sampled_from(TEXTS) | st.text(max_size=12) | anything()
    if kind == "integer":
        return st.integers(-2, 5) | st.integers() | anything()
    if kind == "array":
        return st.lists(fitting(schema.get("items", {}), schemas), max_size=4) | anything()
    return anything()


def values(parameter: dict[str, Any]) -> st.SearchStrategy[str]:
    """What may stand behind a query parameter."""
    schema = parameter["schema"]
    if "enum" in schema:
        return st.sampled_from([*schema["enum"], "x"])
    if schema["type"] == "integer":
        return st.sampled_from(NUMBERS)
    return st.sampled_from(DURATIONS if parameter["name"] == "wait" else TEXTS)


def requests_of(document: dict[str, Any]) -> st.SearchStrategy[Asked]:
    """Requests to everything that the document names."""

    @st.composite
    def asked(draw: st.DrawFn) -> Asked:
        path = draw(st.sampled_from(sorted(document["paths"])))
        method = draw(st.sampled_from(sorted(document["paths"][path])))
        operation = document["paths"][path][method]
        filled, pairs = path, []
        for parameter in operation["parameters"]:
            name = parameter["name"]
            if parameter["in"] == "path":
                filled = filled.replace("{" + name + "}", quote(draw(st.sampled_from(NAMES)), safe=""))
            elif name != "follow" and draw(st.booleans()):
                pairs.append((name, draw(values(parameter))))
        if draw(st.integers(0, 4)) == 0:
            pairs.append((draw(st.sampled_from(["state", "x", "name", ""])), draw(st.sampled_from(TEXTS))))
        body, headers = draw(bodies(path, operation, document["components"]["schemas"]))
        query = f"?{urlencode(pairs)}" if pairs else ""
        verb = (
            method.upper() if draw(st.integers(0, 15)) else draw(st.sampled_from(["PUT", "PATCH", "DELETE"]))
        )
        return Asked(f"{method} {path}", verb, filled + query, body, headers)

    return asked()


@st.composite
def bodies(
    draw: st.DrawFn, path: str, operation: dict[str, Any], schemas: dict[str, Any]
) -> tuple[bytes, dict[str, str]]:
    content = operation.get("requestBody", {}).get("content", {})
    if not content or draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5_000])), {}
    schema = content.get("application/json", {}).get("schema", {})
    made = draw(fitting(schema, schemas))
    headers = {"Content-Type": draw(st.sampled_from([*content, "x/y", ""]))}
    if path == "/v1/submissions":
        made = {
            "jobs": draw(st.lists(st.sampled_from(JOBS), max_size=3)),
            **draw(st.sampled_from([{}, {"name": "ci"}])),
        }
        headers["Idempotency-Key"] = draw(st.sampled_from(["", "k1", "k2", "x" * 300]))
    return json.dumps(made).encode(), headers


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    one = Site(tmp_path_factory.mktemp("fuzz"), agents=1)
    one.up()
    yield one
    one.close()


class Caller:
    """An administrator with a token, on one connection for as long as that goes."""

    def __init__(self, site: Site) -> None:
        self._address = site.address
        self._token = site.run("token", "create", "--role", "admin").text
        self._line = self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._address, timeout=30)

    def ask(self, one: Asked) -> tuple[int, str, bytes]:
        """Status, media type and body; of an answer without end only its head."""
        headers = {"Authorization": f"Bearer {self._token}", **one.headers}
        self._line.request(one.method, one.path, one.body or None, headers)
        answer = self._line.getresponse()
        kind = answer.headers.get_content_type()
        endless = answer.status == 200 and kind in ("text/event-stream", "application/octet-stream")
        data = b"" if endless else answer.read()
        if endless:
            self._line.close()
        return answer.status, kind, data

    def close(self) -> None:
        """No more calls."""
        self._line.close()


PROBLEM = {"type": str, "title": str, "status": int, "code": str, "message": str, "retryable": bool}


def judge(one: Asked, status: int, kind: str, data: bytes) -> None:
    assert status < 500, (one, status, data[:500])
    if status >= 400:
        assert kind == "application/problem+json", (one, status, data[:200])
        told = json.loads(data)
        assert told["status"] == status and told["code"] and told["message"], told
        assert all(isinstance(told[name], form) for name, form in PROBLEM.items()), told
        assert "Traceback" not in data.decode()
    elif kind == "application/json":
        json.loads(data)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_that_is_asked_is_a_fault_of_the_server(site: Site) -> None:
    caller = Caller(site)
    status, _, data = caller.ask(Asked("", "GET", "/openapi.json"))
    assert status == 200
    answered: dict[str, set[int]] = {}

    @given(requests_of(json.loads(data)))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def any_request(one: Asked) -> None:
        status, kind, data = caller.ask(one)
        answered.setdefault(one.route, set()).add(status)
        judge(one, status, kind, data)

    any_request()
    assert len(answered) > 25, answered
    opened, _, _ = caller.ask(Asked("", "POST", "/v1/agents/agent-1/uncordon"))
    assert opened == 200
    assert site.run("run", "--", "echo", "unimpressed", timeout=120).text == "unimpressed"
    caller.close()
