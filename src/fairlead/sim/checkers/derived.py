"""Everything derived equals what it is derived from: the leader's memory, the store, and its own sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.controllers.ledger import Ledger
from fairlead.controllers.records import describe
from fairlead.model.lifecycles import State
from fairlead.model.storage import Loaded
from fairlead.plane.checkpoints import load_ledger
from fairlead.plane.core import Core
from fairlead.scheduler.core import Scheduler
from fairlead.sim.checkers.sights import Broken

NAME = "I10 derived is stored"


def check_store(loaded: Loaded, stored: Ledger, leader: Ledger | None) -> None:
    """A load finds what the log said, and what an idle leader believes."""
    found = describe(load_ledger(loaded)[0])
    _same("a load", found, "the log", describe(stored))
    if leader is not None:
        _same("the leader", describe(leader), "a load", found)


def _same(one: str, left: dict[str, Any], other: str, right: dict[str, Any]) -> None:
    for kind, value in left.items():
        if value != right[kind]:
            raise Broken(NAME, f"{one} and {other} differ in {kind}: {_first(value, right[kind])}")


def _first(left: Any, right: Any) -> str:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            if left.get(key) != right.get(key):
                return f"{key}: {_first(left.get(key), right.get(key))}"
    return f"{str(left)[:150]} / {str(right)[:150]}"


def check_core(core: Core) -> None:
    """Reservations are the open attempts, room is what they leave, the queue is what was offered."""
    scheduler, ledger = core.scheduler, core.ledger
    _check_reservations(scheduler, ledger)
    _check_room(scheduler)
    _check_queue(core)


def _check_reservations(scheduler: Scheduler, ledger: Ledger) -> None:
    active: dict[int, list[tuple[int, int, int]]] = {}
    for number in sorted(ledger.open):
        rows = []
        for at, page in sorted(ledger.jobs[number].pages.pages.items()):
            indices = np.flatnonzero(page.state == State.active)
            columns = (page.agent[indices].tolist(), page.attempt[indices].tolist())
            rows += [
                (at * 4096 + index, *facts) for index, *facts in zip(indices.tolist(), *columns, strict=True)
            ]
        if rows:
            active[number] = rows
    kept: dict[int, list[tuple[int, int, int]]] = {}
    for number, book in sorted(scheduler.kept.books.items()):
        indices = np.flatnonzero(book.stage != 0)
        columns = (book.agent[indices].tolist(), book.attempt[indices].tolist())
        rows = list(zip(indices.tolist(), *columns, strict=True))
        if len(rows) != book.open:
            raise Broken(NAME, f"job {number} counts {book.open} open reservations and has {len(rows)}")
        if rows:
            kept[number] = rows
    if active != kept:
        raise Broken(NAME, f"reservations and open attempts differ: {_first(kept, active)}")


def _check_room(scheduler: Scheduler) -> None:
    table = scheduler.table
    used: dict[tuple[int, int], int] = {}
    counts: dict[int, int] = {}
    for book in scheduler.kept.books.values():
        for agent in book.agent[book.stage != 0].tolist():
            counts[agent] = counts.get(agent, 0) + 1
            for column, amount in zip(book.shape.columns, book.shape.amounts, strict=True):
                used[agent, column] = used.get((agent, column), 0) + amount
    held = {agent: sum(jobs.values()) for agent, jobs in scheduler.kept.holds.items()}
    if counts != held:
        raise Broken(NAME, f"agents hold {held}, their reservations are {counts}")
    for number, row in table.rows.items():
        for name, column in table.resources.items():
            free = int(table.total[column][row]) - used.get((number, column), 0)
            if int(table.free[column][row]) != free:
                raise Broken(NAME, f"agent {number} has {table.free[column][row]} {name} free, not {free}")


def _check_queue(core: Core) -> None:
    queue = core.scheduler.queue
    lots = sum(lot.total() for lots in queue.by_job.values() for lot in lots)
    if lots != queue.waiting:
        raise Broken(NAME, f"the queue counts {queue.waiting} and holds {lots}")
    for number, job in core.ledger.jobs.items():
        counted = {state: count for state, count in job.states.items() if count}
        found: dict[State, int] = {}
        touched = 0
        for page in job.pages.pages.values():
            touched += len(page.state)
            for state in page.state.tolist():
                found[State(state)] = found.get(State(state), 0) + 1
        if job.spec.count - touched:
            found[State.waiting] = found.get(State.waiting, 0) + job.spec.count - touched
        if counted != found:
            raise Broken(NAME, f"job {number} counts {counted} and has {found}")
        waiting = found.get(State.waiting, 0)
        queued = sum(lot.total() for lot in queue.by_job.get(number, []))
        hand = core.work.hands.get(number)
        back = sum(span[1] for span in hand.back) if hand else 0
        if waiting != queued + back:
            raise Broken(NAME, f"job {number} has {waiting} waiting, {queued} queued and {back} to be dealt")
        if hand is not None and hand.out != queued + found.get(State.active, 0):
            raise Broken(NAME, f"job {number} has {hand.out} dealt out, {queued} queued and {found}")
