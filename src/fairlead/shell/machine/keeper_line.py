"""The keeper's end of its line to the agent: a UNIX socket on which the newest connection counts.

Each line is a JSON list, of commands down and of events up. Standard library only: the keeper loads this by
its path.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

Fields = dict[str, Any]

READ: Final = 1 << 18
# An agent that reads nothing while this much waits for it is cut off; it is told all when it returns.
UNREAD: Final = 64 << 20
ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


class Line:
    """Accepts, reads, writes; never blocks."""

    def __init__(self, folder: str, selector: selectors.BaseSelector, alone: Callable[[], None]) -> None:
        self.alone = alone
        self.selector = selector
        self.door = socket.socket(socket.AF_UNIX)
        # By way of the folder's descriptor: the name of a socket may not be longer than 107 bytes.
        fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        path = f"/proc/self/fd/{fd}/keeper.sock"
        if os.path.lexists(path):
            os.unlink(path)
        mask = os.umask(0o177)
        self.door.bind(path)
        os.umask(mask)
        os.close(fd)
        self.door.listen(8)
        self.door.setblocking(False)
        selector.register(self.door, selectors.EVENT_READ)
        self.agent: socket.socket | None = None
        self.commands: deque[Fields] = deque()
        self.events: list[Fields] = []
        self.unread, self.unsent = bytearray(), bytearray()
        # Is the selector to say when the agent can take more?
        self.waiting = False

    def accept(self) -> bool:
        """A new agent; what the one before said and we have not done is void."""
        try:
            agent, _ = self.door.accept()
        except OSError:
            return False
        self.drop()
        agent.setblocking(False)
        self.agent, self.waiting = agent, False
        self.selector.register(agent, selectors.EVENT_READ)
        return True

    def drop(self) -> None:
        if self.agent:
            self.selector.unregister(self.agent)
            self.agent.close()
            self.agent = None
            self.alone()
        self.commands.clear()
        self.events.clear()
        self.unread.clear()
        self.unsent.clear()

    def read(self) -> None:
        """Take in commands; a closed or nonsensical line is dropped."""
        assert self.agent
        try:
            data = self.agent.recv(READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop()
            return
        self.unread += data
        if b"\n" not in data:
            return
        *lines, self.unread = self.unread.split(b"\n")
        try:
            for line in lines:
                self.commands.extend(json.loads(line))
        except (ValueError, TypeError):
            self.drop()

    def write(self) -> None:
        """Send what there is to say, as far as the agent takes it; keep the rest."""
        if not self.agent:
            self.events.clear()
        if self.events:
            self.unsent += ENCODER.encode(self.events).encode() + b"\n"
            self.events.clear()
        if self.agent and self.unsent:
            self._push(self.agent)

    def _push(self, agent: socket.socket) -> None:
        try:
            sent = agent.send(self.unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.drop()
            return
        del self.unsent[:sent]
        if len(self.unsent) > UNREAD:
            self.drop()
        elif bool(self.unsent) != self.waiting:
            self.waiting = bool(self.unsent)
            mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.waiting else 0)
            self.selector.modify(agent, mask)
