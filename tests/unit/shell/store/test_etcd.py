"""How large transactions are cut so that etcd takes them."""

from __future__ import annotations

import pytest

from fairlead.shell.store.etcd import MOST_OPS, Keys, _nest
from fairlead.shell.store.pb import rpc_pb2 as pb


def leaves(ops: list[pb.RequestOp]) -> list[bytes]:
    found = []
    for op in ops:
        if op.HasField("request_txn"):
            found += leaves(list(op.request_txn.success))
        else:
            found.append(op.request_put.key)
    return found


def deepest(ops: list[pb.RequestOp]) -> int:
    """The most operations on any way down, counting each level whole, as etcd does."""
    inner = [deepest(list(op.request_txn.success)) for op in ops if op.HasField("request_txn")]
    return len(ops) + max(inner, default=0)


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 4_000, 50_000])
def test_a_transaction_of_any_size_keeps_to_the_limit_of_each_way_down(count: int) -> None:
    ops = [pb.RequestOp(request_put=pb.PutRequest(key=b"%d" % n)) for n in range(count)]
    nested = _nest(ops, MOST_OPS)
    assert deepest(nested) <= MOST_OPS
    assert leaves(nested) == [b"%d" % n for n in range(count)]


def test_segments_sort_as_their_numbers_do() -> None:
    keys = Keys("p/")
    numbers = [0, 1, 9, 10, 255, 256, 10**6, 2**40]
    assert sorted(keys.segment(n) for n in numbers) == [keys.segment(n) for n in numbers]
