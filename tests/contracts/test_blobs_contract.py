"""What every blob store promises, asked of the folder and of the simulator's memory."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.model import blob_keys
from fairlead.shell.blobs.folder import FolderBlobs
from fairlead.sim.blobs import MemoryBlobs


class Blobs(Protocol):
    def put(self, key: str, data: bytes) -> bool: ...
    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None: ...
    def list(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]: ...
    def delete(self, keys: Iterable[str]) -> None: ...
    def mark(self, nonce: str) -> None: ...
    def prove(self, nonce: str) -> bool: ...


class Site:
    """Several servers' ways to one store."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind = kind
        self._folder = folder
        self._held: dict[str, bytes] = {}

    def server(self) -> Blobs:
        return FolderBlobs(self._folder) if self._kind == "folder" else MemoryBlobs(self._held)


@pytest.fixture(params=["folder", "memory"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def site(kind: str, tmp_path: Path) -> Site:
    return Site(kind, tmp_path / "blobs")


@pytest.fixture
def blobs(site: Site) -> Blobs:
    return site.server()


def test_what_was_put_is_got_whole_and_in_ranges(blobs: Blobs) -> None:
    assert blobs.put("fresh/boot/1", b"0123456789")
    assert blobs.get("fresh/boot/1") == b"0123456789"
    assert blobs.get("fresh/boot/1", 3, 4) == b"3456"
    assert blobs.get("fresh/boot/1", 8, 10) == b"89"
    assert blobs.get("fresh/boot/1", 8) == b"89"
    assert blobs.get("fresh/boot/1", 10, 1) == b""
    assert blobs.get("fresh/boot/1", 50) == b""
    assert blobs.get("fresh/boot/1", 2, 0) == b""


def test_what_was_not_put_is_none(blobs: Blobs) -> None:
    blobs.put("a/b/c", b"x")
    assert blobs.get("a/b/d") is None
    assert blobs.get("a/b") is None
    assert blobs.get("a/b/c/d") is None
    assert blobs.get("z") is None


def test_a_key_is_created_once_and_never_changes(blobs: Blobs) -> None:
    assert blobs.put("k", b"first")
    assert not blobs.put("k", b"second")
    assert blobs.get("k") == b"first"


def test_an_empty_blob_is_a_blob(blobs: Blobs) -> None:
    assert blobs.put("k", b"")
    assert blobs.get("k") == b""
    assert blobs.list("") == ["k"]


def test_every_server_sees_what_any_server_put_and_a_later_start_sees_it_too(site: Site) -> None:
    site.server().put("k", b"data")
    assert site.server().get("k") == b"data"


def test_keys_are_listed_in_the_order_of_their_bytes_from_any_place(blobs: Blobs) -> None:
    keys = ["a-b", "a.b", "a/b", "a/c/d", "a/c0", "a0", "fresh/x/000000000002", "fresh/x/000000000010", "b"]
    for key in keys:
        blobs.put(key, b"")
    keys.sort()
    assert blobs.list("") == keys
    assert [blobs.list("", after, 1) for after in ["", *keys]] == [*([key] for key in keys), []]
    assert blobs.list("a/") == ["a/b", "a/c/d", "a/c0"]
    assert blobs.list("a/c") == ["a/c/d", "a/c0"]
    assert blobs.list("a/c", after="a/c/d") == ["a/c0"]
    assert blobs.list("fresh/x/", after="fresh/x/000000000002") == ["fresh/x/000000000010"]
    assert blobs.list("nothing") == []


def test_what_is_deleted_is_gone_and_may_be_deleted_again(blobs: Blobs) -> None:
    for key in ("logs/2026-01-01/a", "logs/2026-01-01/b", "logs/2026-01-02/a"):
        blobs.put(key, b"x")
    day = blobs.list("logs/2026-01-01/")
    blobs.delete(day)
    blobs.delete([*day, "never/was"])
    assert blobs.list("") == ["logs/2026-01-02/a"]
    assert blobs.get("logs/2026-01-01/a") is None
    assert blobs.put("logs/2026-01-01/a", b"again")
    assert blobs.get("logs/2026-01-01/a") == b"again"


@pytest.mark.parametrize(
    "key", ["", "/", "../x", "a/../b", "/etc/passwd", "a//b", "a/", ".aside/x", "a\0b", "a b", "ä", "a" * 600]
)
def test_what_is_no_key_touches_nothing(blobs: Blobs, key: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a key"):
        blobs.put(key, b"x")
    with pytest.raises(ValueError, match="not a key"):
        blobs.get(key)
    with pytest.raises(ValueError, match="not a key"):
        blobs.delete([key])
    assert blobs.list("") == []
    assert not (tmp_path / "x").exists()


def test_a_range_before_the_beginning_is_a_bug_of_the_caller(blobs: Blobs) -> None:
    blobs.put("k", b"x")
    with pytest.raises(ValueError, match="no blob begins"):
        blobs.get("k", -1)


def test_of_many_writers_of_one_key_one_wins_and_all_read_its_bytes(site: Site) -> None:
    servers = [site.server() for _ in range(4)]

    def write(n: int) -> tuple[bool, bytes | None]:
        blobs = servers[n % 4]
        return blobs.put("one/key", b"%d" % n * 1000), blobs.get("one/key")

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(write, range(24)))
    assert [created for created, _ in answers].count(True) == 1
    assert len({read for _, read in answers}) == 1


def test_writing_beside_one_who_deletes_loses_no_other_key(site: Site) -> None:
    blobs = site.server()

    def write(n: int) -> None:
        assert blobs.put(f"busy/{n}", b"x")
        if n % 5:
            blobs.delete([f"busy/{n}"])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(200)))
    assert len(blobs.list("busy/")) == 40


