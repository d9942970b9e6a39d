"""Nothing is swallowed, nothing is skipped, nothing waits blindly."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.source import ROOT, SRC, files_of, shown, tree

CATCH_ALL = {"Exception", "BaseException"}
SKIPS = {"skip", "skipif", "skipIf", "skipUnless", "skipTest", "xfail", "importorskip"}


def _swallows(module: ast.Module) -> Iterator[int]:
    for node in ast.walk(module):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = (
            {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)}
            if node.type
            else CATCH_ALL
        )
        silent = all(
            isinstance(line, ast.Pass | ast.Continue | ast.Break)
            or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
            for line in node.body
        )
        if silent and caught & CATCH_ALL:
            yield node.lineno


def _skips(module: ast.Module) -> Iterator[int]:
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and node.attr in SKIPS:
            yield node.lineno


def test_no_failure_is_swallowed_whole() -> None:
    places = files_of(SRC, ROOT / "tests", ROOT / "bench", ROOT / "tools")
    found = [f"{shown(path)}:{line}" for path in places for line in _swallows(tree(path))]
    assert not found, "\n".join(found)


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    found = [f"{shown(path)}:{line}" for path in files_of(ROOT / "tests") for line in _skips(tree(path))]
    assert not found, "\n".join(found)


def test_the_checks_see_what_they_are_for() -> None:
    planted = ast.parse("try:\n    f()\nexcept Exception:\n    pass\npytest.skip('later')\n")
    assert list(_swallows(planted)) == [3]
    assert list(_skips(planted)) == [5]
