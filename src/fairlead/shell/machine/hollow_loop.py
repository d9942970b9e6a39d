"""Runs many hollow agents in one process, each with its own session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fairlead.agent.hollow import HollowAgent
from fairlead.agent.words import Settings, StopAsked
from fairlead.shell.machine.agent_loop import AgentLoop
from fairlead.shell.machine.control_port import ControlPort, DialControl
from fairlead.shell.machine.memory import NoMemory

# A server takes some 400 new connections a second; dials that wait longer than that would time out.
DIALS_A_SECOND = 200


async def run_hollow(
    members: Sequence[tuple[Settings, DialControl]], seconds: float, stop: asyncio.Event
) -> None:
    """Start them one after the other, and let them leave after so many seconds (0: when `stop` is set)."""
    loops: list[AgentLoop] = []
    async with asyncio.TaskGroup() as tasks:
        for settings, dial in members:
            loop = AgentLoop(HollowAgent(settings))
            loop.serve(ControlPort(loop, dial).handlers())
            loop.serve(NoMemory(loop).handlers())
            loops.append(loop)
            tasks.create_task(loop.run())
            if await _within(stop, 1 / DIALS_A_SECOND):
                break
        await _within(stop, seconds or None)
        for loop in loops:
            loop.post(StopAsked(False))


async def _within(stop: asyncio.Event, seconds: float | None) -> bool:
    """Whether it was set in that time."""
    try:
        async with asyncio.timeout(seconds):
            return await stop.wait()
    except TimeoutError:
        return False
