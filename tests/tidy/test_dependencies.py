"""Every dependency has a reason that people can read, and a hash that machines check."""

from __future__ import annotations

import re
import sys
import tomllib

from tests.tidy.source import ROOT, SRC, files_of, imports, shown

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Where the name of a package is not the name that is imported.
IMPORTED_AS = {
    "backports-zstd": "backports", "grpcio": "grpc", "prometheus-client": "prometheus_client",
    "protobuf": "google", "pyyaml": "yaml",
}  # fmt: skip


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[ <>=;\[~!]", requirement)[0].lower() for requirement in requirements}


RUNS = _names(PROJECT["dependencies"])
BUILDS = _names(PROJECT["optional-dependencies"]["dev"])


def _lock(name: str) -> dict[str, tuple[str, int]]:
    """Package: (version, number of hashes)."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[A-Za-z0-9])", text)
    found: dict[str, tuple[str, int]] = {}
    for entry in entries:
        if pinned := re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", entry):
            found[pinned[1].lower()] = (pinned[2], entry.count("--hash=sha256:"))
    return found


def test_the_page_names_each_dependency_with_its_reason_and_no_other() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    ran, built = page.split("## What builds")
    row = re.compile(r"^\| ([a-z0-9-]+) \| (.{10,}) \|$", re.MULTILINE)
    assert {name for name, _ in row.findall(ran)} - {"package"} == RUNS
    assert {name for name, _ in row.findall(built)} - {"package"} == BUILDS


def test_everything_that_runs_is_pinned_and_hashed() -> None:
    pinned = _lock("run.txt")
    assert pinned.keys() >= RUNS
    assert [name for name, (_, hashes) in pinned.items() if hashes == 0] == []


def test_what_tests_is_what_runs() -> None:
    pinned, tested = _lock("run.txt"), _lock("dev.txt")
    assert {name: tested.get(name, ("missing",))[0] for name in pinned} == {
        name: version for name, (version, _) in pinned.items()
    }
    assert tested.keys() >= BUILDS
    assert [name for name, (_, hashes) in tested.items() if hashes == 0] == []


def test_the_locks_name_no_place_to_get_packages_from() -> None:
    for name in ("run.txt", "dev.txt"):
        text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
        assert not re.search(r"://|--(extra-)?index|--find-links|--trusted", text)


def test_the_source_imports_only_what_is_declared() -> None:
    declared = {IMPORTED_AS.get(name, name) for name in RUNS} | {"fairlead", "compression"}
    found = [
        f"{shown(path)}:{line} imports {name}"
        for path in files_of(SRC)
        for line, name in imports(path)
        if (root := name.split(".")[0]) not in declared and root not in sys.stdlib_module_names
    ]
    assert not found, "\n".join(found)
