"""Looking: `status`, `get`, `describe`, `why`, `history`."""

from __future__ import annotations

from typing import Any

import click

from fairlead.ctl.client import Client
from fairlead.ctl.failures import Failure
from fairlead.ctl.names import Target, target
from fairlead.ctl.session import Session, session
from fairlead.ctl.tables import FORMATS, aligned, facts, is_plain, show, show_one, table
from fairlead.ctl.talk import clock

KINDS = ["submissions", "jobs", "instances", "agents", "servers", "tokens"]
PAGE = 500
# More are not seen at one glance.
MOST_AGENTS = 20

output = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="In which form.",
)


def _formed(form: str) -> Session:
    current = session()
    current.json = form == "json"
    return current


@click.command()
@output
def status(form: str) -> int:
    """The site at a glance."""
    current = _formed(form)
    told = current.client.get("status")
    if form in ("json", "yaml"):
        show_one(told, "status", form)
    elif "control" in told:
        click.echo("\n".join(facts(told)))
    else:
        page = current.client.get("agents", limit=MOST_AGENTS)
        click.echo("\n".join(glance(told, page)))
        if form == "wide":
            click.echo("\n".join(["", *facts({"term": told.get("term"), **told.get("front", {})})]))
    return 0


def glance(told: dict[str, Any], page: dict[str, Any]) -> list[str]:
    """What runs where, then how much of everything there is."""
    lines = aligned(table(page["items"], "agents", wide=False)) if page["items"] else []
    if page.get("next"):
        lines.append("…  the others: fairlead get agents")
    rows = [
        ["agents", counted(told.get("agents"))],
        ["open jobs", counted(told.get("open_jobs"))],
        ["instances", f"{told.get('unfinished', 0)} placed, {told.get('queued', 0)} waiting"],
    ]
    return [*lines, *([""] if lines else []), *aligned(rows)]


def counted(counts: dict[str, int] | None) -> str:
    """So many in each state."""
    return ", ".join(f"{count} {state}" for state, count in sorted((counts or {}).items())) or "none"


@click.command()
@click.argument("kind")
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("-l", "--selector", metavar="RULE", help="Only what has these labels.")
@click.option("--state", metavar="STATE", help="Only what is in this state.")
@click.option("--submission", metavar="NAME", help="Only jobs of this submission.")
@click.option("--tenant", metavar="NAME", help="Only this tenant's.")
@click.option("--all", "everything", is_flag=True, help="Also what ended long ago.")
@output
def get(kind: str, names: tuple[str, ...], form: str, everything: bool, **filters: str | None) -> int:
    """List a KIND (jobs, instances, submissions, agents, tokens, servers), or show what is named.

    `get NAME` is short for `get jobs NAME`; `get instances JOB` lists the instances of a job.
    """
    current = _formed(form)
    kind = f"{kind}s" if f"{kind}s" in KINDS else kind
    if kind not in KINDS:
        kind, names = "jobs", (kind, *names)
    if kind == "instances":
        _instances(current, names, form, {"state": filters["state"]})
    elif names:
        found = [_named(current.client, kind, name) for name in names]
        # A list of several is a list in JSON too.
        if len(found) == 1:
            show_one(found[0][1], found[0][0], form)
        else:
            show([item for _, item in found], kind, form)
    else:
        asked = {**filters, "all": 1 if everything else None}
        _listed(current, pages(current.client, kind, **asked), kind, form)
    return 0


def _listed(current: Session, items: list[dict[str, Any]], kind: str, form: str) -> None:
    show(items, kind, form)
    if not items and form in ("table", "wide"):
        current.talk.say(f"no {kind}")


def _named(client: Client, kind: str, name: str) -> tuple[str, dict[str, Any]]:
    wanted = target(name)
    if kind == "jobs":
        return ("jobs" if wanted.instance is None else "instances"), client.get(*wanted.parts())
    return kind, client.get(kind, name)


