"""The store that several servers share: an etcd, spoken to with our own few messages.

Decides how the port's promises become etcd transactions. Under the prefix stand `leader`, bound to the lease
of whoever leads, `term`, `head`, `puts`, `identity`, and the folders `segment/` and `value/`. Every write is
conditional on the revision at which `leader` was created under our lease: no other lead ever has it.

Nothing here needs to know whether an older try arrives late. A late Commit finds another head. A late Put
carries a lower number than `puts` holds. A late Campaign names a lease that was revoked before the next
Campaign began. So each request may simply be sent again.
Deliberately absent: a watch (followers campaign again), and any clock.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence

import msgspec

from fairlead.model.errors import Problem
from fairlead.model.storage import (
    LARGEST_WRITE,
    Answer,
    Campaign,
    Commit,
    Committed,
    Deposed,
    Done,
    Elected,
    Fence,
    Follower,
    Load,
    Loaded,
    Op,
    Put,
    Renew,
    Renewed,
    Resign,
    Trim,
    Unanswered,
    WrongHead,
    check_size,
)
from fairlead.shell.store.etcd_calls import LARGEST_ANSWER, Address, CallFailed, Calls, Why
from fairlead.shell.store.identity import Identity, foreign_format, new_identity
from fairlead.shell.store.pb import rpc_pb2 as pb

DEADLINE_MS = 3_000
"""Milliseconds until an op is Unanswered: below the shortest lease that is useful, far above a leader change."""
MOST_OPS = 128
"""Operations of one level of a transaction, as etcd's --max-txn-ops has it unless told otherwise."""
FEWEST_KEYS = 16
"""Keys of the first page of a Load: with the largest values they still fit into one answer."""
MOST_KEYS = 4_096
"""Keys of one page, however small: a page is one message, decoded in one go."""
PAGE_BYTES = 4 << 20
"""What a page of a Load aims at, going by the sizes of the page before it."""
LOAD_TRIES = 5
"""A Load begins again when the leader compacts under it; that happens once in minutes."""

assert FEWEST_KEYS * LARGEST_WRITE < LARGEST_ANSWER


class Keys:
    """Where things stand under a prefix."""

    def __init__(self, prefix: str) -> None:
        root = prefix.encode()
        self.identity = root + b"identity"
        self.leader = root + b"leader"
        self.term = root + b"term"
        self.head = root + b"head"
        self.puts = root + b"puts"
        self.segments = root + b"segment/"
        self.values = root + b"value/"

    def segment(self, n: int) -> bytes:
        """The key of a segment; sorted as their numbers are."""
        return self.segments + b"%016x" % n


