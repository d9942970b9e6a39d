"""What a scorer of rows is given: one row's state, what is asked of it, and what the site is like.

A scorer answers with an integer from 0 to `POINTS`, higher is better. It depends on nothing else, so its
answer is remembered by state: few states are new.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fairlead.placement.devices import WHOLE

# A hundred points, in parts of ten thousand.
POINT = 10_000
POINTS = 100 * POINT


class Row(NamedTuple):
    """An agent before the placement."""

    cpu: int
    # What is free on each GPU, least first.
    gpus: tuple[int, ...]
    # Which typical asks it could serve by its labels and size, as bits.
    admits: int
    # The classes of GPU work on it: a share, or how many whole devices.
    classes: tuple[int, ...]


class Asked(NamedTuple):
    """One instance."""

    cpu: int
    gpu: int

    @property
    def kind(self) -> int:
        """Its class of GPU work: 0 for a share, else how many whole devices."""
        return self.gpu // WHOLE


class Typical(NamedTuple):
    """One kind of work that the site sees often; shares add up to one."""

    cpu: int
    gpu: int
    share: float


class Site(NamedTuple):
    """What the rows are measured against."""

    largest_cpu: int
    largest_gpu: int
    # How much of the row's idle GPUs is useless for the work the site sees.
    stranded: Callable[[Row], float]


def left_over(row: Row, asked: Asked) -> list[Row]:
    """The row afterwards, one for each device that a share could be taken from."""
    cpu = row.cpu - asked.cpu
    if not asked.gpu:
        return [row._replace(cpu=cpu)]
    if asked.gpu < WHOLE:
        found = []
        for at, free in enumerate(row.gpus):
            if free >= asked.gpu and (at == 0 or row.gpus[at - 1] != free):
                gpus = tuple(sorted((*row.gpus[:at], free - asked.gpu, *row.gpus[at + 1 :])))
                found.append(row._replace(cpu=cpu, gpus=gpus))
        return found
    whole = asked.gpu // WHOLE
    return [row._replace(cpu=cpu, gpus=(0,) * whole + row.gpus[: len(row.gpus) - whole])]
