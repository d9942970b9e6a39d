"""What a job is, once it has been read and checked: exact numbers, no defaults left to guess.

Amounts are integers: `cpu` in thousandths of a core, `memory` and `disk` in bytes, everything else (`gpu` and
named resources) in thousandths of a piece. Times are milliseconds, 0 means none. The bounds stand in the
types, so that a body is held to them wherever it is decoded.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

LARGEST_SPEC = 256 << 10
LARGEST_COUNT = 10_000_000
# Above this a number is no longer exact in every program that reads JSON.
LARGEST_AMOUNT = (1 << 53) - 1
LONGEST_MS = 3650 * 24 * 3600 * 1000
LONGEST_GRACE_MS = 24 * 3600 * 1000
HIGHEST_PRIORITY = 1000
MOST_RETRIES = 1000
GIB = 1 << 30

NAME = r"^[A-Za-z][A-Za-z0-9._-]{0,127}\Z"

Name = Annotated[str, Meta(pattern=NAME)]
Amount = Annotated[int, Meta(ge=0, le=LARGEST_AMOUNT)]
Duration = Annotated[int, Meta(ge=0, le=LONGEST_MS)]
Grace = Annotated[int, Meta(ge=0, le=LONGEST_GRACE_MS)]
Count = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
Parallel = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
Priority = Annotated[int, Meta(ge=0, le=HIGHEST_PRIORITY)]
Retries = Annotated[int, Meta(ge=0, le=MOST_RETRIES)]


class Need(Struct, frozen=True, gc=False):
    """Another job of the same submission, or an older one by name; `on`: success, failure or always."""

    job: str
    on: str = "success"


class JobSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """One job. The agent gets this body unchanged, by its hash."""

    name: Name
    command: Annotated[list[str], Meta(min_length=1)]
    dir: str = ""
    env: dict[str, str] = {}
    inherit_env: bool = False
    merge_output: bool = False
    labels: dict[str, str] = {}
    count: Count = 1
    parallel: Parallel = 0
    ask: dict[str, Amount] = msgspec.field(default_factory=lambda: {"cpu": 1000})
    where: list[str] = []
    needs: list[Need] = []
    priority: Priority = 100
    run_ms: Duration = 0
    pending_ms: Duration = 0
    grace_ms: Grace = 10_000
    output_bytes: Amount = GIB
    retry_infrastructure: Retries = 3
    retry_job: Retries = 0
    exclusive: bool = False
    refuse_when_full: bool = False
    cancel_when_caller_gone: bool = False


_decoder = msgspec.msgpack.Decoder(JobSpec)
_encoder = msgspec.msgpack.Encoder(order="deterministic")


def encode_spec(spec: JobSpec) -> bytes:
    """The body that is hashed, stored and sent: equal specs are equal bytes."""
    return _encoder.encode(spec)


def decode_spec(body: bytes) -> JobSpec:
    """A body read back; raises msgspec.DecodeError or msgspec.ValidationError for anything else."""
    if len(body) > LARGEST_SPEC:
        raise msgspec.ValidationError(f"a job of {len(body)} bytes is larger than {LARGEST_SPEC}")
    return _decoder.decode(body)
