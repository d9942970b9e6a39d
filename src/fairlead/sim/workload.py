"""What clients do: submit, repeat, cancel, look. Each is an item of the scenario; here is what it asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fairlead.model.jobs import JobSpec, Need, encode_spec
from fairlead.model.lifecycles import Wanted
from fairlead.model.reasons import Reason
from fairlead.model.requests import Cancel, Explain, History, Look, Request, Submit, WantAgent
from fairlead.sim.cluster import Cluster
from fairlead.sim.keepers import Command
from fairlead.sim.scenario import Item
from fairlead.sim.talkers import Talker

TENANT = "default"


class Workload:
    """Plans items of work into a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.names: list[str] = []
        self.kinds: dict[str, Callable[[Item], None]] = {
            "submit": self._submit,
            "cancel": self._cancel,
            "look": self._look,
        }

    def plan(self, item: Item) -> None:
        """Let it happen at its time."""
        self.cluster.world.after(item.at, partial(self.kinds[item.kind], item))

    def _client(self, item: Item) -> Talker:
        return self.cluster.clients[(item.args["client"] - 1) % len(self.cluster.clients)]

    def _submit(self, item: Item) -> None:
        args = item.args
        name = f"job{args['n']}"
        needs: list[Need] = []
        if args.get("needs") and self.names:
            on = ("success", "failure", "always")[args["needs"] - 1]
            needs = [Need(self.names[args["n"] % len(self.names)], on)]
        self.names.append(name)
        spec = make_spec(name, args, needs)
        request = Submit(
            f"key-{args['n']}", f"digest-{args['n']}", "", TENANT, "someone", [encode_spec(spec)]
        )
        client = self._client(item)
        client.ask(request)
        if args.get("again"):
            again = self.cluster.clients[args["n"] % len(self.cluster.clients)]
            self.cluster.world.after(args["again"], lambda: again.ask(request))

    def _cancel(self, item: Item) -> None:
        request = Cancel([f"job{item.args['n']}"], TENANT, int(Reason.cancelled_by_user))
        self._client(item).ask(request)

    def _look(self, item: Item) -> None:
        name = self.names[-1] if self.names else "job1"
        requests: list[Request] = [
            Look("jobs", TENANT, limit=5),
            Look("instances", TENANT, name, limit=20),
            Explain(name, TENANT),
            History(name, TENANT),
        ]
        self._client(item).ask(requests[item.args["what"]])

    def want(self, agent: int, wanted: Wanted) -> None:
        """Cordon an agent, or open it again."""
        self.cluster.clients[0].ask(WantAgent(f"a{agent}", int(wanted), "as the scenario says"))

    def cancel_all(self) -> None:
        """Whatever still waits is not wanted any more."""
        for name in self.names:
            self.cluster.clients[0].ask(Cancel([name], TENANT, int(Reason.cancelled_by_user)))


def make_spec(name: str, args: dict[str, int], needs: list[Need]) -> JobSpec:
    """The job behind an item."""
    get = args.get
    command = Command(
        get("ms", 0), get("exit", 0), get("out", 0), get("err", 0), get("term", 10), get("good_from", 1)
    )
    return JobSpec(
        name=name,
        command=["missing"] if get("missing") else command.argv(),
        count=get("count", 1),
        parallel=get("parallel", 0),
        ask={"cpu": get("cpu", 1_000)},
        where=["nobody = like-that"] if get("where") else [],
        needs=needs,
        run_ms=get("run", 0),
        pending_ms=get("pending", 0),
        grace_ms=2_000,
        retry_infrastructure=get("infra", 3),
        retry_job=get("retry", 0),
        exclusive=bool(get("exclusive")),
        refuse_when_full=bool(get("refuse")),
    )
