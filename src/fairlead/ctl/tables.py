"""Shows items: as a table for people, as JSON or YAML for programs, or only their ids or states.

The columns of each kind stand in `COLUMNS`; what stands in JSON is what the site answered, unchanged.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from .talk import age, amount, clock, span

Item = dict[str, Any]
Column = tuple[str, Callable[[Item], str]]

FORMATS = ["table", "wide", "json", "yaml", "id", "state"]
ENDED = ("succeeded", "failed", "cancelled", "timed_out", "refused", "stopped", "lost")
COLOURS = {
    "succeeded": 32, "ready": 32, "running": 36, "failed": 31, "lost": 31, "timed_out": 31, "refused": 31,
    "banned": 31, "expired": 31, "revoked": 31, "suspect": 33, "cancelled": 33, "draining": 33, "cordoned": 33,
}  # fmt: skip


def field(name: str) -> Callable[[Item], str]:
    """A field as it is; `-` when it says nothing."""

    def read(item: Item) -> str:
        value = item.get(name)
        return "-" if value is None or value == "" else str(value)

    return read


def _ended(job: Item) -> str:
    counts = job.get("counts") or {}
    return f"{sum(int(counts.get(state, 0)) for state in ENDED)}/{job.get('count', 1)}"


def _place(instance: Item) -> str:
    return f"{instance.get('name') or instance.get('job')}/{instance.get('index')}"


def _took(item: Item) -> str:
    started, ended = item.get("started"), item.get("ended")
    return span(ended - started) if started and ended else age(started)


def _exit(instance: Item) -> str:
    if instance.get("signal"):
        return f"signal {instance['signal']}"
    return field("exit_code")(instance)


def _resource(name: str) -> Callable[[Item], str]:
    def read(agent: Item) -> str:
        found = (agent.get("resources") or {}).get(name)
        if not isinstance(found, dict):
            return "-"
        return f"{amount(name, int(found.get('free', 0)))} of {amount(name, int(found.get('total', 0)))}"

    return read


def _command(job: Item) -> str:
    command = job.get("command")
    text = " ".join(command) if isinstance(command, list) else str(command or "-")
    return text if len(text) <= 60 else f"{text[:59]}…"


def _labels(agent: Item) -> str:
    labels = agent.get("labels")
    if isinstance(labels, dict):
        return " ".join(f"{name}={value}" for name, value in sorted(labels.items())) or "-"
    return " ".join(labels or []) or "-"


def _age(name: str) -> Callable[[Item], str]:
    return lambda item: age(item.get(name))


def _clock(name: str) -> Callable[[Item], str]:
    return lambda item: clock(item.get(name))


# Kind: what a table shows, and what a wide one adds.
COLUMNS: dict[str, tuple[list[Column], list[Column]]] = {
    "jobs": (
        [("NAME", field("name")), ("STATE", field("state")), ("DONE", _ended), ("AGE", _age("created"))],
        [
            ("ID", field("id")),
            ("SUBMISSION", field("submission")),
            ("TENANT", field("tenant")),
            ("PRIORITY", field("priority")),
            ("COMMAND", _command),
        ],
    ),
    "instances": (
        [
            ("NAME", _place),
            ("STATE", field("state")),
            ("AGENT", field("agent")),
            ("ATTEMPT", field("attempt")),
            ("EXIT", _exit),
            ("TIME", _took),
            ("NOTE", field("sentence")),
        ],
        [("REASON", field("reason")), ("OUTPUT", field("output"))],
    ),
    "agents": (
        [
            ("NAME", field("name")),
            ("STATE", field("state")),
            ("RUNNING", field("running")),
            ("CPU FREE", _resource("cpu")),
            ("MEMORY FREE", _resource("memory")),
        ],
        [
            ("ID", field("id")),
            ("WANTED", field("wanted")),
            ("PRESENCE", field("presence")),
            ("LABELS", _labels),
        ],
    ),
    "servers": (
        [("NAME", field("name")), ("STATE", field("state")), ("TERM", field("term"))],
        [("CONTROL", field("control")), ("OUTPUT", field("output"))],
    ),
    "tokens": (
        [
            ("ID", field("id")),
            ("ROLE", field("role")),
            ("STATE", field("state")),
            ("TENANT", field("tenant")),
            ("USES", field("uses")),
            ("EXPIRES", _clock("expires")),
        ],
        [("CREATED", _clock("created"))],
    ),
    "submissions": (
        [("NAME", lambda item: str(item.get("name") or item.get("id"))), ("STATE", field("state"))],
        [("ID", field("id")), ("TENANT", field("tenant"))],
    ),
}


def show(items: list[Item], kind: str, form: str) -> None:
    """To stdout."""
    if form == "json":
        print(json.dumps(items, indent=2, ensure_ascii=False))
    elif form == "yaml":
        _yaml(items)
    elif form in ("id", "state"):
        for item in items:
            print(item.get(form, item.get("name", "")))
    else:
        rows = table(items, kind, wide=form == "wide")
        if rows:
            print("\n".join(aligned(rows)))


def show_one(item: Item, kind: str, form: str) -> None:
    """One item by its name: an object, not a list of one."""
    if form == "json":
        print(json.dumps(item, indent=2, ensure_ascii=False))
    elif form == "yaml":
        _yaml(item)
    else:
        show([item], kind, form)


def table(items: list[Item], kind: str, *, wide: bool) -> list[list[str]]:
    """Head and rows as text; a kind without columns of its own shows its fields."""
    if not items:
        return []
    if kind in COLUMNS:
        narrow, more = COLUMNS[kind]
        columns = narrow + more if wide else narrow
    else:
        names = dict.fromkeys(name for item in items for name, value in item.items() if is_plain(value))
        columns = [(name.upper(), _cell(name)) for name in names]
    return [[head for head, _ in columns], *([read(item) for _, read in columns] for item in items)]


def aligned(rows: list[list[str]]) -> list[str]:
    """Columns under each other; states in colour on a terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    lines: list[str] = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if colour:
            cells = [painted(cell) for cell in cells]
        lines.append("  ".join(cells).rstrip())
    return lines


