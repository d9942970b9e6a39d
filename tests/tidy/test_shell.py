"""The shell moves messages and never asks what kind they are: only the wire, which spells them, may."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.source import SRC, files_of, shown, tree

SPOKEN = ("wall", "orders")


def _spoken_names(module: ast.Module) -> set[str]:
    """The names under which a module knows messages of the wall or orders, and the modules themselves."""
    names: set[str] = set()
    for node in ast.walk(module):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module in {f"fairlead.model.{name}" for name in SPOKEN}:
            names.update(alias.asname or alias.name for alias in node.names)
        elif node.module == "fairlead.model":
            names.update(alias.asname or alias.name for alias in node.names if alias.name in SPOKEN)
    return names


def _asks_for_a_kind(module: ast.Module) -> Iterator[tuple[int, ast.expr]]:
    """Every place that compares a value with a class: isinstance, type(x) is, and class patterns."""
    for node in ast.walk(module):
        if isinstance(node, ast.MatchClass):
            yield node.lineno, node.cls
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in {"isinstance", "issubclass"} and len(node.args) == 2:
                yield node.lineno, node.args[1]
        elif isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
            yield from ((node.lineno, right) for right in node.comparators)


def _offences(path: Path) -> Iterator[str]:
    spoken = _spoken_names(tree(path))
    for line, asked in _asks_for_a_kind(tree(path)):
        roots = {node.id for node in ast.walk(asked) if isinstance(node, ast.Name)}
        if named := sorted(roots & spoken):
            yield f"{shown(path)}:{line} asks whether it is {', '.join(named)}"


def test_the_shell_never_asks_what_a_message_is() -> None:
    wire = SRC / "shell" / "wire"
    places = [path for path in files_of(SRC / "shell") if not path.is_relative_to(wire)]
    found = [offence for path in places for offence in _offences(path)]
    assert not found, "\n".join(found)


def test_the_check_sees_what_it_is_for() -> None:
    planted = ast.parse(
        "from fairlead.model.orders import Start\n"
        "def f(m):\n"
        "    if isinstance(m, (int, Start)): return 1\n"
        "    match m:\n"
        "        case Start(): return 2\n"
        "    return type(m) is Start\n"
    )
    assert _spoken_names(planted) == {"Start"}
    assert sorted(line for line, _ in _asks_for_a_kind(planted)) == [3, 5, 6]
