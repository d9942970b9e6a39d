"""Follows one instance to its end: its output here, byte for byte, over every cut of the connection.

What was written is counted by attempt, stream and offset, so that a stream that was cut goes on where it was.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from .client import FIRST_PAUSE, HEARTBEAT, LONGEST_PAUSE, SAY_AFTER, Client
from .failures import DID_NOT_SUCCEED, INTERRUPTED, OURS, TIMED_OUT, Failure, ReaderGone
from .http import Cut

EVENT, OUT, ERR, IDLE = 0, 1, 2, -1
STREAMS = {"out": OUT, "err": ERR}
# A front says something every 15 s; this much silence is a connection that broke without a word.
SILENCE = 50.0
LOOK_UP = 0.3


class Interrupted(Exception):
    """Ctrl-C or a TERM; the stream was left between two reads and can go on."""


class Signals:
    """Turns INT and TERM into `Interrupted`, only while the following waits for bytes."""

    def __init__(self) -> None:
        self.count, self.waiting = 0, False

    def __enter__(self) -> Signals:
        self._before = {
            number: signal.signal(number, self._heard) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.waiting:
            self.waiting = False
            raise Interrupted

    def guarded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Pieces of a stream; only the wait for the next one can be interrupted."""
        heard = self.count
        while True:
            if self.count != heard:
                raise Interrupted
            self.waiting = True
            piece = next(pieces, None)
            self.waiting = False
            if piece is None:
                return
            yield piece


class Follower:
    """One instance, from the first byte to its end."""

    def __init__(
        self, client: Client, job: str, index: int, write: Callable[[int, bytes], None], shown: str = ""
    ) -> None:
        self.client, self.job, self.index = client, job, index
        self.name = shown or f"{job}/{index}"
        self.item: dict[str, Any] = {}
        self._write = write
        self._attempt, self._offset = 0, {OUT: 0, ERR: 0}
        self._begun = self._said = time.monotonic()

    def to_end(self, signals: Signals) -> dict[str, Any]:
        """Until it ended, and all of its output is here; raises `Interrupted` between two pieces."""
        pause, heard = FIRST_PAUSE, time.monotonic()
        while True:
            try:
                for piece in self._pieces(signals):
                    if piece:
                        pause, heard = FIRST_PAUSE, time.monotonic()
                    if self._is_end(piece):
                        return self.item
                    self._while_waiting()
                    if time.monotonic() - heard > SILENCE:
                        raise Cut("the stream fell silent")
            except OSError as fault:
                why = str(fault)
            else:
                why = "the stream ended early"
            self.client.hang_up()
            if time.monotonic() - heard > self.client.patience:
                said = f"the output of {self.name} cannot be followed any more"
                fix = f"fairlead attach {self.name}"
                raise Failure("cut", said, why, fix=fix, status=OURS, retryable=True)
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _pieces(self, signals: Signals) -> Iterator[tuple[int, bytes] | None]:
        asked: dict[str, object] = {"out": self._offset[OUT], "err": self._offset[ERR]}
        if self._attempt:
            asked["attempt"] = self._attempt
        signals.waiting = True
        answer = self.client.stream("jobs", self.job, "instances", self.index, "attach", **asked)
        signals.waiting = False
        yield from frames(signals.guarded(answer.chunks(LOOK_UP)))

    def _is_end(self, piece: tuple[int, bytes] | None) -> bool:
        if piece is None:
            return False
        kind, payload = piece
        if kind != EVENT:
            self.client.talk.clear()
            self._write(kind, payload)
            self._offset[kind] += len(payload)
            return False
        told = json.loads(payload)
        word = told.pop("event", "")
        if word in ("state", "end"):
            self.item = told
            self._attempt = self._attempt or int(told.get("attempt") or 0)
        elif word == "attempt":
            self._attempt, self._offset = int(told["attempt"]), {OUT: 0, ERR: 0}
        elif word == "gap":
            missing = int(told["until"]) - int(told["offset"])
            self._offset[STREAMS[told["stream"]]] = int(told["until"])
            self.client.talk.error(f"{missing} bytes of std{told['stream']} are lost")
        return bool(word == "end")

    def _while_waiting(self) -> None:
        """A word on what it waits for, as long as nothing runs."""
        state = self.item.get("state", "")
        if state in ("", "running", "ending") or self.item.get("ended"):
            return
        now, talk = time.monotonic(), self.client.talk
        if now - self._said >= (SAY_AFTER if talk.terminal else HEARTBEAT):
            sentence = self.item.get("sentence") or ""
            talk.beat(f"{state}  {self.name}" + (f": {sentence}" if sentence else ""))
            self._said = now


def frames(pieces: Iterator[bytes]) -> Iterator[tuple[int, bytes] | None]:
    """Whole frames; None for a moment in which nothing came."""
    buffer = bytearray()
    for piece in pieces:
        if not piece:
            yield None
            continue
        buffer += piece
        at = 0
        while len(buffer) - at >= 5:
            size = int.from_bytes(buffer[at + 1 : at + 5], "big")
            if len(buffer) - at - 5 < size:
                break
            yield buffer[at], bytes(buffer[at + 5 : at + 5 + size])
            at += 5 + size
        del buffer[:at]


def write_out(kind: int, payload: bytes) -> None:
    """To our own stdout or stderr, whole and at once."""
    descriptor = (sys.stdout if kind == OUT else sys.stderr).fileno()
    rest = memoryview(payload)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except BrokenPipeError as fault:
        raise ReaderGone from fault


def exit_code(item: dict[str, Any]) -> int:
    """The code of the command that ran, or what stands for it."""
    reason, state = item.get("reason") or "", item.get("state")
    if state == "succeeded":
        return 0
    if reason == "not_found":
        return 127
    if reason == "not_executable":
        return 126
    if state == "timed_out":
        return TIMED_OUT
    if state == "cancelled":
        return INTERRUPTED
    if state == "failed" and item.get("signal"):
        return 128 + int(item["signal"])
    if state == "failed" and item.get("exit_code"):
        return int(item["exit_code"])
    return OURS if state in ("refused", "lost", "failed") else DID_NOT_SUCCEED
