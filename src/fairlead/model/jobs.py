"""What a job is, once it has been read and checked: exact numbers, no defaults left to guess.

Amounts are integers: `cpu` in thousandths of a core, `memory` and `disk` in bytes, everything else (`gpu` and
named resources) in thousandths of a piece. Times are milliseconds, 0 means none.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

LARGEST_SPEC = 256 << 10
LARGEST_COUNT = 10_000_000
GIB = 1 << 30


class Need(Struct, frozen=True, gc=False):
    """Another job of the same submission, or an older one by name; `on`: success, failure or always."""

    job: str
    on: str = "success"


class JobSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """One job. The agent gets this body unchanged, by its hash."""

    name: str
    command: list[str]
    dir: str = ""
    env: dict[str, str] = {}
    inherit_env: bool = False
    merge_output: bool = False
    labels: dict[str, str] = {}
    count: int = 1
    parallel: int = 0
    ask: dict[str, int] = {"cpu": 1000}
    where: list[str] = []
    needs: list[Need] = []
    priority: int = 100
    run_ms: int = 0
    pending_ms: int = 0
    grace_ms: int = 10_000
    output_bytes: int = GIB
    retry_infrastructure: int = 3
    retry_job: int = 0
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
    return _decoder.decode(body)
