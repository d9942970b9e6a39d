"""A module fits in one sitting, a function on one screen; what does not has its reason here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.source import ROOT, SRC, files_of, shown, tree

MODULE_LINES = 500
TEST_MODULE_LINES = 800
FUNCTION_LINES = 60

# "path" or "path:function": why it is longer. Short, and shorter over time.
REASONS: dict[str, str] = {}

TESTS = ROOT / "tests"
EVERYTHING = (SRC, TESTS, ROOT / "bench", ROOT / "tools")


def _long_modules() -> Iterator[str]:
    for path in files_of(*EVERYTHING):
        limit = TEST_MODULE_LINES if path.is_relative_to(TESTS) else MODULE_LINES
        if path.read_text(encoding="utf-8").count("\n") > limit:
            yield shown(path)


def _long_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno + 1 > FUNCTION_LINES:
                yield f"{shown(path)}:{node.name}"


def test_every_long_module_or_function_has_its_reason() -> None:
    functions = [name for path in files_of(*EVERYTHING) for name in _long_functions(path)]
    long = {*_long_modules(), *functions}
    assert long - REASONS.keys() == set()
    assert REASONS.keys() - long == set(), "a reason whose cause is gone"
