"""Which of a list somebody wants to see: by state, by name, by a rule over labels.

What cannot be meant is refused, since a filter that is passed over shows what was not asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from fairlead.model.errors import Problem, nearest, quote
from fairlead.model.lifecycles import State
from fairlead.model.rules import Among, Rule, matches, parse_rule

# Where instances of a displayed state are found.
DISPLAYED: dict[str, State] = {
    **{state.name: state for state in State if state not in (State.active, State.waiting)},
    **dict.fromkeys(("assigned", "starting", "running", "ending"), State.active),
    **dict.fromkeys(("waiting", "blocked"), State.waiting),
}
_WORK = ("pending", "running", "succeeded", "failed", "cancelled")
STATES: dict[str, tuple[str, ...]] = {
    "jobs": _WORK,
    "submissions": _WORK,
    "instances": tuple(sorted(DISPLAYED)),
    "agents": ("joining", "ready", "suspect", "cordoned", "draining", "banned", "lost", "left"),
    "tokens": ("good", "used", "expired", "revoked"),
}
# By what each kind is filtered; `all` is for those who want what ended long ago too.
TAKES: dict[str, tuple[str, ...]] = {
    "jobs": ("state", "name", "submission", "selector", "all"),
    "submissions": ("state", "all"),
    "instances": ("state", "all"),
    "agents": ("state", "selector", "all"),
    "tokens": ("state", "all"),
}
NO_LABELS: Mapping[str, str] = MappingProxyType({})
# What people are used to write for `a == b`.
_PLAIN = re.compile(r"\s*([A-Za-z][A-Za-z0-9._/-]*)\s*=\s*([A-Za-z0-9._/:+-]+)\s*", re.ASCII)


class Filter(Struct, frozen=True):
    """What is asked for, read once for a whole list."""

    state: str = ""
    name: str = ""
    rule: Rule | None = None

    def meets(self, state: str, name: str = "", labels: Mapping[str, str] = NO_LABELS) -> bool:
        """Whether something that is so is asked for."""
        return (
            (not self.state or state == self.state)
            and (not self.name or name == self.name)
            and (self.rule is None or matches(self.rule, labels))
        )


def read_filter(kind: str, given: Mapping[str, str]) -> Filter | Problem:
    """What of a kind is asked for, or why that cannot be."""
    takes = TAKES[kind]
    for name in given:
        if name not in takes:
            why = f"they are filtered by {', '.join(takes)}"
            said = f"{kind} are not filtered by {quote(name)}"
            return Problem("unknown_parameter", said, why, name, f"fairlead get {kind}")
    state = given.get("state", "")
    if state and state not in STATES[kind]:
        return _no_state(kind, state)
    rule = read_rule(given["selector"]) if given.get("selector") else None
    if isinstance(rule, Problem):
        why = "; ".join(part for part in (rule.why, rule.fix) if part)
        return Problem(rule.code, rule.message, why, "--selector", f"fairlead get {kind} -l team=core")
    return Filter(state, given.get("name", ""), rule)


def read_rule(text: str) -> Rule | Problem:
    """A rule over labels; `a=b` is as good as `a == b`."""
    plain = _PLAIN.fullmatch(text)
    return Among(plain[1], (plain[2],)) if plain else parse_rule(text)


def _no_state(kind: str, text: str) -> Problem:
    states = STATES[kind]
    meant = nearest(text, states)
    return Problem(
        "no_such_state",
        f"{kind} are never {quote(text)}",
        f"they are {', '.join(states)}",
        "--state",
        f"fairlead get {kind} --state {meant}" if meant else f"fairlead get {kind}",
    )
