"""Writes the table of routes as OpenAPI 3.1, and as the table in the docs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from .answers import show
from .site import Site
from .table import KINDS, Route

PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "message", "retryable"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "What programs decide by."},
        "message": {"type": "string", "description": "What is wrong."},
        "why": {"type": "string"},
        "where": {"type": "string", "description": "A place in the caller's own input."},
        "fix": {"type": "string", "description": "A command to paste, or one instruction."},
        "retryable": {"type": "boolean"},
        "retry_after": {"type": ["number", "null"], "description": "Seconds."},
        "problems": {"type": "array", "items": {"$ref": "#/components/schemas/Problem"}},
    },
}
PAGE = {
    "type": "object",
    "required": ["items", "next"],
    "properties": {
        "items": {"type": "array", "items": {"type": "object"}},
        "next": {"type": ["integer", "null"], "description": "Goes into `after` for the next page."},
    },
}


def describe(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """The document."""
    bodies = sorted(
        {route.body for route in routes if route.body is not None}, key=lambda body: body.__name__
    )
    _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Fairlead", "version": version or "0", "summary": "Work in, output back."},
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Problem": PROBLEM, "Page": PAGE},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


async def openapi(routes: Sequence[Route], site: Site) -> Response:
    """The document, served."""
    return show(describe(routes, site.options.version))


def _operation(route: Route) -> dict[str, Any]:
    places = [
        {"name": place, "in": "path", "required": True, "schema": {"type": "string"}}
        for place in route.places
    ]
    query = [
        {"name": one.name, "in": "query", "description": one.about, "schema": KINDS[one.kind][2]}
        for one in route.query
    ]
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "parameters": [*places, *query],
        "responses": {
            str(route.status): {"description": "Done.", "content": {route.gives: {"schema": _answer(route)}}},
            "default": {
                "description": "A problem.",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
        "security": [{"token": []}] if route.role else [],
        "x-role": route.role or "none",
    }
    content: dict[str, Any] = {media: {"schema": {}} for media in route.media}
    if route.body is not None:
        content["application/json"] = {"schema": {"$ref": f"#/components/schemas/{route.body.__name__}"}}
    if content:
        operation["requestBody"] = {"content": content, "required": True}
    return operation


def _answer(route: Route) -> dict[str, Any]:
    if route.gives != "application/json":
        return {"type": "string"}
    return {"$ref": "#/components/schemas/Page"} if route.filtered else {"type": "object"}


def as_table(routes: Sequence[Route]) -> str:
    """The table in the docs."""
    lines = ["| route | role | parameters | what |", "| --- | --- | --- | --- |"]
    for route in routes:
        names = " ".join(f"`{one.name}`" for one in route.query) + (" filters" if route.filtered else "")
        lines.append(
            f"| `{route.method} {route.path}` | {route.role or '–'} | {names.strip() or '–'} | {route.about} |"
        )
    return "\n".join(lines)
