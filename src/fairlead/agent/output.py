"""What may be sent of the output of attempts, on which link, and when an attempt's output is whole.

An offset is safe once a front acknowledged it; until then the spool is the copy, and on a new link everything
behind the last acknowledged offset is sent again. Windows bound what is on its way: one attempt's, so that a
talker does not hold up the others, and the link's, so that a front is not asked to hold more than it grants.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from fairlead.agent.words import DialOutput, Effect, HangUpOutput, ReadOutput
from fairlead.base.dice import Dice
from fairlead.model.blocks import ERR, OUT

ATTEMPT_WINDOW = 256 << 10
LINK_WINDOW = 8 << 20
# What an attempt sends before the next one's turn.
PIECE = 64 << 10
IDLE_MS = 60_000
# A front that acknowledges nothing for so long is left.
STALL_MS = 60_000
DIAL_MS = 10_000
FIRST_WAIT_MS = 250
LONGEST_WAIT_MS = 10_000
STREAMS = (OUT, ERR)

# key, stream, offset, length, end
Range = tuple[str, int, int, int, int]


class Flow:
    """The two streams of one attempt: how long, how far sent, how far stored."""

    __slots__ = ("end_sent", "end_stored", "final", "key", "length", "queued", "sent", "stored", "whole")

    def __init__(self, key: str) -> None:
        self.key = key
        self.length = [0, 0]
        self.sent = [0, 0]
        self.stored = [0, 0]
        self.end_sent = [False, False]
        self.end_stored = [False, False]
        # The lengths will not change any more.
        self.final = False
        self.whole = True
        self.queued = False

    @property
    def window(self) -> int:
        """How many bytes may be sent before the next acknowledgement."""
        return ATTEMPT_WINDOW - sum(self.sent) + sum(self.stored)

    @property
    def done(self) -> bool:
        """Everything is stored, ends included."""
        return self.final and all(self.end_stored[s] or not self.length[s] for s in STREAMS)

    def owes(self, stream: int) -> bool:
        """There is something to send, be it only the end."""
        return self.sent[stream] < self.length[stream] or (
            self.final and not self.end_sent[stream] and self.length[stream] > 0
        )

    def rewind(self) -> None:
        """The link is gone: what was not acknowledged was not sent."""
        self.sent = list(self.stored)
        self.end_sent = list(self.end_stored)


class Output:
    """The flows of all attempts and the one link to a front."""

    def __init__(self, dice: Dice, effects: list[Effect]) -> None:
        self._dice = dice
        self._effects = effects
        self.addresses: Sequence[str] = ()
        self.flows: dict[str, Flow] = {}
        # Bytes in the spool that may not be deleted yet.
        self.held = 0
        self._ready: deque[Flow] = deque()
        self._done: list[Flow] = []
        self._links = 0
        self._link = 0
        self._stands = False
        self._under_way = 0
        # When something was last sent or acknowledged.
        self._moved_at = 0
        self._dialled_at = 0
        self._dial_at = 0
        self._at = 0
        self._failures = 0

    def grew(self, key: str, stream: int, length: int) -> int:
        """A file is longer now; how long both are together."""
        flow = self.flows.setdefault(key, Flow(key))
        if stream in STREAMS and length > flow.length[stream] and not flow.final:
            self.held += length - flow.length[stream]
            flow.length[stream] = length
            self._queue(flow)
        return sum(flow.length)

    def ended(self, key: str, lengths: tuple[int, int]) -> int:
        """No more will be written; how long both streams are together."""
        total = 0
        for stream, length in zip(STREAMS, lengths, strict=True):
            total = self.grew(key, stream, length)
        flow = self.flows[key]
        flow.final = True
        self._queue(flow)
        return total

    def stored(self, key: str, stream: int, offset: int, now: int) -> None:
        """A front holds all before `offset`; one more than there is: the end too."""
        flow = self.flows.get(key)
        if flow is None or stream not in STREAMS:
            return
        self._moved_at = now
        upto = min(offset, flow.sent[stream])
        if upto > flow.stored[stream]:
            self._under_way -= upto - flow.stored[stream]
            flow.stored[stream] = upto
        if flow.end_sent[stream] and offset > flow.length[stream] and not flow.end_stored[stream]:
            flow.end_stored[stream] = True
            if flow.done:
                self._done.append(flow)
        self._queue(flow)

    def unreadable(self, key: str, stream: int) -> None:
        """These bytes can never be sent: the stream counts as over, and as not whole."""
        flow = self.flows.get(key)
        if flow is None or stream not in STREAMS:
            return
        was_done = flow.done
        self._under_way -= flow.sent[stream] - flow.stored[stream]
        flow.whole = False
        flow.sent[stream] = flow.stored[stream] = flow.length[stream]
        flow.end_sent[stream] = flow.end_stored[stream] = True
        if flow.done and not was_done:
            self._done.append(flow)

    def take_done(self) -> list[Flow]:
        """The flows that became whole since the last call."""
        done, self._done = self._done, []
        return done

    def drop(self, key: str) -> None:
        """The attempt is forgotten."""
        flow = self.flows.pop(key, None)
        if flow is not None:
            self.held -= sum(flow.length)
            self._under_way -= sum(flow.sent) - sum(flow.stored)

    def dialled(self, link: int, now: int) -> None:
        """A link stands."""
        if link == self._link and link:
            self._stands = True
            self._moved_at = now

    def dropped(self, link: int, now: int) -> None:
        """The link is over: the next one starts from what is acknowledged."""
        if link != self._link or not link:
            return
        longest = min(FIRST_WAIT_MS << min(self._failures, 10), LONGEST_WAIT_MS)
        self._dial_at = now + self._dice.between(longest // 2, longest)
        self._failures += 1
        self._at += 1
        self._close()

    def run(self, now: int) -> None:
        """Dial, send and hang up, whatever is due."""
        if self._stands:
            self._send(now)
            quiet = now - self._moved_at
            if self._under_way and quiet >= STALL_MS:
                self._leave(now)
            elif not self._under_way and not self._ready and quiet >= IDLE_MS:
                self._effects.append(HangUpOutput(self._link))
                self._close()
        elif self._link and now - self._dialled_at >= DIAL_MS:
            self._leave(now)
        elif not self._link and self._ready and self.addresses and now >= self._dial_at:
            self._links += 1
            self._link = self._links
            self._dialled_at = now
            self._effects.append(DialOutput(self._link, self.addresses[self._at % len(self.addresses)]))

    def deadline(self) -> int | None:
        """When `run` has something to do again, if nothing else happens."""
        if self._stands:
            return self._moved_at + (STALL_MS if self._under_way else IDLE_MS)
        if self._link:
            return self._dialled_at + DIAL_MS
        return self._dial_at if self._ready and self.addresses else None

    def _leave(self, now: int) -> None:
        link = self._link
        self._effects.append(HangUpOutput(link))
        self.dropped(link, now)

    def _close(self) -> None:
        self._link = 0
        self._stands = False
        self._under_way = 0
        for flow in self.flows.values():
            flow.rewind()
            self._queue(flow)

    def _queue(self, flow: Flow) -> None:
        if not flow.queued and flow.window > 0 and any(flow.owes(stream) for stream in STREAMS):
            flow.queued = True
            self._ready.append(flow)

    def _send(self, now: int) -> None:
        """Turn by turn a piece of each, as far as the windows allow."""
        rows: list[Range] = []
        while self._ready and self._under_way < LINK_WINDOW:
            flow = self._ready.popleft()
            flow.queued = False
            if self.flows.get(flow.key) is not flow:
                continue
            for stream in STREAMS:
                if flow.owes(stream):
                    self._cut(flow, stream, rows)
            self._queue(flow)
        if rows:
            self._moved_at = now
            self._failures = 0
            self._effects.append(_read(self._link, rows))

    def _cut(self, flow: Flow, stream: int, rows: list[Range]) -> None:
        offset = flow.sent[stream]
        room = min(PIECE, flow.window, LINK_WINDOW - self._under_way)
        length = max(0, min(flow.length[stream] - offset, room))
        end = flow.final and offset + length == flow.length[stream]
        if not length and not end:
            return
        flow.sent[stream] += length
        flow.end_sent[stream] = end
        self._under_way += length
        rows.append((flow.key, stream, offset, length, int(end)))


def _read(link: int, rows: list[Range]) -> ReadOutput:
    return ReadOutput(
        link,
        [key for key, _, _, _, _ in rows],
        [stream for _, stream, _, _, _ in rows],
        [offset for _, _, offset, _, _ in rows],
        [length for _, _, _, length, _ in rows],
        [end for _, _, _, _, end in rows],
    )
