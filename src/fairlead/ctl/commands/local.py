"""Programs that run on this machine: `up`, `down`, `server`, `agent`, `simulate`, `bench`.

Only the options are read here. Each program is a module of `fairlead.programs` with `main(options) -> int`, loaded
when it is called: it wires the whole house, and the command line imports none of that.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any

import click

from fairlead.ctl.contexts import data_home
from fairlead.ctl.session import session

LISTEN = click.option(
    "--listen", metavar="HOST[:PORT]", help="Where to listen.  [127.0.0.1:7410; port 0: free ones]"
)


def program(name: str, options: dict[str, Any]) -> int:
    """Run one; what it is told are its options, by name."""
    gc.enable()
    current = session()
    told = {**options, "quiet": current.talk.quiet, "debug": current.debug, "context": current.context}
    code: int = import_module(f"fairlead.programs.{name}").main(told)
    return code


def _folder(given: str | None) -> str:
    return given or data_home()


@click.command()
@click.option(
    "--agents", type=click.IntRange(min=0), metavar="N", help="How many.  [as many as before, at first 1]"
)
@click.option("--dir", "folder", metavar="DIR", help="Everything it keeps lies here.")
@click.option("--detach", is_flag=True, help="Leave it running, and return when it is ready.")
@LISTEN
def up(folder: str | None, **options: Any) -> int:
    """A site on this machine: a server and agents, with certificates and a context.

    Ctrl-C stops it; the same line starts it again with all that it had.
    """
    return program("up", {**options, "dir": _folder(folder)})


@click.command()
@click.option("--dir", "folder", metavar="DIR", help="The folder that `up` was given.")
@click.option("--yes", is_flag=True, help="Do not ask, even when work runs.")
def down(folder: str | None, yes: bool) -> int:
    """Stop the site that `up` started; its folder stays."""
    return program("down", {"dir": _folder(folder), "yes": yes})


@click.command()
@click.option("--dir", "folder", required=True, metavar="DIR", help="Everything it keeps lies here.")
@LISTEN
@click.option(
    "--store", metavar="URL", help="etcd://HOST:PORT,…[?ca=F&cert=F&key=F&prefix=P]; else a file in DIR."
)
@click.option("--blobs", metavar="DIR", help="A folder that all servers see; else in DIR.")
@click.option("--join", metavar="HOST:PORT", help="A server of the site to join.")
@click.option("--token", metavar="TOKEN", help="Of role `server`, for --join.")
@click.option("--roles", default="control,front", show_default=True, metavar="ROLES")
@click.option("--name", metavar="NAME", help="Of the context that is written.")
def server(folder: str, **options: Any) -> int:
    """Run a server: control and front. After its first start the folder is enough."""
    return program("server", {**options, "dir": folder})


@click.command()
@click.option("--dir", "folder", metavar="DIR", help="Everything it keeps lies here.")
@click.option("--join", metavar="HOST:PORT[,…]", help="Servers of the site, for the first start.")
@click.option("--token", metavar="TOKEN", help="Of role `agent`, for the first start.")
@click.option("--name", metavar="NAME", help="What the agent is called.  [the machine's name]")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="What rules can ask for.")
@click.option("--cpus", metavar="N", help="How many cores it gives.  [all]")
@click.option("--memory", metavar="SIZE", help="How much memory it gives.  [all]")
@click.option("--resource", "resources", multiple=True, metavar="NAME=N", help="Any other resource.")
@click.option("--on-stop", type=click.Choice(["keep", "drain"]), default="keep", show_default=True)
@click.option(
    "--hollow", type=click.IntRange(min=1), metavar="N", help="N agents that accept and finish at once."
)
@click.option("--seconds", type=click.FloatRange(min=0), metavar="S", help="How long a hollow attempt takes.")
def agent(folder: str | None, **options: Any) -> int:
    """Run an agent: it joins a site once, and after that its folder is enough."""
    return program("agent", {**options, "dir": folder})


@click.group()
def simulate() -> None:
    """Run the cores in a simulated world."""


@simulate.command()
@click.option("--seeds", type=click.IntRange(min=1), default=200, show_default=True, metavar="N")
@click.option("--first", type=click.IntRange(min=0), default=0, show_default=True, metavar="S")
@click.option("--minutes", type=click.FloatRange(min=0), metavar="M", help="Stop after so long.")
def faults(**options: Any) -> int:
    """N seeded worlds with faults, every promise checked; exit code 1 with seed and script of what broke."""
    return program("simulate", options)


@simulate.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--policy", multiple=True, metavar="P", help="Only this one; may be given again.  [all but conservative]"
)
@click.option("--machines", type=click.IntRange(min=1), metavar="N", help="How many.  [what the log says]")
@click.option(
    "--slots", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Of each."
)
@click.option("--plot", metavar="FILE", help="Draw how long jobs waited, as SVG.")
def trace(**options: Any) -> int:
    """Replay logs of batch queues (SWF, Batsim, Philly, Muri) on the engine, policy by policy."""
    return program("trace", options)


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]…")
@click.option("--full", is_flag=True, help="All of them, not the short set.")
@click.option("--peers", is_flag=True, help="Beside other schedulers, in environments of their own.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def bench(**options: Any) -> int:
    """Measure this build: value, target, and the reference of the same run."""
    return program("bench", options)
