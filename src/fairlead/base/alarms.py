"""When something is due next, for many things at once: a heap whose stale entries are dropped when they surface."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")


class Alarms(Generic[K]):
    """One time a key; setting it again moves it."""

    __slots__ = ("_at", "_heap", "_order")

    def __init__(self) -> None:
        self._at: dict[K, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, K]] = []
        # Keys are never compared: entries of one time stand in the order in which they were set.
        self._order = 0

    def __contains__(self, key: K) -> bool:
        return key in self._at

    def __len__(self) -> int:
        return len(self._at)

    def set(self, key: K, at: int) -> None:
        """It is due then, whatever was set before."""
        self._order += 1
        self._at[key] = (at, self._order)
        heapq.heappush(self._heap, (at, self._order, key))
        if len(self._heap) > 2 * len(self._at) + 64:
            self._heap = [(when, order, name) for name, (when, order) in self._at.items()]
            heapq.heapify(self._heap)

    def drop(self, key: K) -> None:
        """It is not due any more."""
        self._at.pop(key, None)

    def due(self, now: int) -> Iterator[K]:
        """What is due by now, the longest due first; each is dropped as it is given."""
        while (at := self.next_at()) is not None and at <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._at[key]
            yield key

    def next_at(self) -> int | None:
        """When the next one is due."""
        while self._heap:
            at, order, key = self._heap[0]
            if self._at.get(key) == (at, order):
                return at
            heapq.heappop(self._heap)
        return None
