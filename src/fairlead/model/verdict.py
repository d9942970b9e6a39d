"""Why a lot does not run now: every cause with its count, and what would lift it.

A verdict is computed on demand, by the same functions that place; nothing of it is kept.
"""

from __future__ import annotations

from msgspec import Struct

from fairlead.model.reasons import SENTENCES, Reason


class Blocker(Struct, frozen=True, gc=False):
    """One cause that keeps `agents` agents from taking the lot; `lifts` says what would change that."""

    reason: Reason
    agents: int
    facts: dict[str, str]
    lifts: str = ""


class Verdict(Struct, frozen=True, gc=False):
    """What the engine says of a lot: fits now on so many agents, waits, or can never run as things are."""

    agents: int
    fits: int
    never: bool
    blockers: list[Blocker]
    # The agent that the fewest causes keep away, if all are kept away.
    nearest: int = 0


def sentence(reason: Reason, facts: dict[str, str]) -> str:
    """The reason in words, with its facts filled in; a fact that is missing shows as its name."""
    text = SENTENCES[reason]
    for name, fact in facts.items():
        text = text.replace("{" + name + "}", fact)
    return text
