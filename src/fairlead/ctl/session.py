"""What one call of the command line carries: its global options, who it talks to, and the site once it is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .client import Client
from .contexts import Site, find
from .talk import Talk

CONNECT_TIMEOUT = 60.0


class Session:
    """Made before the command is known; the options may stand before or behind the command's name."""

    def __init__(self) -> None:
        self.context, self.patience = "", CONNECT_TIMEOUT
        self.debug = self.json = False
        self.talk = Talk()
        self._client: Client | None = None

    @property
    def site(self) -> Site:
        """The site that is meant."""
        return find(self.context)

    @property
    def client(self) -> Client:
        """The connection to it."""
        if self._client is None:
            self._client = Client(self.site, self.patience, self.talk)
        return self._client

    def close(self) -> None:
        """Drop the connection, if there was one."""
        if self._client is not None:
            self._client.hang_up()


def session() -> Session:
    """The session of the running command."""
    return click.get_current_context().ensure_object(Session)


def _set(change: Callable[[Session, Any], None]) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value is not None:
            change(context.ensure_object(Session), value)

    return callback


def _quiet(current: Session, value: bool) -> None:
    current.talk.quiet = value


def global_options() -> list[click.Option]:
    """The options that every command takes."""
    return [
        click.Option(
            ["--context"],
            metavar="NAME",
            expose_value=False,
            help="Which site, of `fairlead context list`.",
            callback=_set(lambda current, value: setattr(current, "context", value)),
        ),
        click.Option(
            ["--connect-timeout"],
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            expose_value=False,
            help="How long an unreachable site is waited for.  [60]",
            callback=_set(lambda current, value: setattr(current, "patience", value)),
        ),
        click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            default=None,
            expose_value=False,
            help="No talk, only data and errors.",
            callback=_set(_quiet),
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            default=None,
            expose_value=False,
            help="Show where in Fairlead a fault came from.",
            callback=_set(lambda current, value: setattr(current, "debug", value)),
        ),
    ]
