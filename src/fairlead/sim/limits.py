"""Makes the plane's large limits small for a run, so that rare paths are walked often.

Segments of many parts, checkpoints, log floors and used-up budgets need thousands of jobs at their real sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from fairlead.agent import telling
from fairlead.model import retries
from fairlead.plane import checkpoints, journal, plane

PLACES: dict[str, tuple[ModuleType, str]] = {
    "segment_bytes": (journal, "SEGMENT_BYTES"),
    "round_bytes": (checkpoints, "ROUND_BYTES"),
    "piece_bytes": (checkpoints, "PIECE_BYTES"),
    "follow_bytes": (plane, "FOLLOW_BYTES"),
    "step_rows": (plane, "STEP_ROWS"),
    "report_rows": (telling, "ORDER_ROWS"),
    "frame_rows": (telling, "FRAME_ROWS"),
    "most_free": (retries, "MOST_FREE"),
}


@contextmanager
def scaled(sizes: dict[str, int]) -> Iterator[None]:
    """Within, these limits are so small; 0 leaves one as it is."""
    before = {name: getattr(*PLACES[name]) for name in sizes}
    try:
        for name, size in sizes.items():
            if size:
                setattr(*PLACES[name], size)
        yield
    finally:
        for name, size in before.items():
            setattr(*PLACES[name], size)