class EtcdStore:
    """One server's handle on a store in etcd."""

    def __init__(self, calls: Calls, keys: Keys, identity: Identity) -> None:
        self.site = identity.site
        self.generation = identity.generation
        self._calls = calls
        self._keys = keys
        self._identity = msgspec.json.encode(identity)
        # The revision at which the leader key was created for us; 0 when we lead nothing.
        self._lead = 0
        # The lease of the last Campaign, until it is known to be over.
        self._lease = 0
        self._puts = 0
        self._full = False

    async def perform(self, op: Op) -> Answer:
        """Do one op; at most one at a time a line."""
        check_size(op)
        try:
            match op:
                case Load():
                    return await self._load()
                case Campaign():
                    return await self._campaign(op)
            return await self._as_leader(op, self._lead) if self._lead else Deposed()
        except CallFailed as failed:
            return Unanswered("nospace" if failed.why is Why.NO_SPACE else failed.details)

    async def close(self) -> None:
        """Hang up. A lead that was not resigned ends with its lease."""
        await self._calls.close()

    async def _as_leader(self, op: Op, lead: int) -> Answer:
        match op:
            case Renew():
                return Renewed() if await self._calls.keep_alive(self._lease) else Deposed()
            case Resign():
                return Done() if await self._give_up() else Deposed()
            case Put(values):
                return await self._put(lead, values)
            case Commit(n, segment):
                return await self._commit(lead, n, segment)
            case Trim(below):
                return await self._trim(lead, below)
        raise TypeError(f"{type(op).__name__} is no op of a leader")

    async def _give_up(self) -> bool:
        """End the lease, and the lead with it; False when it was over."""
        was = await self._calls.revoke(self._lease)
        self._lease = 0
        self._lead = 0
        return was

    async def _campaign(self, op: Campaign) -> Answer:
        self._lead = 0
        if self._lease:
            await self._give_up()
        keys = self._keys
        look = [_get(keys.leader), _get(keys.term), _get(keys.identity)]
        leader, term, identity = _found(await self._calls.txn(pb.TxnRequest(success=look)))
        if leader is not None:
            return Follower(leader.value.decode())
        if term is None or identity is None or identity.value != self._identity:
            return Unanswered("the store is no longer the one that was opened")
        self._lease = secrets.randbelow(2**63 - 1) + 1
        await self._calls.grant(self._lease, -(-op.lease_ms // 1000))
        next_term = _number(term) + 1
        request = pb.TxnRequest(
            compare=[
                _created(keys.leader, 0),
                _has(keys.term, term.value),
                _has(keys.identity, self._identity),
            ],
            success=[
                pb.RequestOp(
                    request_put=pb.PutRequest(key=keys.leader, value=op.address.encode(), lease=self._lease)
                ),
                _set(keys.term, _bytes(next_term)),
                _set(keys.puts, _bytes(0)),
            ],
            failure=look,
        )
        return self._outcome(*await self._write(request), next_term)

    def _outcome(self, reply: pb.TxnResponse, refused: CallFailed | None, term: int) -> Answer:
        """What became of a campaign, told from the answer to its transaction."""
        if reply.succeeded:
            self._lead = reply.header.revision
            return Elected(Fence(self.site, self.generation, term))
        leader = _found(reply)[0]
        if leader is None:
            if refused is not None:
                raise refused
            return Unanswered("another campaign came first, and its lead is over already")
        if leader.lease != self._lease:
            return Follower(leader.value.decode())
        self._lead = leader.create_revision  # an earlier sending of this very request had won
        return Elected(Fence(self.site, self.generation, term))

    async def _put(self, lead: int, values: dict[str, bytes | None]) -> Answer:
        keys = self._keys
        self._puts += 1
        mark = _bytes(self._puts)
        ops = [_set(keys.puts, mark)]
        for name, value in values.items():
            key = keys.values + name.encode()
            ops.append(_delete(key) if value is None else _set(key, value))
        request = pb.TxnRequest(
            compare=[_created(keys.leader, lead), _has(keys.puts, mark, pb.Compare.LESS)],
            success=_nest(ops, MOST_OPS),
            failure=[_get(keys.leader), _get(keys.puts)],
        )
        reply, refused = await self._write(request)
        if reply.succeeded:
            return Done()
        leader, puts = _found(reply)
        if leader is None or leader.create_revision != lead:
            return Deposed()
        if refused is not None and (puts is None or puts.value != mark):
            raise refused
        return (
            Done()
        )  # under our lead only we move `puts`: an earlier sending of this very request has done it

    async def _commit(self, lead: int, n: int, segment: bytes) -> Answer:
        if n < 1:
            raise WrongHead(f"there is no segment {n}")
        keys = self._keys
        request = pb.TxnRequest(
            compare=[_created(keys.leader, lead), _has(keys.head, _bytes(n - 1))],
            success=[_set(keys.segment(n), segment), _set(keys.head, _bytes(n))],
            failure=[_get(keys.leader), _get(keys.head), _get(keys.segment(n))],
        )
        reply, refused = await self._write(request)
        if reply.succeeded:
            return Committed(n)
        leader, head, stored = _found(reply)
        if leader is None or leader.create_revision != lead:
            return Deposed()
        at = 0 if head is None else _number(head)
        if at == n and stored is not None and stored.value == segment:
            return Committed(n)
        if refused is not None and at == n - 1:
            raise refused
        raise WrongHead(f"segment {n} does not follow head {at}")

    async def _write(self, request: pb.TxnRequest) -> tuple[pb.TxnResponse, CallFailed | None]:
        """A transaction that makes the store grow; when that was refused, what its other branch reads, and why.

        The write with which an etcd outgrows its quota is refused, and yet it may have taken effect.
        """
        try:
            return await self._calls.txn(request), None
        except CallFailed as failed:
            if failed.why is not Why.NO_SPACE:
                raise
            self._full = True
            reply = await self._calls.txn(pb.TxnRequest(success=request.failure))
            reply.succeeded = False
            return reply, failed

    async def _trim(self, lead: int, below: int) -> Answer:
        keys = self._keys
        request = pb.TxnRequest(
            compare=[_created(keys.leader, lead)],
            success=[_delete(keys.segment(0), keys.segment(max(below, 0)))] if below > 0 else [],
        )
        reply = await self._calls.txn(request)
        if not reply.succeeded:
            return Deposed()
        try:
            await self._make_room(reply.header.revision)
        except CallFailed:
            pass  # the segments are gone; their room is left to the next Trim
        return Done()

    async def _make_room(self, revision: int) -> None:
        """Let what was deleted be forgotten. An etcd that was full stays closed until it is told otherwise."""
        await self._calls.compact(revision, thoroughly=self._full)
        if self._full:
            await self._calls.reopen()
            self._full = False

    async def _load(self) -> Answer:
        for _ in range(LOAD_TRIES):
            try:
                return await self._load_once()
            except CallFailed as failed:
                if failed.why is not Why.COMPACTED:
                    raise
        return Unanswered("the leader compacted under every try")

    async def _load_once(self) -> Loaded:
        keys = self._keys
        first = await self._calls.range(pb.RangeRequest(key=keys.head))
        revision = first.header.revision
        values: dict[str, bytes] = {}
        async for kv in self._folder(keys.values, revision):
            values[kv.key[len(keys.values) :].decode()] = kv.value
        segments: list[tuple[int, bytes]] = []
        async for kv in self._folder(keys.segments, revision):
            segments.append((int(kv.key[len(keys.segments) :], 16), kv.value))
        return Loaded(values, segments, _number(first.kvs[0]) if first.kvs else 0)

    async def _folder(self, folder: bytes, revision: int) -> AsyncIterator[pb.KeyValue]:
        """Every key under a prefix as of one revision, read in pages."""
        end = folder[:-1] + bytes([folder[-1] + 1])
        limit, start, more = FEWEST_KEYS, folder, True
        while more:
            request = pb.RangeRequest(key=start, range_end=end, limit=limit, revision=revision)
            try:
                page = await self._calls.range(request)
            except CallFailed as failed:
                if failed.why is not Why.TOO_LARGE or limit == FEWEST_KEYS:
                    raise
                limit = FEWEST_KEYS
                continue
            for kv in page.kvs:
                yield kv
            more = page.more
            if more:
                start = page.kvs[-1].key + b"\0"
                fitting = PAGE_BYTES * len(page.kvs) // page.ByteSize()
                limit = min(max(fitting, FEWEST_KEYS), MOST_KEYS)


async def open_etcd(address: Address, deadline_ms: int = DEADLINE_MS) -> EtcdStore | Problem:
    """Open the store under a prefix of an etcd, making it when there is none."""
    where = ",".join(address.endpoints)
    try:
        calls = Calls(address, deadline_ms)
    except OSError as fault:
        return _unreachable(where, str(fault))
    try:
        identity = await _identify(calls, Keys(address.prefix))
    except CallFailed as failed:
        await calls.close()
        return _unreachable(where, failed.details)
    problem = foreign_format(identity, where)
    if problem is not None:
        await calls.close()
        return problem
    return EtcdStore(calls, Keys(address.prefix), identity)


async def _identify(calls: Calls, keys: Keys) -> Identity:
    """The store's own identity, written first when the prefix is empty."""
    fresh = new_identity()
    request = pb.TxnRequest(
        compare=[_created(keys.identity, 0)],
        success=[
            _set(keys.identity, msgspec.json.encode(fresh)),
            _set(keys.term, _bytes(0)),
            _set(keys.head, _bytes(0)),
            _set(keys.puts, _bytes(0)),
        ],
        failure=[_get(keys.identity)],
    )
    reply = await calls.txn(request)
    if reply.succeeded:
        return fresh
    (found,) = _found(reply)
    assert found is not None  # it exists, or the comparison had held
    return msgspec.json.decode(found.value, type=Identity)


def _unreachable(where: str, why: str) -> Problem:
    return Problem(
        code="store_unreachable",
        message="etcd does not answer",
        why=why,
        where=where,
        fix="start it, or correct the address and the certificates in --store",
        retryable=True,
    )


def _bytes(number: int) -> bytes:
    """A number whose bytes compare as it does."""
    return number.to_bytes(8, "big")


def _number(kv: pb.KeyValue) -> int:
    return int.from_bytes(kv.value, "big")


def _get(key: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_range=pb.RangeRequest(key=key))


def _set(key: bytes, value: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value))


def _delete(key: bytes, end: bytes = b"") -> pb.RequestOp:
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key, range_end=end))


def _created(key: bytes, revision: int) -> pb.Compare:
    return pb.Compare(key=key, target=pb.Compare.CREATE, create_revision=revision)


def _has(key: bytes, value: bytes, result: pb.Compare.CompareResult = pb.Compare.EQUAL) -> pb.Compare:
    return pb.Compare(key=key, target=pb.Compare.VALUE, result=result, value=value)


def _found(reply: pb.TxnResponse) -> list[pb.KeyValue | None]:
    """What each `_get` of a transaction's answer found."""
    ranges = [response.response_range.kvs for response in reply.responses]
    return [kvs[0] if kvs else None for kvs in ranges]


def _nest(ops: Sequence[pb.RequestOp], room: int) -> list[pb.RequestOp]:
    """The same operations in transactions within the transaction, so that no path down holds more than `room`."""
    if len(ops) <= room:
        return list(ops)
    branches = room // 2
    size = -(-len(ops) // branches)
    chunks = [ops[at : at + size] for at in range(0, len(ops), size)]
    inner = [pb.TxnRequest(success=_nest(chunk, room - len(chunks))) for chunk in chunks]
    return [pb.RequestOp(request_txn=txn) for txn in inner]
