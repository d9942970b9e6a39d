"""`context`: the sites that this command line knows, and the one it speaks to."""

from __future__ import annotations

import click

from fairlead.ctl import contexts
from fairlead.ctl.session import session


@click.group()
def context() -> None:
    """The sites that this command line knows."""


@context.command("list")
def show() -> int:
    """List them; the current one is marked."""
    current, sites = contexts.load()
    for name, site in sorted(sites.items()):
        click.echo(f"{'*' if name == current else ' '} {name}  {site.api}")
    return 0


@context.command()
@click.argument("name")
def use(name: str) -> int:
    """Speak to NAME from now on."""
    contexts.use(name)
    session().talk.say(f"now speaking to {name}")
    return 0


@context.command()
@click.argument("name")
def forget(name: str) -> int:
    """Drop NAME; the site itself is not touched."""
    contexts.forget(name)
    return 0
