"""The agents as the engine sees them: one column per resource, one row per agent.

Decides nothing; keeps what is free, and logs which rows were touched, so that a score column is patched and
not computed anew. A row exists only in here: elsewhere an agent is its number. Rows are kept in the order of
the numbers, so a tie goes to the lowest number whatever the order in which agents came. Amounts are exact
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from fairlead.model.asks import Ask, ask_of, options
from fairlead.model.errors import Problem
from fairlead.model.policies import PACK, Policy, score_formula
from fairlead.model.wall import Shape
from fairlead.placement.columns import Columns
from fairlead.placement.devices import DEVICE, WHOLE, Devices, Taken, of_each
from fairlead.placement.groups import Groups
from fairlead.placement.labels import Labels
from fairlead.placement.scale import FULL, OUT, Ints, Mask, Scores
from fairlead.placement.shapes import Interned as Interned
from fairlead.placement.states import SCORERS, States

FIRST_ROWS = 16
LOG_ROWS = 1 << 16
# More shapes than this are remembered by their lots alone; the next lot like them is compiled again.
MOST_SHAPES = 4096
SCORED = ("cpu", "memory", DEVICE)


class Pool:
    """A resource of the whole cluster, on no machine."""

    __slots__ = ("free", "total")

    def __init__(self) -> None:
        self.total = 0
        self.free = 0


class AgentTable:
    """Free and total amounts, openness and labels of every known agent."""

    def __init__(self, policy: Policy = PACK) -> None:
        self.policy = policy
        self.numbers: list[int] = []
        self.rows: dict[int, int] = {}
        self.labels: list[Mapping[str, str]] = []
        self.resources: dict[str, int] = {}
        self.total: list[Ints] = []
        self.free: list[Ints] = []
        # Takes new work: in contact, wanted open, fit.
        self.open: Mask = np.zeros(FIRST_ROWS, np.bool_)
        # When the agent ends by itself; 0: not known to.
        self.ends_at: Ints = np.zeros(FIRST_ROWS, np.int64)
        self.load: Ints = np.zeros(FIRST_ROWS, np.int64)
        # What a row's score is before anything is asked of it.
        self.base: Scores = np.full(FIRST_ROWS, OUT, np.int32)
        self.pools: dict[str, Pool] = {}
        self.marks = Labels(FIRST_ROWS)
        self.devices = Devices(FIRST_ROWS)
        self.groups = Groups(FIRST_ROWS)
        # Counts what may make a blocked shape fit: room given back, an agent opened.
        self.room_version = 0
        # Counts what a score column cannot be patched for.
        self.epoch = 0
        self.log: Ints = np.zeros(LOG_ROWS, np.int64)
        self.logged = 0
        self.seen_at: Ints = np.zeros(FIRST_ROWS, np.int64)
        self._sorted = True
        self._shapes: dict[tuple[Ask, int], Interned] = {}
        self.room_weight = policy.room_weight()
        self._load_weight = policy.weight("load")
        self.scored: list[int] = []
        self.columns = Columns(self)
        formula = score_formula(policy.score) if policy.score else None
        # What was set was checked then; a formula this release cannot read scores nothing.
        self.formula = None if isinstance(formula, Problem) else formula
        by_row = [each for each in policy.scorers if each[0] in SCORERS]
        self.states = States(self, by_row) if by_row else None
        # Placing only makes a row better: the best one may be filled at once.
        self.fills = self.room_weight >= 0 and self.states is None and self.formula is None
        # The classes of GPU work on each agent, with their numbers.
        self.classes: dict[int, dict[int, int]] = {}
        # Which devices an instance gets; none named: the tightest.
        self.pick: Callable[[Interned, int], Taken] = self.states.device if self.states else _tightest

    def __len__(self) -> int:
        return len(self.numbers)

    # Agents.

    def set_agent(
        self,
        number: int,
        totals: Mapping[str, int],
        labels: Mapping[str, str],
        taints: Collection[str] = (),
        ends_at: int = 0,
    ) -> None:
        """A new agent, or one that came back with other totals; what it holds stays counted."""
        row = self._row(number)
        for name in totals:
            self._column(name)
        for name, column in self.resources.items():
            now = totals.get(name, 1 if _is_port(name) else 0)
            before = int(self.total[column][row])
            if now != before:
                self.free[column][row] += now - before
                self.total[column][row] = now
                self.epoch += 1
        self.devices.equip(row, totals.get(DEVICE, 0))
        if self.labels[row] != labels:
            self.marks.change(row, self.labels[row], labels)
            self.labels[row] = dict(labels)
            self.groups.moved()
            self.epoch += 1
        if set(taints) != {name for name, column in self.marks.taints.items() if column[row]}:
            self.marks.taint(row, taints)
            self.epoch += 1
        self.ends_at[row] = ends_at
        self.room_version += 1
        self._touch(row)

    def set_open(self, number: int, is_open: bool) -> None:
        """Whether an agent takes new work."""
        row = self._row(number)
        if self.open[row] != is_open:
            self.open[row] = is_open
            self.room_version += 1
            self._touch(row)

    def set_load(self, number: int, per_mille: int) -> None:
        """How busy the agent measured itself."""
        row = self._row(number)
        self.load[row] = per_mille
        self._touch(row)

    def set_pool(self, name: str, total: int) -> None:
        """The cluster owns so much of a resource; no agent is asked for it any more."""
        pool = self.pools.get(name)
        if pool is None:
            pool = self.pools[name] = Pool()
            self.epoch += 1
        pool.free += total - pool.total
        pool.total = total
        self.room_version += 1

    # Shapes.

    def intern(self, shape: Shape | Ask, option: int = 0) -> Interned:
        """The shape in the table's own terms, with one of its alternatives."""
        ask = ask_of(shape)
        known = self._shapes.get((ask, option))
        if known is None:
            known = self._intern(ask, option)
        return known

    def options(self, ask: Ask) -> list[Interned]:
        """The shape's alternatives, best first."""
        return [self.intern(ask, option) for option in range(max(1, len(ask.any_of)))]

    def _intern(self, ask: Ask, option: int) -> Interned:
        if len(self._shapes) >= MOST_SHAPES:
            del self._shapes[next(iter(self._shapes))]
        ports = tuple((f"port:{port}", 1) for port in ask.ports)
        amounts = options(ask)[option] + ports
        shape = Interned(ask, amounts, [self._column(name) for name, _ in amounts])
        self._shapes[(ask, option)] = shape
        for term in (*shape.near, *shape.apart, *(term for term, _ in shape.spread)):
            self.groups.of_rule(term.rule, self.rows, self.marks)
        for term in shape.apart:
            self.groups.of_carriers(term)
        return shape

    def meets(self, shape: Interned) -> Mask:
        """Rows whose labels meet the shape's rules."""
        key = (self.marks.version, len(self))
        if shape.meets_key != key:
            shape.meets = np.full(len(self), shape.rules is not None, np.bool_)
            for rule in shape.rules or ():
                shape.meets &= self.marks.meets(rule, len(self))
            shape.meets_key = key
        return shape.meets

    # Room.

    def take(self, shape: Interned, number: int, count: int) -> None:
        """Room for so many instances is used; an agent yet unknown to the table owes it."""
        row = self.rows.get(number)
        self.use(shape, number, self._row(number) if row is None else row, count)

    def give(self, shape: Interned, number: int, count: int) -> None:
        """Room for so many instances is free again."""
        self.use(shape, number, self.rows[number], -count)
        self.room_version += 1

    def use(self, shape: Interned, number: int, row: int, count: int) -> None:
        """So many more instances of the shape on the row; less than none gives room back."""
        for column, amount, name in zip(shape.columns, shape.amounts, shape.names, strict=True):
            if name in self.pools:
                self.pools[name].free -= amount * count
            else:
                self.free[column][row] -= amount * count
        if shape.device:
            self._use_devices(shape, number, row, count)
        if shape.social:
            self.groups.hold(shape, number, row, count, self.marks)
        self._touch(row)

    def _use_devices(self, shape: Interned, number: int, row: int, count: int) -> None:
        held = shape.devices.setdefault(number, [])
        each = of_each(shape.device)
        classes = self.classes.setdefault(number, {})
        kind = shape.device // WHOLE
        classes[kind] = classes.get(kind, 0) + count
        if not classes[kind]:
            del classes[kind]
        for _ in range(count):
            taken = self.pick(shape, row) or self.devices.choose(row, shape.device)
            self.devices.use(row, taken, each)
            held.append(taken)
        for _ in range(-count):
            self.devices.use(row, held.pop(), -each)
        if not held:
            del shape.devices[number]

    def _touch(self, row: int) -> None:
        if self.logged == LOG_ROWS:
            self.logged = 0
            self.epoch += 1
        self.log[self.logged] = row
        self.logged += 1
        self.base[row] = self._base(row) if self.open[row] else OUT
        if self.states is not None:
            self.states.touched(row)

    def _base(self, row: int) -> int:
        score = 0
        for column in self.scored:
            total = self.total[column].item(row)
            if total > 0:
                score += self.free[column].item(row) * FULL // total
        score *= self.room_weight
        if self._load_weight:
            score += self._load_weight * self.load.item(row) * FULL // 1000
        return score

    # Rows.

    def settle(self) -> None:
        """Rows in the order of the numbers, if newcomers disturbed it."""
        if self._sorted:
            return
        order = np.argsort(np.array(self.numbers, np.int64), kind="stable")
        rows = len(order)
        for column in (*self.total, *self.free, self.open, self.ends_at, self.load, self.base):
            column[:rows] = column[order]
        self.marks.reorder(order)
        self.devices.reorder(order)
        self.groups.reorder(order)
        self.numbers = [self.numbers[row] for row in order.tolist()]
        self.labels = [self.labels[row] for row in order.tolist()]
        self.rows = {number: row for row, number in enumerate(self.numbers)}
        self._sorted = True
        self._renew()

    def _renew(self) -> None:
        self.epoch += 1
        self.logged = 0

    def _row(self, number: int) -> int:
        row = self.rows.get(number)
        if row is None:
            row = self.rows[number] = len(self.numbers)
            self._sorted = self._sorted and (not row or self.numbers[-1] < number)
            self.numbers.append(number)
            self.labels.append({})
            if row >= len(self.open):
                self._grow()
            for name, column in self.resources.items():
                if _is_port(name):
                    self.total[column][row] = self.free[column][row] = 1
            self._renew()
        return row

    def _column(self, name: str) -> int:
        column = self.resources.get(name)
        if column is None:
            column = self.resources[name] = len(self.total)
            # Every agent has each of its ports once.
            first = 1 if _is_port(name) else 0
            self.total.append(np.full(len(self.open), first, np.int64))
            self.free.append(np.full(len(self.open), first, np.int64))
            if name in SCORED:
                self.scored.append(column)
                self.epoch += 1
        return column

    def _grow(self) -> None:
        size = len(self.open) * 2
        more = size - len(self.open)
        ints = np.zeros(more, np.int64)
        self.open = np.concatenate([self.open, np.zeros(more, np.bool_)])
        self.total = [np.concatenate([column, ints]) for column in self.total]
        self.free = [np.concatenate([column, ints]) for column in self.free]
        self.ends_at = np.concatenate([self.ends_at, ints])
        self.load = np.concatenate([self.load, ints])
        self.seen_at = np.concatenate([self.seen_at, ints])
        self.base = np.concatenate([self.base, np.full(more, OUT, np.int32)])
        self.marks.grow(size)
        self.devices.grow(size)
        self.groups.grow(size)


def _tightest(_: Interned, __: int) -> Taken:
    return ()


def _is_port(name: str) -> bool:
    return name.startswith("port:")
