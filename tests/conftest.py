"""What holds for every test: where a skip hides a missing part, it is a failure.

A machine of CI says `CI=true`; there everything that a test needs has been installed before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# How long an example takes is the machine's business. In CI the examples are the same each time, so that a change
# is judged by what it changes; everywhere else they are fresh.
settings.register_profile("fresh", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same" if os.environ.get("CI") == "true" else "fresh")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.skipped and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped: in CI nothing may be missing ({report.longrepr})"
    return report


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the contexts of the person who runs it."""
    monkeypatch.setenv("FAIRLEAD_HOME", str(tmp_path_factory.mktemp("home")))
    for name in ("FAIRLEAD_CONTEXT", "FAIRLEAD_API", "FAIRLEAD_TOKEN"):
        monkeypatch.delenv(name, raising=False)
