"""Names say what a thing is for, and the project speaks of itself alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.source import ROOT, SRC, files_of, shown, tracked, tree

# Words under which anything fits, so that in the end everything lies there.
EMPTY = {"util", "utils", "helper", "helpers", "manager", "managers", "misc"}
# Ids of documents that a reader does not have, and places outside the project.
ELSEWHERE = re.compile(
    r"(?-i:\bK[1-9]\d?\b)(?!i)|\bissues? #?\d+\b|(?<![\w.])/wor[k]/|\bmission [A-H]\d", re.IGNORECASE
)
TEXT = {".py", ".md", ".toml", ".txt", ".proto", ".yaml", ".yml", ".sh", ".js", ".html", ".css", ""}
# Written by others: the licence, and hashes.
NOT_OURS = ("LICENSE", "requirements/")


def _words(name: str) -> set[str]:
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def _names(path: Path) -> Iterator[tuple[int, str]]:
    yield 1, path.stem
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name


def test_no_name_is_a_drawer_for_anything() -> None:
    found = [
        f"{shown(path)}:{line} {name}"
        for path in files_of(SRC, ROOT / "tests", ROOT / "bench", ROOT / "tools")
        for line, name in _names(path)
        if _words(name) & EMPTY
    ]
    assert not found, "\n".join(found)


def test_the_project_speaks_of_itself_alone() -> None:
    found = [
        f"{shown(path)}:{number} {line.strip()[:80]}"
        for path in tracked()
        if path.suffix in TEXT and path.exists() and not shown(path).startswith(NOT_OURS)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ELSEWHERE.search(line)
    ]
    assert not found, "\n".join(found)
