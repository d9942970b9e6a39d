"""A real agent with a real keeper and real processes; the test speaks for control and front."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.system.agent_site import Process, Site, end_keeper

from fairlead.model.blocks import ERR, OUT
from fairlead.model.keys import one
from fairlead.model.lifecycles import Outcome, Stage
from fairlead.model.orders import (
    Ack,
    Ended,
    How,
    Leaving,
    Load,
    OutputDone,
    Refused,
    Report,
    Reported,
    Stages,
    Stop,
    What,
)
from fairlead.model.reasons import Reason
from fairlead.model.storage import Fence


class Scene:
    """A site, a folder that has joined it, and the agents started on it."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.folder = folder
        self.agents: list[Process] = []

    async def begin(self, **options: str) -> Process:
        """Start an agent and wait for its report."""
        sessions = len(self.site.lines)
        agent = Process(self.folder, **options)
        self.agents.append(agent)
        await self.site.until("a session", lambda: len(self.site.lines) > sessions)
        session = self.site.session
        await self.site.until("its report", lambda: self.site.words(Reported, session))
        return agent


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    site = Site(folder)
    await site.open()
    home = folder / "agent"
    home.mkdir()
    site.admit(home)
    made = Scene(site, home)
    try:
        yield made
    finally:
        for agent in made.agents:
            await agent.kill()
        await end_keeper(home)
        await site.close()


def running(site: Site) -> int:
    """How many attempts were said to run."""
    told = [
        (count, stage)
        for stages in site.words(Stages)
        for count, stage in zip(stages.keys.count, stages.stage, strict=True)
    ]
    return sum(count for count, stage in told if stage == Stage.running)


