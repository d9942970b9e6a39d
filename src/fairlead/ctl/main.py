"""The command `fairlead`: finds the command that is named, loads only that, and turns every end into an exit code.

`COMMANDS` says where each one lives. A command is a `click.Command` named `command` in its module, and returns
its exit code.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from fairlead import __version__

from .failures import DID_NOT_SUCCEED, INTERRUPTED, OURS, Failure, ReaderGone
from .mending import mend
from .session import Session, global_options

# Name: (module below `commands`, attribute, one line for the overview).
COMMANDS: dict[str, tuple[str, str, str]] = {
    "run": ("run", "run", "Run one command on the site, its output here."),
    "submit": ("submit", "submit", "Submit a job file."),
    "attach": ("attach", "attach", "Follow running work as `run` does."),
    "wait": ("attach", "wait", "Wait until work runs, ended or succeeded."),
    "status": ("look", "status", "The site at a glance."),
    "get": ("look", "get", "List a kind, or show one by name."),
    "describe": ("look", "describe", "All that is known of one job, instance or agent."),
    "why": ("look", "why", "Why work waits, or how it ended."),
    "history": ("look", "history", "What happened to a job or instance, in order."),
    "logs": ("logs", "logs", "The output of work, exact to the byte."),
    "cancel": ("cancel", "cancel", "End work: TERM, a grace, KILL."),
    "up": ("local", "up", "A site on this machine: a server and agents."),
    "down": ("local", "down", "Stop the site that `up` started; its folder stays."),
    "server": ("local", "server", "Run a server."),
    "agent": ("local", "agent", "Run an agent that joins a site."),
    "token": ("token", "token", "Make or revoke tokens."),
    "context": ("context", "context", "The sites that this command line knows."),
    "simulate": ("local", "simulate", "Run the cores in a simulated world of faults."),
    "bench": ("local", "bench", "Measure this build on this machine."),
}
# What a shell asks for completions by.
COMPLETION = "_FAIRLEAD_COMPLETE"
# Their exit code is the work's own, so ours must be told apart.
CARRY_A_CODE = {"run", "attach"}


class Commands(click.Group):
    """Commands that are loaded when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one; it takes the global options too."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        found: click.Command = getattr(import_module(f"fairlead.ctl.commands.{module}"), attribute)
        own = {name for parameter in found.params for name in parameter.opts}
        found.params += [option for option in global_options() if not own & set(option.opts)]
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, told) for name, (_, _, told) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """An unknown name is answered with the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise _unknown_command(args)
        return super().resolve_command(ctx, args)


def _unknown_command(args: list[str]) -> Failure:
    import difflib
    import shlex

    near = difflib.get_close_matches(args[0], COMMANDS, n=2)
    why = f"did you mean {' or '.join(near)}?" if near else "`fairlead --help` lists them"
    fix = f"fairlead {shlex.join([near[0], *args[1:]])}" if near else "fairlead --help"
    return Failure("no_such_command", f"no command is called {args[0]}", why, fix=fix)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fairlead", message="%(prog)s %(version)s")
def fairlead() -> None:
    """Fairlead runs work on machines: submitted here, placed well, streamed back, accounted for."""


fairlead.params += global_options()


def main(arguments: list[str] | None = None) -> int:
    """The whole command line; returns the exit code and raises nothing."""
    given = sys.argv[1:] if arguments is None else arguments
    current = Session()
    try:
        if COMPLETION in os.environ:
            fairlead.main(given, "fairlead")
        with fairlead.make_context("fairlead", list(given), obj=current) as context:
            code: Any = fairlead.invoke(context)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return 0
    except click.UsageError as error:
        return _end(current, _usage(error, given))
    except Failure as failure:
        if failure.status == 2 and _named(given) in CARRY_A_CODE:
            failure.status = OURS
        mend(failure, given)
        return _end(current, failure)
    except (KeyboardInterrupt, click.Abort):
        current.talk.clear()
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        # The reader of our output is gone; nothing more can be told there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as fault:
        if current.debug:
            raise
        return _end(current, _our_fault(fault, given))
    finally:
        current.close()


def _end(current: Session, failure: Failure) -> int:
    if current.json:
        import json

        current.talk.error(json.dumps(failure.document()))
    else:
        current.talk.error(failure.lines())
    return failure.status


def _named(given: list[str]) -> str:
    return next((word for word in given if word in COMMANDS), "")


def _our_fault(fault: Exception, given: list[str]) -> Failure:
    import shlex

    status = OURS if _named(given) in CARRY_A_CODE else DID_NOT_SUCCEED
    while isinstance(fault, ExceptionGroup):
        fault = fault.exceptions[0]
    said = " ".join(f"fairlead itself failed: {type(fault).__name__}: {fault}".split())
    why = f"this is a bug in {_origin(fault)}, not in your work"
    fix = f"fairlead --debug {shlex.join(given)}"
    return Failure("fault", said, why, fix=fix, status=status)


def _origin(fault: BaseException) -> str:
    """The line of ours that it came through last."""
    place, step = "fairlead", fault.__traceback__
    while step is not None:
        path = step.tb_frame.f_code.co_filename
        if "fairlead" in path:
            place = f"fairlead{path.rpartition('fairlead')[2]}:{step.tb_lineno}"
        step = step.tb_next
    return place


def _usage(error: click.UsageError, given: list[str]) -> Failure:
    """A wrong option or argument, with the line as it was probably meant."""
    import shlex

    name = error.ctx.command_path.removeprefix("fairlead").strip() if error.ctx else ""
    fix = f"fairlead {name} --help" if name else "fairlead --help"
    why = ""
    message = error.format_message()
    if isinstance(error, click.NoSuchOption):
        message = f"no option {error.option_name}" + (f' for "{name}"' if name else "")
        near = sorted(error.possibilities or [], key=lambda option: not option.startswith(error.option_name))
        if near:
            why = f"did you mean {' or '.join(near[:2])}?"
            fix = f"fairlead {shlex.join(_replaced(given, error.option_name, near[0]))}"
    status = OURS if name.split(" ")[0] in CARRY_A_CODE else 2
    message = message[:1].lower() + message[1:].rstrip(".")
    return Failure("usage", message, why or f"usage: {_usage_line(error)}", fix=fix, status=status)


def _usage_line(error: click.UsageError) -> str:
    if error.ctx is None:
        return "fairlead COMMAND …"
    return " ".join(error.ctx.get_usage().removeprefix("Usage: ").split())


def _replaced(given: list[str], wrong: str, right: str) -> list[str]:
    at = next((i for i, word in enumerate(given) if word == wrong or word.startswith(f"{wrong}=")), None)
    if at is None:
        return given
    return [*given[:at], given[at].replace(wrong, right, 1), *given[at + 1 :]]
