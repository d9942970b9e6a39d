"""One site for all tests that only look at how it answers: bringing one up costs seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.system.site import Site


@pytest.fixture(scope="session")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`fairlead up` with two agents; whoever uses it leaves it as it was."""
    site = Site(tmp_path_factory.mktemp("site") / "home")
    site.up()
    yield site
    site.close()
