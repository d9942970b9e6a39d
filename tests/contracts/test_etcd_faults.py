"""What only etcd can do to a store: members that die or freeze, certificates, other formats, compaction."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.contracts.cut_proxy import CutProxy
from tests.contracts.etcd_members import Etcd, free_ports, running_etcd
from tests.contracts.store_rigs import LONG_LEASE_MS, answer_to, commit, elected, loaded, until

from fairlead.model.errors import Problem
from fairlead.model.storage import (
    Campaign,
    Commit,
    Committed,
    Deposed,
    Done,
    Elected,
    Op,
    Put,
    Renew,
    Renewed,
    Resign,
    Trim,
    Unanswered,
)
from fairlead.shell.store.choose import open_store
from fairlead.shell.store.etcd import EtcdStore, Keys, open_etcd
from fairlead.shell.store.etcd_calls import Address, Calls
from fairlead.shell.store.identity import FORMAT, Identity
from fairlead.shell.store.pb import rpc_pb2 as pb

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Etcd]:
    with running_etcd(tmp_path, count=3) as running:
        yield running


@pytest.fixture
def address(etcd: Etcd) -> Address:
    return Address(etcd.endpoints, f"faults-{next(NUMBERS)}/")


async def opened(address: Address, deadline_ms: int = 3_000) -> EtcdStore:
    store = await open_etcd(address, deadline_ms)
    assert isinstance(store, EtcdStore), store
    return store


async def write(address: Address, key: bytes, value: bytes | None) -> None:
    """Behind the store's back."""
    calls = Calls(address, 3_000)
    if value is None:
        op = pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
    else:
        op = pb.RequestOp(request_put=pb.PutRequest(key=key, value=value))
    await calls.txn(pb.TxnRequest(success=[op]))
    await calls.close()


async def test_a_log_survives_the_death_of_each_member_in_turn(three: Etcd) -> None:
    store = await opened(Address(three.endpoints))
    await elected(store)
    n = 0
    for member in three.members:
        member.kill()
        for _ in range(20):
            n += 1
            assert await answer_to(store, Commit(n, b"segment %d" % n)) == Committed(n)
        assert await answer_to(store, Renew()) == Renewed()
        three.restart(member)
    assert (await loaded(store)).segments == [(m, b"segment %d" % m) for m in range(1, n + 1)]
    await store.close()


async def test_a_frozen_member_costs_its_share_of_the_deadline_and_no_more(three: Etcd) -> None:
    store = await opened(Address(three.endpoints), deadline_ms=1_500)
    await elected(store)
    await commit(store, 1)
    for n, member in enumerate(three.members, start=2):
        member.freeze()
        async with asyncio.timeout(10):
            assert await answer_to(store, Commit(n, b"segment %d" % n)) == Committed(n)
        member.thaw()
        member.wait_healthy()
    assert [m for m, _ in (await loaded(store)).segments] == [1, 2, 3, 4]
    await store.close()


async def test_without_a_majority_nothing_is_answered_and_later_everything_goes_on(three: Etcd) -> None:
    store = await opened(Address(three.endpoints), deadline_ms=600)
    await elected(store)
    for member in three.members[:2]:
        member.kill()
    assert isinstance(await store.perform(Commit(1, b"segment 1")), Unanswered)
    # A leader without followers still renews until it steps down, one election timeout later; whoever
    # follows it lets every lease run so much longer.
    await until(store, Renew(), lambda answer: isinstance(answer, Unanswered))
    for member in three.members[:2]:
        member.start(three.cluster)
    for member in three.members:
        member.wait_healthy()
    assert await answer_to(store, Commit(1, b"segment 1")) == Committed(1)
    assert await answer_to(store, Renew()) == Renewed()
    assert (await loaded(store)).segments == [(1, b"segment 1")]
    await store.close()


async def test_an_etcd_that_restarts_has_kept_what_was_answered(tmp_path: Path) -> None:
    with running_etcd(tmp_path) as etcd:
        store = await opened(Address(etcd.endpoints))
        before = await elected(store)
        for n in range(1, 31):
            await commit(store, n)
        etcd.members[0].kill()
        etcd.restart(etcd.members[0])
        assert await answer_to(store, Commit(31, b"segment 31")) == Committed(31)
        assert (await loaded(store)).head == 31
        assert await elected(store) > before
        await store.close()


