"""Answers of the front: JSON, and problem documents (RFC 9457) for every refusal and fault."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from starlette.responses import Response

from fairlead.model.errors import Problem

# What a code means in HTTP; every other code is a fault of the request.
STATUS: dict[str, int] = {
    "no_token": 401,
    "bad_token": 401,
    "denied": 403,
    "not_renewed": 403,
    "no_such": 404,
    "no_such_route": 404,
    "method_not_allowed": 405,
    "exists": 409,
    "key_reused": 409,
    "gap": 410,
    "too_large": 413,
    "wrong_media_type": 415,
    "too_many_followers": 429,
    "fault": 500,
}


def status_of(problem: Problem) -> int:
    """The HTTP status; what may simply be tried again is the service's fault and not the caller's."""
    return STATUS.get(problem.code, 503 if problem.retryable else 400)


def document(problem: Problem, **more: Any) -> dict[str, Any]:
    """A problem as it is sent."""
    return {
        "type": f"urn:fairlead:problem:{problem.code}",
        "title": problem.code.replace("_", " "),
        "status": status_of(problem),
        "code": problem.code,
        "message": problem.message,
        "why": problem.why,
        "where": problem.where,
        "fix": problem.fix,
        "retryable": problem.retryable,
        "retry_after": problem.retry_after_ms / 1000 if problem.retry_after_ms else None,
        **more,
    }


def refuse(problem: Problem, headers: dict[str, str] | None = None, **more: Any) -> Response:
    """The response that says no."""
    status = status_of(problem)
    sent = dict(headers or {})
    if problem.retry_after_ms:
        sent["Retry-After"] = str(math.ceil(problem.retry_after_ms / 1000))
    if status == 401:
        sent["WWW-Authenticate"] = "Bearer"
    body = msgspec.json.encode(document(problem, **more))
    return Response(body, status, sent, "application/problem+json")


def refuse_all(problems: list[Problem]) -> Response:
    """Several refusals of one request: the first one, and all of them under `problems`."""
    return refuse(problems[0], problems=[document(problem) for problem in problems])


def show(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")
