"""Reads the body of a submission, JSON or a job file, into exact specs; or everything wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from fairlead.model.errors import Problem, quote
from fairlead.model.jobs import encode_spec
from fairlead.model.speakable import make_name
from fairlead.model.submission import read_submission

from .yaml12 import load

JSON = "application/json"
YAML = ("text/yaml", "application/yaml", "application/x-yaml", "text/x-yaml")
LONGEST_FILE_NAME = 200


class Body(Struct, frozen=True):
    """Jobs to submit, encoded, and their digest; `tenant` empty: the caller's own."""

    name: str
    specs: list[bytes]
    digest: str
    tenant: str


def read_body(data: bytes, headers: Mapping[str, str]) -> Body | list[Problem]:
    """What a body asks for. `X-File-Name` (quoted as in URLs) is what its places are called after."""
    media = headers.get("content-type", JSON).split(";")[0].strip().lower()
    if media in YAML:
        name = unquote(headers.get("x-file-name", ""))[:LONGEST_FILE_NAME] or "request.yaml"
        loaded = load(data, name)
    elif media == JSON:
        # Without a name nobody looks for places: a program is told paths.
        loaded = load(data, "")
    else:
        said = f"a submission is JSON or YAML, not {media}"
        return [Problem("wrong_media_type", said, fix="Content-Type: application/json, or text/yaml")]
    if isinstance(loaded, Problem):
        return [loaded]
    document = loaded.document
    tenant = _take_tenant(document) if media == JSON else ""
    if isinstance(tenant, Problem):
        return [tenant]
    key = headers.get("idempotency-key", "")
    if media == JSON and key and "x-file-name" not in headers:
        _name_after(document, key)
    read = read_submission(document, loaded.places if media in YAML else None)
    if isinstance(read, list):
        return read
    specs = [encode_spec(spec) for spec in read.specs]
    return Body(read.name, specs, sha256(msgspec.msgpack.encode([read.name, specs])).hexdigest(), tenant)


def _name_after(document: Any, key: str) -> None:
    """A program's jobs without a name are called after its key: the same command again is another job."""
    listed = document.get("jobs") if isinstance(document, dict) else None
    jobs = [job for job in listed if isinstance(job, dict)] if isinstance(listed, list) else []
    taken = {job["name"] for job in jobs if isinstance(job.get("name"), str)}
    for at, job in enumerate(jobs):
        if job.get("name") is None:
            again = 0
            while (name := make_name(f"{key} {at} {again}".encode())) in taken:
                again += 1
            taken.add(name)
            job["name"] = name


def _take_tenant(document: Any) -> str | Problem:
    """A program says beside the jobs whose they are; a job file does not."""
    tenant = document.pop("tenant", None) if isinstance(document, dict) else None
    if tenant is None:
        return ""
    if not isinstance(tenant, str) or not 0 < len(tenant) <= 128:
        return Problem("not_a_name", f"tenant is {quote(tenant)}", where="tenant", fix='"tenant": "team-a"')
    return tenant
