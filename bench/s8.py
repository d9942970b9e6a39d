"""S8: the rate of S3 with a real etcd of one member, beside the same with SQLite in the same run."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import s3
from bench.how import How
from bench.site import NotMeasured, site
from bench.table import Row, row, versions
from tests.contracts.etcd_members import Etcd


@contextmanager
def etcd(members: int = 1) -> Iterator[str]:
    """The address of a fresh etcd in a folder that goes with it."""
    if not shutil.which("etcd"):
        raise NotMeasured("there is no etcd here (Debian: apt-get install etcd-server)")
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-etcd-") as folder:
        running = Etcd(Path(folder), members)
        running.start()
        try:
            yield "etcd://" + ",".join(running.endpoints)
        finally:
            running.stop()


def etcd_version() -> str:
    """What `etcd --version` says first."""
    said = subprocess.run(["etcd", "--version"], check=True, capture_output=True, text=True).stdout
    return said.splitlines()[0].rpartition(" ")[2]


def rows(how: How) -> list[Row]:
    """Both sites stand at once, and take turns."""
    with etcd() as address, site("--store", address) as remote, site() as embedded:
        for where in (remote, embedded):
            where.join(s3.AGENTS, s3.SLOTS)
            where.array(s3.WARM_UP)
        size = s3.size(how)
        pairs = [(remote.array(size), embedded.array(size)) for _ in range(how.runs)]
    ours, sqlite = zip(*pairs, strict=True)
    reference = ("the same with SQLite", statistics.median(sqlite))
    known = {**versions(), "etcd": etcd_version()}
    what = f"{s3.what(how)}, etcd of one member"
    command = how.command("S8")
    return [row("S8", what, ours, "instances/s", "ratio >= 0.6", reference, command=command, versions=known)]
