"""`cancel`: end work."""

from __future__ import annotations

import click

from fairlead.ctl.failures import Failure
from fairlead.ctl.session import session


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
def cancel(names: tuple[str, ...]) -> int:
    """End each NAME: TERM, its grace, then KILL. Answers at once, and is content with what has ended."""
    current = session()
    answer = current.client.post("cancel", body={"names": list(names)})
    refused: list[Failure] = []
    for item in answer["items"]:
        if item["said"] == "ok":
            current.talk.say(f"ending {item['name']}")
        elif item["said"] == "ended":
            current.talk.say(f"{item['name']} had ended")
        else:
            refused.append(Failure("no_such", f"{item['name']}: {item['said']}", fix="fairlead get jobs"))
    if refused:
        refused[0].others = refused[1:]
        raise refused[0]
    return 0
