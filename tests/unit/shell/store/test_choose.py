"""Where a server's store is, read from one line of text."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairlead.model.errors import Problem
from fairlead.shell.store.choose import open_store, read_address
from fairlead.shell.store.etcd_calls import Address
from fairlead.shell.store.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("etcd://a", Address(["a:2379"])),
        ("etcd://a:1,b:2/", Address(["a:1", "b:2"])),
        ("etcd://[::1],[::1]:7", Address(["[::1]:2379", "[::1]:7"])),
        ("etcd://a?prefix=here", Address(["a:2379"], "here/")),
        ("etcd://a?prefix=x/&ca=/c.pem", Address(["a:2379"], "x/", ca="/c.pem")),
        ("etcd://a?ca=/c&cert=/d&key=/e", Address(["a:2379"], ca="/c", cert="/d", key="/e")),
    ],
)
def test_an_address_names_members_files_and_a_prefix(text: str, address: Address) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http://a:1", "http:// is no store"),
        ("etcd://", "names no host"),
        ("etcd://a/b", "/b is not part"),
        ("etcd://a?caa=/c", "caa is not an option; there are ca, cert, key, prefix"),
        ("etcd://a?cert=/c", "cert and key come together"),
    ],
)
def test_a_wrong_address_is_refused_with_what_is_wrong(text: str, why: str) -> None:
    problem = read_address(text)
    assert isinstance(problem, Problem)
    assert why in problem.why
    assert "etcd://HOST" in problem.fix


def test_a_folder_is_a_sqlite_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await open_store(tmp_path / "new" / "folder")
        assert isinstance(store, SqliteStore)
        await store.close()

    asyncio.run(scenario())


def test_another_scheme_is_no_folder(tmp_path: Path) -> None:
    problem = asyncio.run(open_store("s3://bucket"))
    assert isinstance(problem, Problem)
    assert problem.where == "--store"