def test_a_fresh_marker_proves_one_store_and_tells_another_apart(
    site: Site, kind: str, tmp_path: Path
) -> None:
    founder, joiner = site.server(), site.server()
    stranger = Site(kind, tmp_path / "elsewhere").server()
    founder.mark("4f6e")
    assert joiner.prove("4f6e")
    assert not stranger.prove("4f6e")
    assert not joiner.prove("4f6f")


names = st.text("ab.-0", min_size=1, max_size=3).filter(lambda name: name[0] not in ".-")
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(paths, max_size=8), st.text("ab./-0", max_size=4), st.text("ab./-0", max_size=4))
def test_folder_and_memory_list_alike(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str], prefix: str, after: str
) -> None:
    folder, memory = FolderBlobs(tmp_path_factory.mktemp("blobs")), MemoryBlobs()
    for key in keys:
        clash = any(key.startswith(other + "/") or other.startswith(key + "/") for other in memory.held)
        if not clash:
            assert folder.put(key, b"") == memory.put(key, b"")
    assert folder.list(prefix, after) == memory.list(prefix, after)


def test_built_keys_are_keys_and_sort_as_their_numbers_do() -> None:
    sha = "ab" * 32
    built = [
        blob_keys.fresh("boot-1", 7),
        blob_keys.log("2026-11-19", 3, 99, "boot-1", 4),
        blob_keys.content(sha),
        blob_keys.tree(sha),
        blob_keys.archive("2026-11-19", sha),
        blob_keys.marker("4f6e"),
    ]
    assert all(blob_keys.is_key(key) for key in built)
    assert built[2] == f"cas/ab/{sha}"
    assert blob_keys.fresh("b", 9) < blob_keys.fresh("b", 10)


@pytest.mark.parametrize("boot", ["", "..", "a/b", "a.b"])
def test_a_part_that_would_leave_its_place_is_refused(boot: str) -> None:
    with pytest.raises(ValueError, match="no part of a key"):
        blob_keys.fresh(boot, 1)
