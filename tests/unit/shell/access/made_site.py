"""A site for tests: an authority, and identities that it made."""

from __future__ import annotations

import time
from pathlib import Path

from fairlead.model.errors import Problem
from fairlead.shell.access import identity
from fairlead.shell.access.ca import Authority, Issued
from fairlead.shell.access.identity import Identity

NOW = time.time_ns() // 1_000_000


def issued(
    authority: Authority, folder: Path, role: str, number: int, now_ms: int = NOW, names: tuple[str, ...] = ()
) -> Issued:
    made = authority.issue(identity.request(folder, names), role, number, now_ms)
    assert isinstance(made, Issued)
    return made


def joined(authority: Authority, folder: Path, role: str, number: int, now_ms: int = NOW) -> Identity:
    made = issued(authority, folder, role, number, now_ms)
    installed = identity.install(folder, made.pem, authority.pem)
    assert not isinstance(installed, Problem), installed
    return installed
