"""`token`: what lets machines join, and people and programs in."""

from __future__ import annotations

import click

from fairlead.ctl.names import duration_ms
from fairlead.ctl.session import session

ROLES = ["agent", "server", "controller", "submit", "view", "operator", "admin"]


@click.group()
def token() -> None:
    """Make or revoke tokens."""


@token.command()
@click.option("--role", type=click.Choice(ROLES), required=True, help="What it opens.")
@click.option("--ttl", metavar="TIME", help="How long.  [10m for machines, 30d for others]")
@click.option("--uses", type=click.IntRange(min=1), metavar="N", help="How often.  [1 for machines]")
@click.option("--tenant", metavar="NAME", help="For whose work.")
def create(role: str, ttl: str | None, uses: int | None, tenant: str | None) -> int:
    """Print a new token, and nothing else. It is shown this once."""
    body = {
        "role": role,
        "ttl_ms": duration_ms(ttl, "--ttl") if ttl else 0,
        "uses": uses or 0,
        "tenant": tenant or "",
    }
    click.echo(session().client.post("tokens", body=body)["token"])
    return 0


@token.command()
@click.argument("id")
def revoke(id: str) -> int:
    """Let the token ID open nothing any more."""
    current = session()
    # A whole token works too: its id is the part before the first dot.
    current.client.delete("tokens", id.split(".")[0])
    current.talk.say(f"revoked {id.split('.')[0]}")
    return 0
