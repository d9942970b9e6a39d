"""S13: three servers on an etcd, the leader killed: from the last order of the old to the first of the new."""

from __future__ import annotations

from bench.how import How
from bench.site import NotMeasured
from bench.table import Row


def rows(how: How) -> list[Row]:
    """Not before servers can join one another."""
    raise NotMeasured("S13 needs `server --join`, which this build does not have yet")