def _instances(current: Session, names: tuple[str, ...], form: str, filters: dict[str, str | None]) -> None:
    if not names:
        raise Failure(
            "usage", "which job's instances?", "they are listed by job", fix="fairlead get instances JOB"
        )
    found: list[dict[str, Any]] = []
    for name in names:
        wanted = target(name)
        if wanted.instance is not None:
            found.append(current.client.get(*wanted.parts()))
        else:
            found += pages(current.client, *wanted.parts(), "instances", **filters)
    _listed(current, found, "instances", form)


def pages(client: Client, *parts: object, **filters: object) -> list[dict[str, Any]]:
    """All items of a list, over its pages."""
    items: list[dict[str, Any]] = []
    after: Any = None
    while True:
        page = client.get(*parts, **filters, after=after, limit=PAGE)
        items += page["items"]
        after = page.get("next")
        if not after:
            return items


@click.command()
@click.argument("name")
@output
def describe(name: str, form: str) -> int:
    """All that is known of NAME: a job, an instance, or an agent."""
    current = _formed(form)
    wanted = target(name)
    item = _described(current.client, wanted)
    if form in ("json", "yaml"):
        show_one(item, "jobs", form)
    else:
        click.echo("\n".join(facts(item)))
    return 0


def _described(client: Client, wanted: Target) -> dict[str, Any]:
    """A job goes before an agent of the same name."""
    try:
        found: dict[str, Any] = client.get(*wanted.parts())
        return found
    except Failure as refused:
        if wanted.instance is not None or not refused.code.startswith("no_such"):
            raise
        try:
            agent: dict[str, Any] = client.get("agents", wanted.work)
            return agent
        except Failure:
            raise refused from None


@click.command()
@click.argument("name")
@output
def why(name: str, form: str) -> int:
    """Why NAME waits, or how it ended."""
    current = _formed(form)
    told = current.client.get(*target(name).parts(), "why")
    items = told["items"]
    if form in ("json", "yaml"):
        show_one(told, "why", form)
    else:
        click.echo("\n".join(line for item in items for line in reasons(item)))
    return 0


def reasons(item: dict[str, Any]) -> list[str]:
    """How it is, and each cause with what is behind it and what would lift it."""
    sentence = item.get("sentence")
    lines = [
        f"{item.get('name', item.get('id'))}  {item.get('state')}" + (f"  {sentence}" if sentence else "")
    ]
    for cause in item.get("causes", []):
        if cause["sentence"] != sentence:
            lines.append(f"  {cause['sentence']}")
        known = cause.get("facts") or {}
        if known:
            told = ", ".join(f"{name} {fact}" for name, fact in known.items() if name != "resource")
            lines.append(f"    {told}")
        if cause.get("lifted_by"):
            lines.append(f"    lifted by  {cause['lifted_by']}")
        if cause.get("never"):
            lines.append("    nothing that this site has now lifts it")
    return lines


@click.command()
@click.argument("name")
@output
def history(name: str, form: str) -> int:
    """What happened to NAME, in order."""
    current = _formed(form)
    told = current.client.get(*target(name).parts(), "history")
    if form in ("json", "yaml"):
        show(told["items"], "history", form)
    else:
        rows = [[clock(item.get("at")), *moments(item)] for item in told["items"]]
        widest = max(map(len, rows), default=0)
        click.echo("\n".join(aligned([row + [""] * (widest - len(row)) for row in rows])))
    return 0


def moments(item: dict[str, Any]) -> list[str]:
    """What happened, and what more is known of it."""
    what = str(item.get("what") or item.get("event") or item.get("state") or "")
    shown = {"at", "what", "event", "state", "sentence", "text"}
    rest = [
        f"{name} {value}"
        for name, value in item.items()
        if name not in shown and is_plain(value) and value not in (None, "")
    ]
    return [what, str(item.get("text") or item.get("sentence") or ""), "  ".join(rest)]
