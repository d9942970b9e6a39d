"""Reads the project's own source once, for the tests that judge it."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "fairlead"

# Decide, and so may touch nothing of the world.
PURE = ("base", "model", "placement", "controllers", "scheduler", "agent", "plane")


def is_generated(path: Path) -> bool:
    """Whether the protobuf compiler wrote it."""
    return path.stem.endswith(("_pb2", "_pb2_grpc"))


def files_of(*folders: Path) -> list[Path]:
    """The Python files below some folders, in order, without the generated ones."""
    found = {path for folder in folders for path in folder.rglob("*.py")}
    return sorted(path for path in found if not is_generated(path))


@cache
def tree(path: Path) -> ast.Module:
    """A file, parsed."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def shown(path: Path) -> str:
    """A file as people name it."""
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a file imports, `from a import b` as `a.b`."""
    package = path.relative_to(ROOT / "src").parts[:-1] if path.is_relative_to(SRC) else ()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def tracked() -> list[Path]:
    """The files under version control; in an unpacked archive, every file that is not made by a tool."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode == 0:
        return sorted(ROOT / name for name in listed.stdout.decode().split("\0") if name)
    return sorted(
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not path.relative_to(ROOT).parts[0].startswith(".")
    )
