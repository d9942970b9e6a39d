"""An agent's keeper: effects become its commands, its events become words, and a broken line is made anew."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from itertools import groupby
from typing import Any

from fairlead.agent.words import (
    Event,
    Forget,
    KeeperEnded,
    KeeperFailed,
    KeeperListed,
    KeeperLost,
    KeeperStarted,
    KillProcess,
    LeaveKeeper,
    MoveDeadline,
    Spawn,
    StopProcess,
    Why,
)
from fairlead.model.reasons import Reason
from fairlead.shell.machine.agent_loop import AgentLoop, Handlers, boot_ms
from fairlead.shell.machine.keeper_link import KeeperGone, KeeperLink

LOG = logging.getLogger(__name__)
Fields = dict[str, Any]

# The keeper's words for how a process came to its end, and why one could not be started.
WHYS: dict[str, Why] = {
    "exited": Why.itself,
    "stopped": Why.ordered,
    "killed": Why.ordered,
    "limit": Why.run_limit,
    "lease": Why.lease,
    "oom": Why.out_of_memory,
    "orphaned": Why.abandoned,
}
REASONS: dict[str, Reason] = {
    "not_found": Reason.not_found,
    "not_executable": Reason.not_executable,
    "no_such_dir": Reason.no_such_dir,
    "spawn_failed": Reason.spawn_failed,
}


def spawn_commands(spawn: Spawn, now: int) -> list[Fields]:
    """One command for each attempt."""
    rows = zip(
        *(spawn.key, spawn.cwd, spawn.environment, spawn.workspace),
        *(spawn.out, spawn.err, spawn.meta, spawn.lease_until),
        strict=True,
    )
    shared = {
        "type": "spawn",
        "argv": spawn.argv,
        "grace_ms": spawn.grace_ms,
        "limit_ms": spawn.limit_ms,
        "memory": spawn.memory,
        "cpu": spawn.cpu,
    }
    return [
        shared
        | {"key": key, "cwd": cwd, "env": environment, "workspace": bool(workspace)}
        | {"out": out, "err": err or None, "meta": meta}
        # 0 means no lease, so one that has run out already is the shortest there is.
        | {"lease_ms": max(1, until - now) if until else 0}
        for key, cwd, environment, workspace, out, err, meta, until in rows
    ]


def read_events(batch: Iterable[Fields]) -> list[Event]:
    """The words for a batch of the keeper's events, in its order."""
    words: list[Event] = []
    for kind, run in groupby(batch, key=lambda event: str(event["type"])):
        read = _READERS.get(kind)
        if read is None:
            LOG.error("the keeper says %s", list(run))
        else:
            words += read(list(run))
    return words


def _started(events: list[Fields], stamp: str = "at_ms") -> KeeperStarted:
    return KeeperStarted([event["key"] for event in events], [event[stamp] for event in events])


def _ended(events: list[Fields]) -> KeeperEnded:
    return KeeperEnded(
        [event["key"] for event in events],
        [event["exit"] or 0 for event in events],
        [event["signal"] or 0 for event in events],
        [WHYS.get(event["why"], Why.itself) for event in events],
        [event["started_ms"] for event in events],
        [event["ended_ms"] for event in events],
        [event["out_length"] for event in events],
        [event["err_length"] for event in events],
    )


def _failed(events: list[Fields]) -> KeeperFailed:
    for event in events:
        LOG.info("%s did not start: %s", event["key"], event.get("message", ""))
    return KeeperFailed(
        [event["key"] for event in events],
        [REASONS.get(event["why"], Reason.spawn_failed) for event in events],
    )


def _listed(event: Fields) -> KeeperListed:
    states: dict[str, list[Fields]] = {"running": [], "ended": [], "failed": []}
    for entry in event["entries"]:
        states[entry["state"]].append(entry)
    return KeeperListed(
        {entry["key"]: str(entry["meta"]) for entry in event["entries"]},
        _started(states["running"], "started_ms"),
        _ended(states["ended"]),
        _failed(states["failed"]),
    )


_READERS: dict[str, Callable[[list[Fields]], list[Event]]] = {
    "listed": lambda events: [_listed(event) for event in events],
    "started": lambda events: [_started(events)],
    "ended": lambda events: [_ended(events)],
    "failed": lambda events: [_failed(events)],
}


class KeeperPort:
    """The line to the keeper of one folder. `on_first_list` is told the keys that it held at the start."""

    def __init__(
        self, loop: AgentLoop, link: KeeperLink, on_first_list: Callable[[Collection[str]], object]
    ) -> None:
        self._loop = loop
        self._link = link
        self._on_first_list = on_first_list
        self._listed = False

    def handlers(self) -> Handlers:
        """What this port does."""
        return {
            Spawn: lambda effect: self._send(spawn_commands(effect, boot_ms())),
            StopProcess: lambda effect: self._send([{"type": "stop", "key": key} for key in effect.key]),
            KillProcess: lambda effect: self._send([{"type": "kill", "key": key} for key in effect.key]),
            Forget: lambda effect: self._send([{"type": "forget", "key": key} for key in effect.key]),
            MoveDeadline: self._move,
            LeaveKeeper: lambda effect: self._send(
                [{"type": "leave", "keep": effect.keep, "back_within_ms": effect.back_within_ms}]
            ),
        }

    async def work(self) -> None:
        """Connect, listen, and again when the line breaks."""
        try:
            while True:
                try:
                    await self._link.connect()
                    while True:
                        self._take(await self._link.events())
                except KeeperGone as fault:
                    LOG.warning("the line to the keeper broke: %s", fault)
                    self._loop.post(KeeperLost())
        finally:
            await self._link.close()

    def _take(self, batch: list[Fields]) -> None:
        for word in read_events(batch):
            self._loop.post(word)
        if not self._listed:
            self._listed = True
            entries = (entry for event in batch for entry in event.get("entries", ()))
            self._on_first_list({entry["key"] for entry in entries})

    def _send(self, commands: list[Fields]) -> None:
        try:
            self._link.send(commands)
        except KeeperGone:
            # The next list shows that these were not done.
            LOG.info("no keeper for %d commands", len(commands))

    def _move(self, effect: MoveDeadline) -> None:
        now = boot_ms()
        rows = zip(effect.key, effect.lease_until, strict=True)
        self._send([{"type": "deadline", "key": key, "in_ms": max(0, until - now)} for key, until in rows])
