"""What an agent's folder remembers for its core: the highest fence obeyed, and where servers are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from fairlead.agent.words import FenceKept, KeepAddresses, KeepFence
from fairlead.model.storage import Fence
from fairlead.shell.machine.agent_loop import AgentLoop, Handlers

# Writes a file whole and synced over what was there.
Replace = Callable[[Path, bytes], None]

FENCE, SERVERS = "fence.json", "servers.json"


class Servers(Struct, frozen=True):
    """Where control may be dialled, and where output may be sent."""

    control: list[str] = []
    output: list[str] = []


class Memory:
    """Writes in order, away from the loop, and says what is on disk."""

    def __init__(self, loop: AgentLoop, folder: Path, replace: Replace) -> None:
        self._loop = loop
        self._folder = folder
        self._replace = replace
        self._turn = asyncio.Lock()

    def handlers(self) -> Handlers:
        """What this port does."""
        return {
            KeepFence: lambda effect: self._loop.start(self._keep_fence(effect.fence)),
            KeepAddresses: lambda effect: self._loop.start(
                self._keep(SERVERS, Servers(effect.control, effect.output))
            ),
        }

    async def _keep_fence(self, fence: Fence) -> None:
        await self._keep(FENCE, fence)
        self._loop.post(FenceKept(fence))

    async def _keep(self, name: str, value: Struct) -> None:
        async with self._turn:
            await asyncio.to_thread(self._replace, self._folder / name, msgspec.json.encode(value))


class NoMemory:
    """For agents that end with their process: nothing they obeyed can outlive them."""

    def __init__(self, loop: AgentLoop) -> None:
        self._loop = loop

    def handlers(self) -> Handlers:
        """What this port does."""
        return {
            KeepFence: lambda effect: self._loop.post(FenceKept(effect.fence)),
            KeepAddresses: lambda effect: None,
        }
