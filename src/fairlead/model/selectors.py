"""Which work is meant by what people type: names, ids, one instance or a range of them.

    NAME   SUBMISSION/JOB   JOB/17   JOB/3-9   SUBMISSION/JOB/3-9   j-3k9   j-3k9/17   s-3k9   last

An id wins over a name. What a name stands for is looked up by whoever holds the jobs; this module only reads.
"""

from __future__ import annotations

import re

from msgspec import Struct

from fairlead.base.ids import find_job_number, unspell

from .errors import Problem, quote
from .jobs import LARGEST_COUNT, NAME

_NAME = re.compile(NAME, re.ASCII)
_RANGE = re.compile(r"([0-9]{1,8})(?:-([0-9]{1,8}))?", re.ASCII)
_ALLOWED = "names are like `unit`, `ci/unit`, `unit/17`, `unit/3-9`, or an id like `j-3k9`"
_LIKE = "fairlead get jobs"

# My newest submission; nothing may be named so.
LAST = "last"


class Selector(Struct, frozen=True, gc=False):
    """What was typed, taken apart.

    `name` alone may name a job or a submission. `job` and `number` are the numbers behind `j-…` and `s-…`,
    -1 when no id was typed. `first` and `last` bound the instances, both included; -1: all of them.
    """

    submission: str = ""
    name: str = ""
    job: int = -1
    number: int = -1
    first: int = -1
    last: int = -1

    @property
    def whole(self) -> bool:
        """Whether no instances were singled out."""
        return self.first < 0


def find_submission_number(text: str) -> int | None:
    """The number behind `s-…`, or None when the text is no such id."""
    return unspell(text[2:]) if text.startswith("s-") else None


def is_reserved(name: str) -> bool:
    """Whether a name would never be reached, because it reads as an id or a word."""
    return name == LAST or find_job_number(name) is not None or find_submission_number(name) is not None


def parse_selector(text: str) -> Selector | Problem:
    """What is meant, or why nothing can be."""
    parts = text.split("/", 3)
    bounds = _RANGE.fullmatch(parts[-1]) if len(parts) > 1 else None
    names = parts[:-1] if bounds else parts
    if not all(_NAME.match(part) for part in names) or len(names) > 2:
        if len(parts) > 1 and "=" in parts[-1]:
            return Problem("unsupported", f"{quote(text)}: choosing by values is not supported yet", _ALLOWED)
        return Problem("name", f"{quote(text)} names no work", _ALLOWED, fix=_LIKE)
    first, last = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (-1, -1)
    if last < first:
        return Problem("range", f"{quote(text)} ends before it begins", fix=f"write {last}-{first}")
    if last >= LARGEST_COUNT:
        return Problem(
            "range", f"{quote(text)} is too far", f"the last possible index is {LARGEST_COUNT - 1}"
        )
    return _select(names, first, last)


def _select(names: list[str], first: int, last: int) -> Selector | Problem:
    if len(names) == 2:
        return Selector(submission=names[0], name=names[1], first=first, last=last)
    job = find_job_number(names[0])
    if job is not None:
        return Selector(job=job, first=first, last=last)
    number = find_submission_number(names[0])
    if number is None:
        return Selector(name=names[0], first=first, last=last)
    if first < 0:
        return Selector(number=number)
    return Problem("name", f"{quote(names[0])} is a submission, and has no instances", _ALLOWED, fix=_LIKE)
