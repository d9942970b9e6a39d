"""A played site for each test, and the command line that speaks to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.ctl.played import PlayedSite, opened

from fairlead.ctl.main import main

Call = Callable[..., int]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedSite]:
    played = PlayedSite(tmp_path / "server" / "api.sock")
    monkeypatch.setenv("FAIRLEAD_API", played.api)
    with opened(played):
        yield played


@pytest.fixture
def call() -> Call:
    """`call("run", "--", "true")` runs the command line here, and returns its exit code."""

    def run(*arguments: str) -> int:
        return main(list(arguments))

    return run
