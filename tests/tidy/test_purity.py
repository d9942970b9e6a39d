"""What decides touches nothing of the world: no clock, dice, files, sockets, threads or loops."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tidy.source import PURE, SRC, files_of, imports, shown, tree

# Everything a pure package may import from outside. A name is added here when it neither reads nor changes
# the world and gives equal answers in every run.
ALLOWED = {
    "__future__", "abc", "array", "ast", "base64", "binascii", "bisect", "collections", "contextlib", "copy",
    "dataclasses", "decimal", "difflib", "enum", "fractions", "functools", "hashlib", "heapq", "hmac",
    "itertools", "json", "math", "msgspec", "operator", "re", "string", "struct", "textwrap", "types",
    "typing", "zlib",
}  # fmt: skip
NUMPY_DOORS = {"placement", "scheduler", "controllers"}
# Answers that differ between two runs, or reach outside.
UNSAFE_CALLS = {"print", "open", "input", "eval", "exec", "hash", "breakpoint", "__import__"}
# The simulated world may know files and processes at its edge, but takes time and dice from its seed.
UNSEEDED = {
    "time",
    "datetime",
    "random",
    "secrets",
    "uuid",
    "socket",
    "asyncio",
    "threading",
    "grpc",
    "google",
}

pure = pytest.mark.parametrize("package", PURE)


@pure
def test_a_pure_package_imports_nothing_that_touches_the_world(package: str) -> None:
    allowed = ALLOWED | ({"numpy"} if package in NUMPY_DOORS else set())
    found = [
        f"{shown(path)}:{line} imports {name}"
        for path in files_of(SRC / package)
        for line, name in imports(path)
        if (root := name.split(".")[0]) not in allowed
        and not (root == "fairlead" and name.split(".")[1] in PURE)
    ]
    assert not found, "\n".join(found)


@pure
def test_a_pure_package_calls_nothing_whose_answer_differs_between_runs(package: str) -> None:
    found = [
        f"{shown(path)}:{node.lineno} calls {node.func.id}"
        for path in files_of(SRC / package)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in UNSAFE_CALLS
    ]
    assert not found, "\n".join(found)


def test_the_simulated_world_takes_time_and_dice_from_its_seed_alone() -> None:
    found = [
        f"{shown(path)}:{line} imports {name}"
        for path in files_of(SRC / "sim")
        for line, name in imports(path)
        if name.split(".")[0] in UNSEEDED
    ]
    assert not found, "\n".join(found)


def _run_imports(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and package of every import that happens at run time, inside functions too."""
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting.extend(node.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _beside(module: ast.Module) -> set[str]:
    """The files that the keeper loads from its own folder, by its own hand."""
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    return {
        node.args[0].value
        for node in calls
        if ast.unparse(node.func) == "_beside" and isinstance(node.args[0], ast.Constant)
    }


def test_the_keeper_needs_nothing_but_the_standard_library() -> None:
    waiting = [SRC / "shell" / "machine" / "keeper.py"]
    seen: set[Path] = set()
    found: list[str] = []
    while waiting:
        path = waiting.pop()
        seen.add(path)
        for line, name in imports(path):
            own = _module(name)
            if own is not None and own not in seen:
                waiting.append(own)
            elif own is None and name.split(".")[0] not in sys.stdlib_module_names:
                found.append(f"{shown(path)}:{line} imports {name}")
    assert not found, "\n".join(found)


def _module(name: str) -> Path | None:
    """The file of ours that a full name lies in."""
    parts = name.split(".")
    if parts[0] != "fairlead":
        return None
    places = [
        SRC.parent.joinpath(*parts[:length]).with_suffix(".py") for length in (len(parts), len(parts) - 1)
    ]
    return next((place for place in places if place.exists()), None)
