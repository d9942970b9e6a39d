"""Nothing leaves before what it depends on is in the store's log: orders, acknowledgements, and what is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.base.ids import find_job_number
from fairlead.model import changes
from fairlead.model.orders import Ack, Start, What
from fairlead.model.requests import Cancel, Changed, Look, Seen, WantAgent
from fairlead.sim.checkers.sights import Broken, Checkpointed, Durable, Ordered, Replied

CLOSED = ("succeeded", "failed", "cancelled", "timed_out", "refused", "stopped", "lost")


class DurableFirst:
    """What the log says of attempts, beside what servers say."""

    def __init__(self) -> None:
        self.placed: dict[tuple[int, int, int], int] = {}
        self.ended: set[tuple[int, int, int]] = set()
        self.closed: set[tuple[int, int]] = set()
        self.output: dict[tuple[int, int, int], int] = {}
        self.jobs: dict[int, str] = {}
        self.names: set[str] = set()
        self.cancelled: set[int] = set()
        self.sees: dict[type, Callable[..., None]] = {
            Durable: self.durable,
            Ordered: self.ordered,
            Replied: self.replied,
        }
        self.sees[Checkpointed] = self.checkpointed

    def durable(self, sight: Durable) -> None:
        """Read the log."""
        for change in sight.part.changes:
            if isinstance(change, changes.Placed):
                for (job, first, count, attempt), agent in zip(
                    change.keys.spans(), change.agent, strict=True
                ):
                    for index in range(first, first + count):
                        self.placed[job, index, attempt] = agent
            elif isinstance(change, changes.Ended):
                for row, (job, first, count, attempt) in enumerate(change.keys.spans()):
                    for index in range(first, first + count):
                        self.ended.add((job, index, attempt))
                        self.output[job, index, attempt] = change.output[row]
                        if change.then[row]:
                            self.closed.add((job, index))
            elif isinstance(change, changes.Closed):
                for job, first, count, _ in change.keys.spans():
                    self.closed.update((job, index) for index in range(first, first + count))
            elif isinstance(change, changes.OutputDone):
                for row, (job, first, count, attempt) in enumerate(change.keys.spans()):
                    for index in range(first, first + count):
                        self.output[job, index, attempt] = change.output[row]
            elif isinstance(change, changes.Submitted):
                self.jobs |= dict.fromkeys(change.job, change.name)
            elif isinstance(change, changes.CancelWanted):
                self.cancelled.update(change.job)

    def ordered(self, sight: Ordered) -> None:
        """A start follows its placement, an acknowledgement its fact."""
        for order in sight.orders:
            if isinstance(order, Start | Ack):
                for job, first, count, attempt in order.keys.spans():
                    for index in range(first, first + count):
                        self._order(sight.agent, order, (job, index, attempt))

    def _order(self, agent: int, order: Start | Ack, key: tuple[int, int, int]) -> None:
        name = ".".join(map(str, key))
        if isinstance(order, Start):
            if self.placed.get(key) != agent:
                raise Broken("durable first", f"start of {name} on agent {agent} before its placement")
        elif self.placed.get(key) == agent and key not in self.ended:
            raise Broken("durable first", f"{order.what.name} of {name} acknowledged before its end")
        elif order.what == What.output and self.output.get(key) == 1 and self.placed.get(key) == agent:
            raise Broken("durable first", f"output of {name} acknowledged while it is pending")

    def checkpointed(self, sight: Checkpointed) -> None:
        """A checkpoint stands for segments that are there, or were."""
        if sight.includes > sight.head:
            raise Broken(
                "checkpoints", f"{sight.key} includes {sight.includes}, the log ends at {sight.head}"
            )

    def replied(self, sight: Replied) -> None:
        """What is shown is what is stored."""
        request, reply = sight.request, sight.reply
        if isinstance(request, Look) and isinstance(reply, Seen) and request.kind in ("jobs", "instances"):
            for item in reply.items:
                self._shown(request.kind, item)
        elif isinstance(request, Cancel) and isinstance(reply, Changed):
            self._cancel(request)
        elif isinstance(request, WantAgent):
            return

    def _shown(self, kind: str, item: dict[str, Any]) -> None:
        number = item["number"] if "number" in item else find_job_number(item["id"])
        if number not in self.jobs:
            raise Broken("answers after durable", f"job {number} is shown and not stored")
        if kind == "instances":
            if item["state"] in CLOSED and (number, item["index"]) not in self.closed:
                raise Broken("answers after durable", f"{item['id']} is shown {item['state']} too early")
            if item["attempt"] and (number, item["index"], item["attempt"]) not in self.placed:
                raise Broken("answers after durable", f"{item['id']} attempt {item['attempt']} is not stored")

    def _cancel(self, request: Cancel) -> None:
        wanted = [number for number, name in self.jobs.items() if name in request.names]
        open_ = [number for number in wanted if number not in self.cancelled]
        instances = {job for job, _ in self.closed}
        if wanted and any(number not in instances for number in open_):
            raise Broken("answers after durable", f"{request.names} is answered cancelled, not stored")
