"""What a store says of itself, and whether this release may use it: its format, its site, its generation.

A release reads every format whose oldest reader is not newer than itself, and writes what it found.
"""

from __future__ import annotations

import secrets

from msgspec import Struct

from fairlead.model.errors import Problem

FORMAT = 1
"""The format that this release writes into a fresh store."""
OLDEST_READER = 1
"""The oldest format number whose readers still understand what this release writes."""
OLDEST_READ = 1
"""The oldest format that this release still reads."""


class Identity(Struct, frozen=True, gc=False):
    """One record, written when a store is first opened; only a restore or a migration changes it."""

    format: int
    oldest_reader: int
    site: str
    generation: int


def new_identity() -> Identity:
    """For a fresh store: a site that no other store has."""
    return Identity(FORMAT, OLDEST_READER, secrets.token_hex(8), generation=1)


def foreign_format(identity: Identity, where: str) -> Problem | None:
    """Why this release must not use a store of that format, or None."""
    if identity.oldest_reader > FORMAT:
        return Problem(
            code="store_newer",
            message=f"the store has format {identity.format}, this release reads up to {FORMAT}",
            why=f"it needs a reader of format {identity.oldest_reader} or newer",
            where=where,
            fix="pip install --upgrade fairlead",
        )
    if identity.format < OLDEST_READ:
        return Problem(
            code="store_older",
            message=f"the store has format {identity.format}, this release reads from {OLDEST_READ} on",
            why="it was written by a release that is too old to be read directly",
            where=where,
            fix="start a release in between once, then this one",
        )
    return None
