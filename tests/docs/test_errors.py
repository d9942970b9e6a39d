"""The page of errors knows every code that is in the source, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "errors.md"


def codes_in(source: str) -> set[str]:
    """First arguments of `Problem(…)` and `Failure(…)` that are literal, and what is named `code`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id not in ("Problem", "Failure"):
            continue
        named = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
        for value in [*node.args[:1], *named]:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found.add(value.value)
    return found


def test_every_code_of_a_refusal_stands_on_the_page_and_none_beside_them() -> None:
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py") if "_pb2" not in path.name]
    used = set().union(*(codes_in(source) for source in sources))
    told = {
        code
        for line in PAGE.read_text().splitlines()
        if line.startswith("| `")
        for code in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert sorted(used - told) == [], "say on the page what it means"
    spoken = "".join(sources)
    assert [code for code in sorted(told) if f'"{code}"' not in spoken] == [], "no code of that name is left"
