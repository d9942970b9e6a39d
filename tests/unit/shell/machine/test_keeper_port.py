"""What the keeper says, as the core hears it, and the other way round."""

from __future__ import annotations

from typing import Any

from fairlead.agent.words import KeeperEnded, KeeperFailed, KeeperListed, KeeperStarted, Spawn, Why
from fairlead.model.reasons import Reason
from fairlead.shell.machine.keeper_port import read_events, spawn_commands


def end(key: str, **changes: Any) -> dict[str, Any]:
    """An end as the keeper tells it."""
    fields = {"type": "ended", "key": key, "exit": 0, "signal": None, "why": "exited", "started_ms": 1}
    return {**fields, "ended_ms": 2, "out_length": 3, "err_length": 4, **changes}


def test_events_of_one_kind_in_a_row_become_columns_and_keep_their_order() -> None:
    batch = [
        {"type": "started", "key": "a", "pid": 1, "at_ms": 10},
        {"type": "started", "key": "b", "pid": 2, "at_ms": 11},
        end("a"),
        {"type": "failed", "key": "c", "why": "not_found", "message": "no such program"},
        end("b", exit=None, signal=9, why="killed"),
    ]
    assert read_events(batch) == [
        KeeperStarted(["a", "b"], [10, 11]),
        KeeperEnded(["a"], [0], [0], [Why.itself], [1], [2], [3], [4]),
        KeeperFailed(["c"], [Reason.not_found]),
        KeeperEnded(["b"], [0], [9], [Why.ordered], [1], [2], [3], [4]),
    ]


def test_a_list_is_sorted_by_what_became_of_each() -> None:
    entries = [
        {"type": "entry", "state": "running", "key": "a", "meta": "m1", "pid": 1, "started_ms": 5},
        {**end("b", why="orphaned", exit=None), "type": "entry", "state": "ended", "meta": "m2"},
        {"type": "entry", "state": "failed", "key": "c", "meta": "m3", "why": "unheard of", "message": ""},
    ]
    (listed,) = read_events([{"type": "listed", "entries": entries}])
    assert listed == KeeperListed(
        {"a": "m1", "b": "m2", "c": "m3"},
        KeeperStarted(["a"], [5]),
        KeeperEnded(["b"], [0], [0], [Why.abandoned], [1], [2], [3], [4]),
        KeeperFailed(["c"], [Reason.spawn_failed]),
    )


def test_what_the_keeper_refuses_is_no_event() -> None:
    assert read_events([{"type": "refused", "what": {}, "message": "nonsense"}]) == []


def test_a_spawn_is_a_command_for_each_attempt_and_leases_are_what_is_left_of_them() -> None:
    spawn = Spawn(
        *(["true"], 5, 6, 7, 8, ["a", "b"], ["/w/a", ""], ["/w/a", "/srv"], [{"X": "1"}, {"X": "2"}]),
        *(["a.out", "b.out"], ["a.err", ""], ["m1", "m2"], [1_500, 0]),
    )
    first, second = spawn_commands(spawn, now=1_000)
    assert first == {
        "type": "spawn",
        "key": "a",
        "argv": ["true"],
        "cwd": "/w/a",
        "workspace": True,
        "env": {"X": "1"},
        "out": "a.out",
        "err": "a.err",
        "meta": "m1",
        "lease_ms": 500,
        "limit_ms": 5,
        "grace_ms": 6,
        "cpu": 7,
        "memory": 8,
    }
    assert (second["workspace"], second["err"], second["lease_ms"]) == (False, None, 0)
    assert spawn_commands(spawn, now=9_000)[0]["lease_ms"] == 1
