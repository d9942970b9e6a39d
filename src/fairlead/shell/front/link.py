"""What a front needs of others: a link to the control that leads, a store of bytes, a signer, a bell to ring."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from fairlead.model.changes import Part
from fairlead.model.errors import Problem
from fairlead.model.requests import Following, Reply, Request


class ControlLink(Protocol):
    """Asks whichever control leads; a change is asked again until it is answered or its time is over."""

    async def ask(self, request: Request, timeout_ms: int) -> Reply:
        """The answer, or a Problem; nobody reached in time is a Problem or TimeoutError."""
        ...

    def follow(self, since: int) -> AsyncIterator[Part | Following]:
        """Segments as they become durable; a Following with `resync` where older ones are gone."""
        ...


class Blobs(Protocol):
    """Objects at rest. Every call may block and is made from a thread; faults are OSError."""

    def put(self, key: str, data: bytes) -> bool:
        """Create only, whole or not at all, durable on return; False when the key is there already."""
        ...

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        """Bytes of an object, fewer where it ends; None when there is none."""
        ...

    def list(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """The first keys behind `after`, in order."""
        ...


Sign = Callable[[str, str, int], str]
"""(certificate request, role, number) to certificate, all PEM; ValueError for a request that is none."""

Prove = Callable[[str, str], tuple[str, int] | Problem]
"""(certificate, request for the next one) to the role and number that the certificate names, or why not."""


class Ring(Protocol):
    """What is rung when there may be news for somebody."""

    def set(self) -> None:
        """Ring."""
        ...
