"""What may be said to a plane: sense and nonsense of agents, fronts and strangers, as strategies; and a site of
honest agents with real jobs, to which it is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from tests.unit.plane.conversation import Agent, Conversation, submission

from fairlead.controllers.records import describe
from fairlead.model import orders, requests
from fairlead.model.jobs import JobSpec, Need, encode_spec
from fairlead.model.keys import Keys
from fairlead.model.lifecycles import Outcome, Stage
from fairlead.model.orders import Frame, How, What
from fairlead.model.reasons import Reason
from fairlead.model.storage import Fence, Load, Loaded
from fairlead.plane.checkpoints import load_ledger
from fairlead.plane.words import Asked, Closed, Opened, Received, Unlinked

# As the wire knows numbers: 64 bits with a sign.
EDGES = [-1, 4095, 4096, 0xFFFF, 1 << 16, (1 << 31) + 1, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63)]
near = st.integers(0, 4)
number = st.one_of(near, near, st.integers(-2, 300), st.sampled_from(EDGES))
mostly = st.one_of(near, near, near, number)
letters = st.sampled_from([*"aAzZ019/-._,=²٣\x00\né", "j-", "s-", "job", "a0", "last", " "])
text = st.one_of(
    st.sampled_from(["", "a0", "a1", "a0/0", "a0/²", "j-1", "j-1/0", "s-1", "last", "9" * 5_000, "a0-1/a0"]),
    st.lists(letters, max_size=6).map("".join),
)
known = st.sampled_from(["a0", "a0", "a1", "a0/0", "a1/1", "a0-1", "a0-²", "a0/²", "one", "last"])
named = st.one_of(known, known, text)
texts = st.lists(text, max_size=3)
names = st.lists(named, max_size=3)


@st.composite
def keys(draw: st.DrawFn) -> Keys:
    """Columns, now and then of unequal lengths."""
    rows = draw(st.integers(0, 3))
    columns = [draw(st.lists(mostly, min_size=rows, max_size=rows)) for _ in range(4)]
    if draw(st.integers(0, 9)) == 0:
        columns[draw(st.integers(0, 3))].append(0)
    return Keys(*columns)


@st.composite
def columned(draw: st.DrawFn, record: Callable[..., Any], columns: int, last: Any = None) -> Any:
    """A record of keys and so many columns beside them."""
    held = draw(keys())
    rows = len(held)
    beside = [draw(st.lists(mostly, min_size=rows, max_size=rows)) for _ in range(columns)]
    if beside and draw(st.integers(0, 9)) == 0:
        beside[draw(st.integers(0, columns - 1))].append(0)
    if last is not None:
        beside.append(draw(st.lists(last, min_size=rows, max_size=rows)))
    return record(held, *beside)


fences = st.builds(Fence, st.sampled_from(["site", "other", ""]), number, number)
hellos = st.builds(
    orders.Hello, text, text, st.none() | fences, st.sampled_from([["cpu"], ["cpu", "gpu"], [], ["", "cpu"]]),
    st.lists(number, max_size=3), texts, texts,
)  # fmt: skip
reports = st.one_of(
    hellos,
    columned(orders.Report, 2, text),
    st.builds(orders.Reported, number),
    columned(orders.Refused, 1),
    columned(orders.Stages, 2),
    columned(orders.Ended, 7),
    columned(orders.OutputDone, 3),
    columned(orders.Retracted, 1),
    st.builds(orders.Load, number, number),
    st.builds(orders.Leaving, st.booleans(), number),
)
commands = st.one_of(
    st.builds(orders.Welcome, fences, number, number, st.booleans(), text),
    st.builds(orders.Servers, texts, texts),
    st.builds(orders.Start, keys(), texts, st.lists(number, max_size=2)),
    st.builds(orders.Stop, keys(), st.sampled_from(How), number),
    st.builds(orders.Retract, keys()),
    st.builds(orders.Ack, keys(), st.sampled_from(What)),
    st.builds(orders.Specs, texts, st.lists(st.binary(max_size=4), max_size=2)),
    st.builds(orders.Beat, st.none() | keys()),
    st.builds(orders.Moved, text),
)
words = st.one_of(reports, commands)

durations = st.sampled_from([0, 0, 1, 500, 60_000, 1 << 53, 1 << 63])
specs = st.builds(
    JobSpec, name=st.sampled_from(["a0", "a1", "b", "", "0", "a/b"]), command=st.sampled_from([["true"], []]),
    labels=st.dictionaries(text, text, max_size=1), count=st.sampled_from([1, 1, 2, 5, 0, -1, 10**7, 1 << 63]),
    parallel=number, ask=st.dictionaries(st.sampled_from(["cpu", "gpu", ""]), number, max_size=2),
    where=st.lists(st.sampled_from(["arch == x86_64", "arch in (", "not spot", "", "zone == a"]), max_size=1),
    needs=st.lists(st.builds(Need, text, st.sampled_from(["success", "always", "failure", "?"])), max_size=2),
    priority=number, run_ms=durations, pending_ms=durations, grace_ms=durations, retry_infrastructure=mostly,
    retry_job=mostly, exclusive=st.booleans(), refuse_when_full=st.booleans(),
    cancel_when_caller_gone=st.booleans(),
).map(encode_spec)  # fmt: skip
bodies = st.one_of(specs, specs, specs, st.binary(max_size=8), st.just(msgspec.msgpack.encode({"name": 1})))
tenants = st.sampled_from(["default", "default", "", "other"])
kinds = st.sampled_from(
    ["jobs", "submissions", "instances", "attempts", "agents", "servers", "tokens", "status", "", "nothing"]
)
filters = st.dictionaries(
    st.sampled_from(["state", "submission", "name", "since", "all", "mine", "x"]), text, max_size=2
)
asks = st.one_of(
    st.builds(requests.Submit, text, text, text, tenants, text, st.lists(bodies, max_size=3)),
    st.builds(requests.Cancel, names, tenants, number),
    st.builds(requests.Attend, st.lists(number, max_size=3)),
    st.builds(requests.Look, kinds, tenants, st.just("") | named, number, number, filters),
    st.builds(requests.Explain, named, tenants),
    st.builds(requests.History, named, tenants),
    st.builds(
        requests.AddToken, text, text, st.sampled_from(["agent", "admin", "?"]), tenants, number, number
    ),
    st.builds(requests.RevokeToken, text),
    st.builds(requests.Admit, text, text, st.sampled_from(["agent", "server", "?"]), text, number),
    st.builds(requests.Check, text, text),
    st.builds(requests.WantAgent, st.sampled_from(["liar", "3", "²"]) | text, mostly, text),
    st.builds(requests.Follow, number, text, text),
)

frames = st.sampled_from(["next", "next", "next", "next", "again", "gap", "odd"])
deeds = st.one_of(
    st.tuples(st.just("ask"), asks),
    st.tuples(st.just("ask"), asks),
    st.tuples(st.just("say"), st.lists(words, min_size=1, max_size=3), frames, mostly),
    st.tuples(st.just("say"), st.lists(words, min_size=1, max_size=3), frames, mostly),
    st.tuples(st.just("greet"), st.lists(number, max_size=2)),
    st.tuples(st.just("submit"), st.integers(1, 6), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("work"), near, st.integers(1, 4), st.integers(-1, 2), st.booleans()),
    st.tuples(st.just("work"), near, st.integers(1, 4), st.just(0), st.booleans()),
    st.tuples(st.just("finish")),
    st.tuples(st.just("cut"), st.integers(0, 3)),
    st.tuples(st.just("event"), st.integers(0, 3), number, number, st.lists(words, max_size=1)),
    st.tuples(st.just("time"), st.sampled_from([1, 500, 20_000, 40_000, 700_000])),
)
stories = st.lists(deeds, min_size=8, max_size=24)

Key = tuple[int, int, int]


class Honest:
    """An agent that does what it is told and says what is so."""

    def __init__(self, talk: Conversation, name: str) -> None:
        self.talk = talk
        self.number = talk.join(name)
        self.held: dict[Key, int] = {}
        self.heard = 0
        self.link = self._connect()

    def _connect(self) -> Agent:
        self.link = self.talk.connect(self.number)
        self.heard = 0
        self.link.hello(cpus=4)
        held = Keys(*([key[at] for key in self.held] for at in (0, 1)), [1] * len(self.held),
                    [key[2] for key in self.held])  # fmt: skip
        self.link.report(held, term=1)
        return self.link

    def obey(self) -> None:
        """Act on what was heard; a session that ended is begun anew."""
        for _ in range(50):
            if self.link.hung_up:
                self._connect()
            news = self.link.heard[self.heard :]
            self.heard = len(self.link.heard)
            if not news and not self.link.hung_up:
                return
            for order in news:
                if isinstance(order, orders.Start):
                    self.start(order)
                elif isinstance(order, orders.Stop):
                    self.stop(order)
        raise AssertionError("it is ordered about for ever")

    def start(self, order: orders.Start) -> None:
        for job, first, count, attempt in order.keys.spans():
            for index in range(first, first + count):
                self.held[job, index, attempt] = 1

    def stop(self, order: orders.Stop) -> None:
        for job, first, count, attempt in order.keys.spans():
            for key in [k for k in self.held if k[0] == job and k[2] == attempt]:
                if first <= key[1] < first + count:
                    self.end(key, Outcome.cancelled, Reason.cancelled_by_user, 0, False)

    def work(self, at: int, exit: int, output: bool) -> None:
        """One of what it runs ends; below 0 it only goes on."""
        if not self.held:
            return
        key = sorted(self.held)[at % len(self.held)]
        if exit < 0:
            span = Keys([key[0]], [key[1]], [1], [key[2]])
            self.link.say(orders.Stages(span, [int(Stage.running)], [self.talk.now]))
        else:
            self.end(key, Outcome.failed if exit else Outcome.succeeded, Reason.exited, exit, output)

    def end(self, key: Key, outcome: Outcome, reason: Reason, exit: int, output: bool) -> None:
        del self.held[key]
        span, now = Keys([key[0]], [key[1]], [1], [key[2]]), self.talk.now
        self.link.say(
            orders.Ended(span, [1], [int(outcome)], [int(reason)], [exit], [now], [now], [int(output)])
        )
        if output:
            self.link.say(orders.OutputDone(span, [1], [7], [0]))

    def beat(self) -> None:
        if not self.link.hung_up:
            self.link.say(orders.Load(0, 0))


class Play:
    """One story, told to one plane."""

    def __init__(self) -> None:
        self.talk = Conversation()
        self.honest = [Honest(self.talk, "one"), Honest(self.talk, "two")]
        self.liar = self.talk.connect(self.talk.join("liar"))
        self.jobs = 0
        self._links = 100
        self._submit(3, 1, True)
        self._submit(4, 2, False)
        self._greet([2_000])
        for agent in self.honest:
            agent.obey()

    def tell(self, story: list[Any]) -> None:
        for what, *facts in story:
            getattr(self, f"_{what}")(*facts)
            for agent in self.honest:
                agent.obey()
            self.check_capacity()
        self.check_records()

    def _ask(self, request: Any) -> None:
        self._links += 1
        self.talk.step(Asked(self._links, requests.Ask(1, request)))

    def _say(self, words: list[Any], how: str, odd: int) -> None:
        if self.liar.hung_up:
            self.liar = self.talk.connect(self.liar.number)
        frame = self.liar.line.say(words, self.talk.now)
        if how == "odd":
            frame = Frame(odd, odd, words)
        elif how == "gap":
            frame = Frame(frame.number + 1, frame.seen, words)
        for _ in range(2 if how == "again" else 1):
            self.talk.step(Received(self.liar.session, frame))

    def _greet(self, totals: list[int]) -> None:
        """The liar is let in, and promises what it likes."""
        self._say([orders.Hello("b", "m", None, ["cpu", "gpu"][: len(totals)], totals, [], [])], "next", 0)
        self._say([orders.Reported(0)], "next", 0)

    def _submit(self, count: int, cpus: int, retry: bool) -> None:
        name = f"a{self.jobs}"
        self.jobs += 1
        fields: dict[str, Any] = {"count": count, "ask": {"cpu": cpus * 1_000}, "retry_job": int(retry)}
        self._ask(submission(f"fuzz {name}", name=name, **fields))

    def _work(self, at: int, times: int, exit: int, output: bool) -> None:
        for turn in range(times):
            self.honest[(at + turn) % 2].work(at, exit, output)

    def _finish(self) -> None:
        """All that honest agents hold comes to its end."""
        while any(agent.held for agent in self.honest):
            for agent in self.honest:
                agent.work(0, 0, False)
                agent.obey()

    def _cut(self, whom: int) -> None:
        agent = self.honest[whom].link if whom < 2 else self.liar
        self.talk.cut(agent)
        agent.hung_up = True

    def _event(self, kind: int, one: int, other: int, words: list[Any]) -> None:
        strange = {
            0: Opened(one + 10_000_000, other),
            1: Received(one, Frame(other, one, words)),
            2: Closed(one),
            3: Unlinked(one),
        }
        self.talk.step(strange[kind])

    def _time(self, ms: int) -> None:
        end = self.talk.now + ms
        while self.talk.now < end:
            self.talk.pass_time(min(5_000, end - self.talk.now), every=2_500)
            for agent in self.honest:
                agent.beat()
                agent.obey()

    def check_capacity(self) -> None:
        """What honest agents have is never promised twice."""
        core = self.talk.plane.core
        assert core is not None
        table = core.scheduler.table
        for agent in self.honest:
            row = table.rows[agent.number]
            for column in table.resources.values():
                assert 0 <= table.free[column][row] <= max(table.total[column][row], 0), agent.number
            used = sum(core.ledger.jobs[job].spec.ask.get("cpu", 0) for job, _, _ in agent.held)
            assert used <= 4_000, agent.held

    def check_records(self) -> None:
        """What a successor would load is what this plane knows."""
        core = self.talk.plane.core
        assert core is not None
        loaded = self.talk.handle.perform(Load(), self.talk.now)
        assert isinstance(loaded, Loaded)
        ledger, _ = load_ledger(loaded)
        assert describe(ledger) == describe(core.ledger)