async def test_an_etcd_that_is_not_there_is_a_problem_that_may_pass(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    problem = await open_store(f"etcd://127.0.0.1:{port}", deadline_ms=500)
    assert isinstance(problem, Problem)
    assert (problem.code, problem.retryable) == ("store_unreachable", True)
    missing = await open_store(f"etcd://127.0.0.1:{port}?ca={tmp_path}/none.pem", deadline_ms=500)
    assert isinstance(missing, Problem)
    assert "none.pem" in missing.why


async def test_a_request_that_is_sent_again_to_the_next_member_is_recognised(
    etcd: Etcd, address: Address
) -> None:
    """Its first answer is cut after the write; the second member answers for the first."""
    proxy = CutProxy(etcd.endpoints[0])
    await proxy.start()
    cases: list[tuple[int, Op, type]] = [
        (1, Campaign("here:1", LONG_LEASE_MS), Elected),  # its lease is granted twice
        (2, Campaign("here:1", LONG_LEASE_MS), Elected),  # its lead is won twice
        (0, Put({"key": b"value"}), Done),
        (0, Commit(1, b"segment 1"), Committed),
        (0, Trim(1), Done),
    ]
    for answers_before, op, expected in cases:
        store = await opened(Address([proxy.endpoint, *etcd.endpoints], f"{address.prefix}{type(op)}/"))
        if not isinstance(op, Campaign):
            await elected(store)
        proxy.cut_answer(after=answers_before)
        cuts = proxy.cuts
        assert isinstance(await store.perform(op), expected)
        assert proxy.cuts == cuts + 1
        assert await store.perform(Renew()) == Renewed()
        n = (await loaded(store)).head
        await commit(store, n + 1)
        await store.perform(Resign())
        await store.close()
    await proxy.stop()


async def test_two_prefixes_are_two_stores(etcd: Etcd) -> None:
    one, two = await opened(Address(etcd.endpoints, "one/")), await opened(Address(etcd.endpoints, "two/"))
    assert one.site != two.site
    await elected(one)
    await elected(two)
    await commit(one, 1)
    assert (await loaded(two)).head == 0
    again = await opened(Address(etcd.endpoints, "one/"))
    assert again.site == one.site
    for store in (one, two, again):
        await store.close()


async def test_servers_that_open_a_fresh_store_at_once_agree_on_its_site(address: Address) -> None:
    stores = await asyncio.gather(*(opened(address) for _ in range(5)))
    assert len({store.site for store in stores}) == 1
    for store in stores:
        await store.close()


async def test_a_store_of_a_newer_format_is_refused_and_left_alone(address: Address) -> None:
    newer = Identity(FORMAT + 2, FORMAT + 1, "site", 1)
    key = Keys(address.prefix).identity
    await write(address, key, msgspec.json.encode(newer))
    problem = await open_etcd(address)
    assert isinstance(problem, Problem)
    assert problem.code == "store_newer"
    assert f"format {FORMAT + 2}" in problem.message
    assert f"up to {FORMAT}" in problem.message


async def test_an_etcd_that_was_emptied_elects_nobody_under_the_old_name(address: Address) -> None:
    store = await opened(address)
    await write(address, Keys(address.prefix).identity, None)
    assert isinstance(await store.perform(Campaign("here:1", LONG_LEASE_MS)), Unanswered)
    assert await store.perform(Commit(1, b"segment")) == Deposed()
    await store.close()


async def test_a_load_in_pages_is_of_one_moment_though_the_leader_compacts(address: Address) -> None:
    leader, reader = await opened(address), await opened(address)
    await elected(leader)
    large = bytes(900_000)
    values: dict[str, bytes | None] = {f"small/{n}": b"%d" % n for n in range(5_000)}
    assert await leader.perform(Put(values)) == Done()
    for n in range(20):
        assert await leader.perform(Put({f"large/{n}": large})) == Done()
    await commit(leader, 1)

    async def overwrite() -> int:
        for n in range(2, 40):
            assert await leader.perform(Put({"both/a": b"%d" % n, "both/b": b"%d" % n})) == Done()
            await commit(leader, n)
            assert await leader.perform(Trim(n)) == Done()
        return 39

    async def read() -> list[int]:
        heads = []
        for _ in range(4):
            state = await loaded(reader)
            assert state.values.get("both/a") == state.values.get("both/b")
            assert len(state.values) >= 5_020
            assert [n for n, _ in state.segments][-1:] == [state.head]
            heads.append(state.head)
        return heads

    head, heads = await asyncio.gather(overwrite(), read())
    assert heads == sorted(heads)
    assert (await loaded(reader)).head == head
    for store in (leader, reader):
        await store.close()


async def test_a_lead_ends_when_its_process_only_hangs_up(address: Address) -> None:
    gone, next_one = await opened(address), await opened(address)
    before = await elected(gone, lease_ms=1_000)
    await gone.close()
    assert await elected(next_one) > before
    await next_one.close()


async def test_only_clients_with_a_certificate_of_the_authority_are_served(tmp_path: Path) -> None:
    ca, cert, key = make_certificates(tmp_path)
    tls = [f"--cert-file={cert}", f"--key-file={key}", "--client-cert-auth", f"--trusted-ca-file={ca}"]
    with running_etcd(tmp_path, flags=tls, tls=True) as etcd:
        (end,) = etcd.endpoints
        store = await open_store(f"etcd://{end}?ca={ca}&cert={cert}&key={key}")
        assert isinstance(store, EtcdStore), store
        await elected(store)
        await commit(store, 1)
        assert await answer_to(store, Renew()) == Renewed()
        await store.close()
        for bad in (f"etcd://{end}?ca={ca}", f"etcd://{end}"):
            refused = await open_store(bad, deadline_ms=1_000)
            assert isinstance(refused, Problem)
            assert refused.code == "store_unreachable"


def make_certificates(folder: Path) -> tuple[Path, Path, Path]:
    """An authority, and one certificate for both ends on loopback."""
    now = datetime.datetime.now(datetime.UTC)
    root_key, leaf_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    leaf_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test leaf")])

    def builder(name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(root_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )

    authority = x509.BasicConstraints(ca=True, path_length=0)
    root = builder(root_name, root_key).add_extension(authority, critical=True)
    loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    leaf = builder(leaf_name, leaf_key).add_extension(loopback, critical=False)
    files = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(root.sign(root_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(leaf.sign(root_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    files[2].write_bytes(
        leaf_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files