def keeper_of(folder: Path) -> int:
    """The process id of the keeper of a folder."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if os.fsencode(folder) in words and any(word.endswith(b"keeper.py") for word in words):
                return int(entry.name)
    raise AssertionError(f"no keeper in {folder}")


def play(folder: Path, conversation: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        async with scene(folder) as made:
            await conversation(made)

    asyncio.run(run())


def test_a_command_runs_and_its_end_and_output_arrive(tmp_path: Path) -> None:
    async def conversation(scene: Scene) -> None:
        site = scene.site
        await scene.begin()
        script = 'pwd; echo "$FAIRLEAD_JOB/$FAIRLEAD_INDEX of $FAIRLEAD_COUNT"; echo oops >&2; exit 3'
        site.start(one(7, 0, 1, 2), command=["sh", "-c", script], count=2, ask={"cpu": 100})
        await site.until("both ends", lambda: sum(e.keys.total() for e in site.words(Ended)) == 2)
        await site.until("their output", lambda: sum(d.keys.total() for d in site.words(OutputDone)) == 2)
        ended = site.words(Ended)[0]
        assert (ended.term[0], ended.outcome[0], ended.exit[0]) == (5, Outcome.failed, 3)
        workspace = f"{scene.folder}/attempts/7.1.1.5"
        assert site.output(1, OUT).decode() == f"{workspace}\nj-7/1 of 2\n"
        assert site.output(0, ERR) == b"oops\n"
        assert all(done.complete == [1] * len(done.complete) for done in site.words(OutputDone))
        assert {stage for stages in site.words(Stages) for stage in stages.stage} == {
            Stage.starting,
            Stage.running,
        }
        site.say(Ack(one(7, 0, 1, 2), What.end), Ack(one(7, 0, 1, 2), What.output))
        while os.listdir(scene.folder / "spool") or os.listdir(scene.folder / "attempts"):
            await asyncio.sleep(0.005)

    play(tmp_path, conversation)


def test_an_agent_that_is_killed_finds_its_work_running(tmp_path: Path) -> None:
    async def conversation(scene: Scene) -> None:
        site = scene.site
        first = await scene.begin()
        script = "echo before; read x < go; echo after"
        go = tmp_path / "go"
        os.mkfifo(go)
        site.start(one(7, 0, 1), command=["sh", "-c", script], dir=str(tmp_path))
        await site.until("the first line", lambda: site.output(0, OUT) == b"before\n")
        await first.kill()
        await scene.begin()
        (report,) = site.words(Report, site.session)
        assert (report.keys, report.term, report.stage) == (one(7, 0, 1), [5], [Stage.running])
        await asyncio.to_thread(go.write_text, "x\n")
        ended = await site.until("the end", lambda: site.words(Ended, site.session))
        assert ended[0].outcome == [Outcome.succeeded]
        done = await site.until("the output", lambda: site.words(OutputDone))
        assert (done[0].complete, done[0].out_length) == ([1], [13])
        assert site.output(0, OUT) == b"before\nafter\n"

    play(tmp_path, conversation)


def test_a_stopped_agent_leaves_its_work_running_and_says_so(tmp_path: Path) -> None:
    async def conversation(scene: Scene) -> None:
        site = scene.site
        first = await scene.begin(on_stop="keep")
        site.start(one(7, 0, 1), command=["sleep", "1000"])
        await site.until("it runs", lambda: running(site))
        first.signal(signal.SIGTERM)
        assert await first.ended() == 0
        assert site.words(Leaving)[0].keep
        await scene.begin()
        assert site.words(Report, site.session)[0].stage == [Stage.running]
        site.say(Stop(one(7, 0, 1), How.stop, Reason.cancelled_by_user))
        ended = await site.until("the end", lambda: site.words(Ended))
        assert (ended[0].outcome, ended[0].reason) == ([Outcome.cancelled], [Reason.cancelled_by_user])
        assert ended[0].exit == [-signal.SIGTERM]

    play(tmp_path, conversation)


def test_a_drained_agent_ends_when_its_work_is_over(tmp_path: Path) -> None:
    async def conversation(scene: Scene) -> None:
        site = scene.site
        first = await scene.begin(on_stop="drain")
        go = tmp_path / "go"
        os.mkfifo(go)
        site.start(one(7, 0, 1), command=["sh", "-c", "read x < go"], dir=str(tmp_path))
        await site.until("it runs", lambda: running(site))
        first.signal(signal.SIGTERM)
        await site.until("it says so", lambda: site.words(Leaving))
        site.start(one(8, 0, 1), command=["true"])
        await site.until("the refusal", lambda: site.words(Refused))
        assert site.words(Refused)[0].reason == [Reason.agent_leaving]
        await asyncio.to_thread(go.write_text, "x\n")
        await site.until("the end", lambda: site.words(Ended))
        site.say(Ack(one(7, 0, 1), What.end))
        assert await first.ended() == 0

    play(tmp_path, conversation)


def test_limits_and_commands_that_cannot_be_run_are_told_as_what_they_are(tmp_path: Path) -> None:
    async def conversation(scene: Scene) -> None:
        site = scene.site
        await scene.begin()
        small = {"cpu": 10}
        site.start(one(1, 0, 1), command=["sleep", "1000"], run_ms=50, ask=small)
        site.start(one(2, 0, 1), command=["no-such-command"], ask=small)
        site.start(one(3, 0, 1), command=["true"], dir="/no/such/folder", ask=small)
        site.start(one(4, 0, 1), command=["yes"], output_bytes=100_000, ask=small)
        await site.until("three ends", lambda: sum(e.keys.total() for e in site.words(Ended)) == 3)
        refused = await site.until("one refusal", lambda: site.words(Refused))
        assert refused[0] == Refused(one(3, 0, 1), [Reason.no_such_dir])
        told = {
            job: (Outcome(outcome), Reason(reason))
            for ended in site.words(Ended)
            for job, outcome, reason in zip(ended.keys.job, ended.outcome, ended.reason, strict=True)
        }
        assert told == {
            1: (Outcome.timed_out, Reason.run_limit),
            2: (Outcome.failed, Reason.not_found),
            4: (Outcome.failed, Reason.output_limit),
        }

    play(tmp_path, conversation)


def test_a_leader_with_a_lower_fence_is_not_obeyed_even_after_a_restart(tmp_path: Path) -> None:
    async def conversation(scene: Scene) -> None:
        site = scene.site
        first = await scene.begin()
        await first.kill()
        site.fence = Fence("site-a", 1, 4)
        sessions = len(site.lines)
        scene.agents.append(Process(scene.folder))
        await site.until("it left twice", lambda: len(site.lines) > sessions + 1)
        assert len(site.words(Reported)) == 1
        site.fence = Fence("site-a", 1, 6)
        await site.until("it obeys", lambda: len(site.words(Reported)) == 2)

    play(tmp_path, conversation)


def test_a_lot_of_output_arrives_whole_and_in_order(tmp_path: Path) -> None:
    async def conversation(scene: Scene) -> None:
        site = scene.site
        await scene.begin()
        site.start(one(7, 0, 1), command=["seq", "500000"])
        await site.until("all of it", lambda: site.words(OutputDone))
        expected = "".join(f"{n}\n" for n in range(1, 500_001)).encode()
        assert site.words(OutputDone)[0].out_length == [len(expected)]
        assert site.output(0, OUT) == expected
        (end,) = [row for row in site.rows if row.end]
        assert end.stop == len(expected)

    play(tmp_path, conversation)


def test_a_second_agent_in_one_folder_is_refused(tmp_path: Path) -> None:
    async def conversation(scene: Scene) -> None:
        await scene.begin()
        assert await Process(scene.folder).ended() == 2

    play(tmp_path, conversation)


def test_an_exclusive_attempt_ends_on_its_own_machine_when_its_lease_runs_out(tmp_path: Path) -> None:
    async def conversation(scene: Scene) -> None:
        site = scene.site
        await scene.begin()
        site.start(one(7, 0, 1), lease_ms=1_000, command=["sleep", "1000"], ask={"cpu": 10})
        site.start(one(7, 1, 1), command=["sleep", "1000"], ask={"cpu": 10})
        await site.until("both run", lambda: running(site) == 2)
        # Beats renew the lease: it lives on far longer than that.
        beats = len(site.words(Load))
        await site.until("eight beats", lambda: len(site.words(Load)) >= beats + 8)
        assert not site.words(Ended)
        lower, site.fence = site.fence, Fence("site-a", 1, 4)
        site.control.hang_up(site.session)
        spool = scene.folder / "keeper.journal"
        while b"lease" not in spool.read_bytes():
            await asyncio.sleep(0.02)
        site.fence = lower
        ended = await site.until("the end", lambda: site.words(Ended))
        assert (ended[0].keys, ended[0].outcome) == (one(7, 0, 1), [Outcome.lost])
        assert ended[0].reason == [Reason.lease_ended]
        assert site.words(Reported)[-1].count == 2

    play(tmp_path, conversation)


def test_when_its_keeper_is_killed_an_agent_says_what_is_lost_and_goes_on(tmp_path: Path) -> None:
    async def conversation(scene: Scene) -> None:
        site = scene.site
        await scene.begin()
        site.start(one(7, 0, 1), command=["sleep", "1000"])
        await site.until("it runs", lambda: running(site) == 1)
        os.kill(keeper_of(scene.folder), signal.SIGKILL)
        ended = await site.until("the loss", lambda: site.words(Ended))
        assert (ended[0].outcome, ended[0].reason) == ([Outcome.lost], [Reason.keeper_lost])
        site.start(one(8, 0, 1), command=["true"])
        await site.until("the next one", lambda: [e for e in site.words(Ended) if e.keys.job == [8]])
        assert site.words(Ended)[-1].outcome == [Outcome.succeeded]

    play(tmp_path, conversation)


def test_output_goes_on_over_another_line_when_one_is_cut(tmp_path: Path) -> None:
    async def conversation(scene: Scene) -> None:
        site = scene.site
        await scene.begin()
        go = tmp_path / "go"
        os.mkfifo(go)
        script = "seq 20000; read x < go; seq 20000"
        site.start(one(7, 0, 1), command=["sh", "-c", script], dir=str(tmp_path))
        half = "".join(f"{n}\n" for n in range(1, 20_001)).encode()
        await site.until("the first half", lambda: site.output(0, OUT) == half)
        await site.reopen_output()
        await asyncio.to_thread(go.write_text, "x\n")
        done = await site.until("all of it", lambda: site.words(OutputDone))
        assert (done[0].complete, done[0].out_length) == ([1], [2 * len(half)])
        assert site.output(0, OUT) == half + half

    play(tmp_path, conversation)
