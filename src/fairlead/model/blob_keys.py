"""Under which names bytes lie in the blob store.

A key is never written twice with different bytes: it holds the boot of the front that wrote it and a counter,
or the hash of what it names. So a store needs neither conditions nor locks, and may ignore both.
"""

from __future__ import annotations

import re

LONGEST_KEY = 512
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_BOOT = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def is_key(text: str) -> bool:
    """Whether a store takes this as a key: segments of plain letters, none that begins with a dot."""
    return len(text) <= LONGEST_KEY and all(_SEGMENT.fullmatch(part) for part in text.split("/"))


def check_key(text: str) -> None:
    """ValueError for what is no key: keys are built here, so another text is a bug or an attack."""
    if not is_key(text):
        raise ValueError(f"not a key of the blob store: {text[:80]!r}")


def fresh(boot: str, n: int) -> str:
    """The nth commit of one boot of a front. Commits sort by number."""
    return f"fresh/{_whole(_BOOT, boot)}/{n:012d}"


def log(day: str, first_job: int, last_job: int, boot: str, n: int) -> str:
    """A merged pack with the output of these jobs, of one day."""
    return f"logs/{_whole(_DAY, day)}/{first_job:012d}-{last_job:012d}.{_whole(_BOOT, boot)}.{n:012d}"


def content(sha256: str) -> str:
    """A file, or part of one, by its hash."""
    return f"cas/{_whole(_SHA256, sha256)[:2]}/{sha256}"


def tree(sha256: str) -> str:
    """A manifest by its hash."""
    return f"trees/{_whole(_SHA256, sha256)}"


def archive(day: str, sha256: str) -> str:
    """A pack of the records of jobs long closed."""
    return f"archive/{_whole(_DAY, day)}/{_whole(_SHA256, sha256)}"


def marker(nonce: str) -> str:
    """What one server puts so that another proves it sees the same store."""
    return f"markers/{_whole(_BOOT, nonce)}"


def _whole(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError(f"no part of a key: {text[:80]!r}")
    return text
