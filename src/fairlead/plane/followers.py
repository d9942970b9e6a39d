"""Fronts that follow the log, and where their servers can be reached.

The log is the event stream. Who asks for a segment that is not kept any more is told to look anew.
"""

from __future__ import annotations

from collections import deque

from fairlead.controllers.names import no_such
from fairlead.model.changes import Part, decode
from fairlead.model.requests import LOOK_ROWS, Follow, Following, Look, Reply, Seen


class Follower:
    """One link that follows."""

    __slots__ = ("ask", "begun", "control", "output")

    def __init__(self, ask: int, follow: Follow) -> None:
        self.ask = ask
        # Told from here on only after the answer to its ask has left.
        self.begun = False
        self.control = follow.control
        self.output = follow.output


class Followers:
    """The links, and the newest segments as they are stored: as records they would be half a million objects."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.links: dict[int, Follower] = {}
        self.recent: deque[tuple[int, bytes]] = deque()
        self.size = 0
        self.head = 0

    def begin(self, segments: list[tuple[int, bytes]], head: int) -> None:
        """A new term: what was loaded can be told again."""
        self.end()
        for n, segment in segments:
            self._keep(n, segment)
        self.head = head

    def end(self) -> None:
        """Nobody follows a server that does not lead."""
        self.links.clear()
        self.recent.clear()
        self.size = 0

    def add(self, link: int, ask: int, follow: Follow) -> Following:
        """A link wants every segment from `since` on."""
        self.links[link] = Follower(ask, follow)
        oldest = self.recent[0][0] if self.recent else self.head + 1
        if follow.since < 0 or follow.since > self.head + 1:
            return Following(self.head + 1, follow.since > self.head + 1)
        if follow.since < oldest:
            return Following(self.head + 1, True)
        return Following(follow.since, False)

    def begin_telling(self, link: int, following: Following) -> tuple[Following, list[Part]]:
        """The answer leaves now, as it must be by now, and with it what the follower is told first."""
        follower = self.links.get(link)
        if follower is None:
            return following, []
        follower.begun = True
        since = following.since
        if since <= self.head and (not self.recent or self.recent[0][0] > since):
            return Following(self.head + 1, True), []
        return following, [decode(segment) for n, segment in self.recent if n >= since]

    def remove(self, link: int) -> None:
        """A link is over."""
        self.links.pop(link, None)

    def tell(self, n: int, segment: bytes) -> list[int]:
        """A segment is durable: who shall hear of it."""
        self._keep(n, segment)
        self.head = n
        return [link for link, follower in self.links.items() if follower.begun]

    def addresses(self) -> tuple[list[str], list[str]]:
        """Where control and output can be reached, on all servers whose fronts follow."""
        control = {one.control for one in self.links.values() if one.control}
        output = {one.output for one in self.links.values() if one.output}
        return sorted(control), sorted(output)

    def show(self, leader: str, term: int, asked: Look) -> Reply:
        """Every server whose front follows, and the one that leads, by the address of its control."""
        outputs: dict[str, str] = {leader: ""}
        for one in self.links.values():
            if one.control:
                outputs[one.control] = one.output or outputs.get(one.control, "")
        servers = [
            {
                "id": control,
                "name": control,
                "state": "leading" if control == leader else "following",
                "leader": control == leader,
                "term": term,
                "control": control,
                "output": output or None,
            }
            for control, output in sorted(outputs.items())
            if asked.name in ("", control)
        ]
        if asked.name and not servers:
            return no_such("server", asked.name)
        first, most = max(asked.after, 0), max(1, min(asked.limit, LOOK_ROWS))
        page = servers[first : first + most]
        return Seen(page, first + most if first + most < len(servers) else 0)

    def _keep(self, n: int, segment: bytes) -> None:
        self.recent.append((n, segment))
        self.size += len(segment)
        while self.size > self.most_bytes:
            self.size -= len(self.recent.popleft()[1])
