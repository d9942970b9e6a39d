"""The simulator's blob store: what was put is there, and the world decides when it may be down.

It keeps the promises of the folder, and passes its contract suite.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from fairlead.model import blob_keys


class MemoryBlobs:
    """The port `Blobs` in memory; handles given the same dictionary see one store."""

    def __init__(self, held: dict[str, bytes] | None = None) -> None:
        self.held: dict[str, bytes] = {} if held is None else held

    def put(self, key: str, data: bytes) -> bool:
        """Create. False, and nothing changes, when the key is there already."""
        blob_keys.check_key(key)
        if key in self.held:
            return False
        self.held[key] = bytes(data)
        return True

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        """Bytes from `start`, at most `length`; fewer, or none, where the blob ends. None: no such blob."""
        blob_keys.check_key(key)
        if start < 0:
            raise ValueError(f"no blob begins at {start}")
        data = self.held.get(key)
        if data is None:
            return None
        return data[start:] if length is None else data[start : start + max(length, 0)]

    def list(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """The first keys with this prefix that sort behind `after`, in the order of their bytes."""
        return list(islice((k for k in sorted(self.held) if k.startswith(prefix) and k > after), limit))

    def delete(self, keys: Iterable[str]) -> None:
        """Forget these; what is not there is forgotten already."""
        for key in keys:
            blob_keys.check_key(key)
            self.held.pop(key, None)

    def mark(self, nonce: str) -> None:
        """Leave a marker that another server on the same store can prove to see."""
        self.put(blob_keys.marker(nonce), b"")

    def prove(self, nonce: str) -> bool:
        """Whether this store is the one that was marked with this fresh nonce."""
        return self.get(blob_keys.marker(nonce)) is not None
