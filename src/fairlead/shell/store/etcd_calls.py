"""Requests to an etcd of one or more members: which member is asked, for how long, and what an error means.

A request goes to the member that answered last. When it does not answer within its share of the deadline, the
same request goes to the next, so every request must be harmless when it takes effect twice.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from msgspec import Struct

from fairlead.shell.store.pb import rpc_pb2 as pb

LARGEST_ANSWER = 32 << 20
"""Bytes of one answer that we take; a page of the fewest keys with the largest values is half of it."""
DEFRAGMENT_S = 60.0
"""Seconds for one member to rewrite its file: some 100 MB/s, and etcd advises against files above 8 GB."""
METADATA = (("hasleader", "true"),)
"""Asks a member that is cut off from its leader to say so at once, instead of waiting."""
OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST_ANSWER),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A connection that died in silence is found out by a ping; etcd takes offence below one in 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    # Two stores of one process must not share a connection, nor each other's trouble.
    ("grpc.use_local_subchannel_pool", 1),
)


class Address(Struct, frozen=True):
    """Where an etcd is: `host:port` of its members, files for TLS, and the prefix of our keys."""

    endpoints: list[str]
    prefix: str = "fairlead/"
    ca: str = ""
    cert: str = ""
    key: str = ""


class Why(Enum):
    """Why a request has no answer that can be used."""

    UNANSWERED = "unanswered"  # it may have taken effect
    NO_SPACE = "no space"  # the quota is used up
    NO_LEASE = "no lease"  # the lease it names is over
    LEASE_EXISTS = "lease exists"  # the same request was granted before
    COMPACTED = "compacted"  # the revision it names is forgotten
    TOO_LARGE = "too large"  # the answer is larger than we take


class CallFailed(Exception):
    """A request that no member answered with a result."""

    def __init__(self, why: Why, details: str) -> None:
        super().__init__(details)
        self.why = why
        self.details = details


# An error of etcd is a status code and a phrase in its text; anything else is Why.UNANSWERED.
PHRASES = [
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "space exceeded", Why.NO_SPACE),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max", Why.TOO_LARGE),
    (grpc.StatusCode.NOT_FOUND, "lease not found", Why.NO_LEASE),
    (grpc.StatusCode.FAILED_PRECONDITION, "lease already exists", Why.LEASE_EXISTS),
    (grpc.StatusCode.OUT_OF_RANGE, "compacted", Why.COMPACTED),
]
OUR_BUGS = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED}
"""These mean a request that no etcd would take: a fault to be seen, not repeated."""

# Each request type has one method, and that one answer type.
METHODS: dict[type, tuple[str, type]] = {
    pb.RangeRequest: ("/etcdserverpb.KV/Range", pb.RangeResponse),
    pb.TxnRequest: ("/etcdserverpb.KV/Txn", pb.TxnResponse),
    pb.CompactionRequest: ("/etcdserverpb.KV/Compact", pb.CompactionResponse),
    pb.LeaseGrantRequest: ("/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantResponse),
    pb.LeaseRevokeRequest: ("/etcdserverpb.Lease/LeaseRevoke", pb.LeaseRevokeResponse),
    pb.AlarmRequest: ("/etcdserverpb.Maintenance/Alarm", pb.AlarmResponse),
    pb.DefragmentRequest: ("/etcdserverpb.Maintenance/Defragment", pb.DefragmentResponse),
    pb.LeaseKeepAliveRequest: ("/etcdserverpb.Lease/LeaseKeepAlive", pb.LeaseKeepAliveResponse),
}


class Calls:
    """The members of one etcd, asked as if they were one."""

    def __init__(self, address: Address, deadline_ms: int) -> None:
        credentials = _credentials(address)
        self._members = [Member(endpoint, credentials) for endpoint in address.endpoints]
        self._share_s = deadline_ms / 1000 / len(self._members)
        self._current = 0

    async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        """Keys and values, as of the newest revision or of the named one."""
        answer: pb.RangeResponse = await self._ask(request)
        return answer

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        """One transaction."""
        answer: pb.TxnResponse = await self._ask(request)
        return answer

    async def compact(self, revision: int, thoroughly: bool) -> None:
        """Let etcd forget what was overwritten or deleted before a revision; thoroughly: return when it has."""
        request = pb.CompactionRequest(revision=revision, physical=thoroughly)
        try:
            await self._ask(request, DEFRAGMENT_S if thoroughly else None)
        except CallFailed as failed:
            if failed.why is not Why.COMPACTED:  # etcd compacts on its own too, when it is set up so
                raise

    async def grant(self, lease: int, ttl_s: int) -> None:
        """Begin a lease under a number of our own choice."""
        try:
            await self._ask(pb.LeaseGrantRequest(ID=lease, TTL=ttl_s))
        except CallFailed as failed:
            if failed.why is not Why.LEASE_EXISTS:
                raise

    async def revoke(self, lease: int) -> bool:
        """End a lease and delete the keys bound to it; False when it was over."""
        try:
            await self._ask(pb.LeaseRevokeRequest(ID=lease))
        except CallFailed as failed:
            if failed.why is not Why.NO_LEASE:
                raise
            return False
        return True

    async def keep_alive(self, lease: int) -> bool:
        """Let a lease run anew; False when it is over."""
        answer: pb.LeaseKeepAliveResponse = await self._ask(pb.LeaseKeepAliveRequest(ID=lease))
        return answer.TTL > 0

    async def reopen(self) -> None:
        """Give back to the disk what compaction has freed, and let a full etcd take writes again."""
        for member in self._members:
            try:
                await member.ask(pb.DefragmentRequest(), DEFRAGMENT_S)
            except grpc.aio.AioRpcError as error:
                raise _read(error) from error
        raised: pb.AlarmResponse = await self._ask(pb.AlarmRequest(action=pb.AlarmRequest.GET))
        for one in raised.alarms:
            if one.alarm == pb.NOSPACE:
                action = pb.AlarmRequest.DEACTIVATE
                await self._ask(pb.AlarmRequest(action=action, memberID=one.memberID, alarm=one.alarm))

    async def close(self) -> None:
        """Hang up on every member."""
        for member in self._members:
            await member.channel.close(None)

    async def _ask(self, request: Any, timeout_s: float | None = None) -> Any:
        """The first answer of any member, asking each once."""
        failed: CallFailed | None = None
        for _ in self._members:
            asked = self._current
            try:
                return await self._members[asked].ask(request, timeout_s or self._share_s)
            except grpc.aio.AioRpcError as error:
                failed = _read(error)
            if failed.why is not Why.UNANSWERED:
                break
            if self._current == asked:
                self._current = (asked + 1) % len(self._members)
        assert failed is not None  # there is at least one member
        raise failed


class Member:
    """The connection to one member of an etcd."""

    def __init__(self, endpoint: str, credentials: grpc.ChannelCredentials | None) -> None:
        if credentials is None:
            self.channel = grpc.aio.insecure_channel(endpoint, OPTIONS)
        else:
            self.channel = grpc.aio.secure_channel(endpoint, credentials, OPTIONS)
        self._methods: dict[type, Any] = {}
        for request, (name, answer) in METHODS.items():
            streams = request is pb.LeaseKeepAliveRequest
            method: Any = self.channel.stream_stream if streams else self.channel.unary_unary
            self._methods[request] = method(
                name,
                request_serializer=request.SerializeToString,  # type: ignore[attr-defined]
                response_deserializer=answer.FromString,  # type: ignore[attr-defined]
            )

    async def ask(self, request: Any, timeout_s: float) -> Any:
        """One request, one answer."""
        method = self._methods[type(request)]
        if not isinstance(request, pb.LeaseKeepAliveRequest):
            return await method(request, timeout=timeout_s, metadata=METADATA)
        # The stream could carry many; one that carries a single pair cannot hand us an older answer.
        answers = [answer async for answer in method(iter([request]), timeout=timeout_s, metadata=METADATA)]
        if len(answers) != 1:
            raise CallFailed(Why.UNANSWERED, f"the stream ended with {len(answers)} answers instead of one")
        return answers[0]


def _read(error: grpc.aio.AioRpcError) -> CallFailed:
    """What an error means; raises it again when it means that our request is wrong."""
    code, details = error.code(), error.details() or ""
    if code in OUR_BUGS:
        raise error
    for known, phrase, why in PHRASES:
        if code == known and phrase in details:
            return CallFailed(why, details)
    return CallFailed(Why.UNANSWERED, f"{code.name.lower()}: {details}")


def _credentials(address: Address) -> grpc.ChannelCredentials | None:
    if not (address.ca or address.cert):
        return None
    return grpc.ssl_channel_credentials(
        root_certificates=Path(address.ca).read_bytes() if address.ca else None,
        private_key=Path(address.key).read_bytes() if address.key else None,
        certificate_chain=Path(address.cert).read_bytes() if address.cert else None,
    )
