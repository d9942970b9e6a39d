"""Follows work as if it ran here: Ctrl-C and TERM reach it, and its exit code becomes ours."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import Any

from .client import Client
from .failures import INTERRUPTED, Failure, ReaderGone
from .following import Follower, Interrupted, Signals, exit_code, write_out
from .talk import span

# What Ctrl-C does on a terminal, by the letter that is typed.
CHOICES = {
    "c": "cancel", "cancel": "cancel", "d": "detach", "detach": "detach", "g": "go on", "go on": "go on", "": "go on",
}  # fmt: skip
# Who does not answer in this time did not mean it.
ANSWER_SECONDS = 60.0
# Of many instances that failed, so many are named.
MOST_TOLD = 20


def follow_job(client: Client, job: str, name: str, indices: range, *, ours: bool) -> int:
    """Each instance in turn; the highest exit code of them. `ours`: a reader that goes away ends the work."""
    code, failed = 0, []
    with Signals() as signals:
        for index in indices:
            shown = name if len(indices) == 1 else f"{name}/{index}"
            follower = Follower(client, job, index, write_out, shown)
            try:
                item = _steer(follower, signals, name)
            except ReaderGone:
                if ours:
                    client.hang_up()
                    client.post("cancel", body={"names": [job], "caller_gone": True})
                raise
            if item is None:
                return INTERRUPTED
            code = max(code, exit_code(item))
            _tell(client, shown, item)
            if exit_code(item):
                failed.append(f"{index} {_word(str(item.get('state')))}")
    if failed and len(indices) > 1:
        more = ", …" if len(failed) > MOST_TOLD else ""
        told = f"{', '.join(failed[:MOST_TOLD])}{more}"
        client.talk.say(f"{name}: {len(failed)} of {len(indices)} did not succeed: {told}")
    return code


def _steer(follower: Follower, signals: Signals, name: str) -> dict[str, Any] | None:
    """To the end; None when the person leaves before it."""
    cancelled = False
    while True:
        try:
            return follower.to_end(signals)
        except Interrupted:
            # The stream stands while the person thinks: without anybody on it the work would be ended.
            choice = _choose(follower, signals, name, cancelled)
            follower.client.hang_up()
        if choice == "detach":
            if not cancelled:
                _tell_site(follower, signals, "detach", "may end")
            talk = follower.client.talk
            told = "is being ended" if cancelled else "goes on"
            talk.say(
                f"detached  {name} {told}    back: fairlead attach {name}    end: fairlead cancel {name}"
            )
            return None
        if choice == "cancel":
            cancelled = True
            _tell_site(follower, signals, "cancel", "may go on")


def _tell_site(follower: Follower, signals: Signals, verb: str, untold: str) -> None:
    """`cancel` or `detach` the job; who is impatient hears what was not told."""
    signals.waiting = True
    try:
        follower.client.post("jobs", follower.job, verb, body={})
    except Interrupted:
        raise Failure(
            "interrupted",
            f"{follower.name} {untold}: nobody took the {verb}",
            "interrupted while the site was not reachable",
            fix=f"fairlead {'cancel' if verb == 'cancel' else 'attach'} {follower.job}",
            status=INTERRUPTED,
        ) from None
    finally:
        signals.waiting = False


def _choose(follower: Follower, signals: Signals, name: str, cancelled: bool) -> str:
    """Off a terminal the first interrupt cancels; the one after a cancel always leaves."""
    if cancelled:
        return "detach"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "cancel"
    follower.client.talk.clear()
    heard, until = signals.count, time.monotonic() + ANSWER_SECONDS
    while True:
        print(f"\n{name}: cancel, detach, or go on? [c/d/G] ", end="", file=sys.stderr, flush=True)
        typed = _typed(signals, heard, until)
        if typed is None or typed in CHOICES:
            return "cancel" if typed is None else CHOICES[typed]


def _typed(signals: Signals, heard: int, until: float) -> str | None:
    """What is answered in time, in small letters; None when nobody can answer, or a second interrupt did."""
    try:
        signals.waiting = True
        if signals.count != heard:
            return None
        ready, _, _ = select.select([sys.stdin], [], [], max(until - time.monotonic(), 0))
        line = os.read(sys.stdin.fileno(), 1024) if ready else b"\n"
    except Interrupted:
        print(file=sys.stderr, flush=True)
        return None
    finally:
        signals.waiting = False
    return " ".join(line.decode(errors="replace").lower().split()) if line else None


def _tell(client: Client, name: str, item: dict[str, Any]) -> None:
    """How it ended, when that is not plain from its exit code alone."""
    state, sentence = item.get("state"), item.get("sentence") or ""
    talk = client.talk
    if state in ("succeeded", "cancelled"):
        talk.clear()
    elif state == "failed" and item.get("reason") in ("exited", "signalled"):
        if talk.terminal:
            took = span(int(item.get("ended") or 0) - int(item.get("started") or 0))
            talk.say(f"failed    {sentence} after {took}")
    else:
        talk.error(f"error: {name} {_word(str(state))}\n  why: {sentence}\n  fix: fairlead why {name}")


def _word(state: str) -> str:
    return {"lost": "was lost", "refused": "was refused", "timed_out": "timed out"}.get(state, state)