def painted(cell: str) -> str:
    """A state in its colour."""
    code = COLOURS.get(cell.strip())
    return f"\x1b[{code}m{cell}\x1b[0m" if code else cell


def is_plain(value: object) -> bool:
    """Whether it fits in a cell."""
    return not isinstance(value, dict | list)


def _plain(name: str, value: object) -> str:
    if name in TIMES:
        return clock(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None or value == "" else str(value)


def _cell(name: str) -> Callable[[Item], str]:
    return lambda item: _plain(name, item.get(name))


TIMES = frozenset(
    {"created", "placed", "started", "ended", "at", "since", "until", "expires", "joined", "seen"}
)


def facts(item: Item, indent: str = "") -> list[str]:
    """Everything in an item, a line each, times and amounts as people read them."""
    lines: list[str] = []
    width = max((len(name) for name, value in item.items() if is_plain(value)), default=0)
    for name, value in item.items():
        if value is None or value == "" or value == {} or value == []:
            continue
        if name == "resources" and isinstance(value, dict):
            lines += [f"{indent}{name}", *resources(value, f"{indent}  ")]
        elif isinstance(value, dict):
            lines += [f"{indent}{name}", *facts(value, f"{indent}  ")]
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            lines.append(f"{indent}{name}")
            for each in value:
                lines += facts(each, f"{indent}  ") if isinstance(each, dict) else [f"{indent}  {each}"]
        elif isinstance(value, list):
            lines.append(f"{indent}{name:<{width}}  {' '.join(map(str, value))}")
        else:
            lines.append(f"{indent}{name:<{width}}  {_plain(name, value)}")
    return lines


def resources(held: Item, indent: str) -> list[str]:
    """Amounts by name; of an agent, what is free of what there is."""
    width = max(map(len, held), default=0)
    lines: list[str] = []
    for name, value in held.items():
        shown = _resource(name)({"resources": held}) if isinstance(value, dict) else amount(name, value)
        lines.append(f"{indent}{name:<{width}}  {shown}")
    return lines


def _yaml(value: object) -> None:
    import yaml

    print(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), end="")
