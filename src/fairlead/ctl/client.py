"""Asks the site over REST, and outlasts an outage.

Everything that may be asked twice is asked again until it is answered or `--connect-timeout` passed without any
contact: looking, ending, and whatever carries an idempotency key.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from .contexts import Site
from .failures import OURS, Failure, read_problem
from .http import Answer, Cut, Line
from .talk import Talk

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
# Shorter waits are not worth a word.
SAY_AFTER = 0.3
# A server that is started again is back in less.
SAY_DOWN_AFTER = 1.0
HEARTBEAT = 30.0
# Longer than the longest wait that is asked of a server.
ANSWER_SECONDS = 45.0
UNQUOTED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
BUSY = frozenset({502, 503, 504})


class Unavailable(Exception):
    """The server answered that it cannot answer now."""

    def __init__(self, problem: Failure) -> None:
        super().__init__(problem.message)
        self.problem = problem


def new_key() -> str:
    """A key under which something is done once, however often it is asked."""
    return os.urandom(16).hex()


def quote(text: str) -> str:
    """As one segment of a path, or one value; `urllib.parse` would cost the start more than all paths are worth."""
    return "".join(
        char if char in UNQUOTED else "".join(f"%{byte:02X}" for byte in char.encode()) for char in text
    )


def path_of(*parts: object, **query: object) -> str:
    """A path from its parts, each kept whole, with what is asked of it."""
    path = "/" + "/".join(quote(str(part)) for part in parts)
    asked = "&".join(
        f"{name}={quote(str(value))}" for name, value in query.items() if value not in (None, "")
    )
    return f"{path}?{asked}" if asked else path


class Client:
    """One site, one connection."""

    def __init__(self, site: Site, patience: float, talk: Talk) -> None:
        self.site, self.patience, self.talk = site, patience, talk
        self._line = Line(site.api, site.ca, ANSWER_SECONDS)

    def get(self, *parts: object, **query: object) -> Any:
        """Look."""
        return self._persist(lambda: self._read("GET", path_of("v1", *parts, **query)))

    def post(self, *parts: object, body: object = None, key: str = "") -> Any:
        """Change something; asked again under the same key when the answer is lost."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": key or new_key()}
        sent = json.dumps(body).encode()
        return self._persist(lambda: self._read("POST", path_of("v1", *parts), headers, sent))

    def send(self, *parts: object, body: bytes, headers: dict[str, str]) -> Any:
        """Change something by sending a file as it is."""
        return self._persist(lambda: self._read("POST", path_of("v1", *parts), headers, body))

    def delete(self, *parts: object) -> Any:
        """Take something away."""
        return self._persist(lambda: self._read("DELETE", path_of("v1", *parts)))

    def stream(self, *parts: object, **query: object) -> Answer:
        """An answer whose body is read as it comes; a cut in it is the reader's to mend."""
        return self._persist(lambda: self._ask("GET", path_of("v1", *parts, **query), {}, b""))

    def hang_up(self) -> None:
        """Drop the connection, and a stream on it."""
        self._line.close()

    def _ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        sent = {"Accept": "application/json", **headers}
        if self.site.token:
            sent["Authorization"] = f"Bearer {self.site.token}"
        answer = self._line.ask(method, path, sent, body)
        if answer.status < 400:
            return answer
        try:
            document = json.loads(answer.body() or b"null")
        except ValueError:
            document = None
        problem = read_problem(answer.status, document)
        # A server that is going down may answer with no more than a number.
        dying = answer.status >= 500 and problem.code == "unreadable_answer"
        if answer.status in BUSY or problem.retryable or dying:
            raise Unavailable(problem)
        raise problem

    def _read(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Any:
        answer = self._ask(method, path, headers or {}, body)
        try:
            return json.loads(answer.body() or b"null")
        except ValueError as fault:
            raise Cut("the answer is not JSON") from fault

    def _persist(self, ask: Callable[[], T]) -> T:
        """Until it is answered; a refusal is an answer."""
        begin = said = time.monotonic()
        pause, tries, told = FIRST_PAUSE, 0, False
        while True:
            try:
                answer = ask()
            except (OSError, Unavailable) as fault:
                self._line.close()
                tries += 1
                now = time.monotonic()
                if now - begin + pause > self.patience:
                    raise self._given_up(fault) from fault
                if self._is_down(fault):
                    # It will not be there by itself: said once, and not again with each try.
                    if not told and now - begin >= SAY_DOWN_AFTER:
                        told = True
                        self.talk.say(
                            f"no server runs (fairlead up); waiting up to {self.patience:g}s for one"
                        )
                elif self._should_say(now - begin, now - said):
                    self.talk.beat(f"contacting {self.site.api}: {_reason(fault)}, try {tries + 1}")
                    said = now
                _rest(fault, pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self.talk.clear()
                return answer

    def _is_down(self, fault: Exception) -> bool:
        return bool(self.site.socket) and isinstance(fault, FileNotFoundError | ConnectionRefusedError)

    def _should_say(self, since: float, last: float) -> bool:
        if self.talk.terminal:
            return since >= SAY_AFTER
        return last >= HEARTBEAT or (since >= SAY_AFTER and last == since)

    def _given_up(self, fault: Exception) -> Failure:
        if isinstance(fault, Unavailable) and fault.problem.code not in ("", "unreadable_answer"):
            problem = fault.problem
            problem.status = OURS
            return problem
        said = f"no answer from {self.site.api} within {self.patience:g}s"
        return Failure("no_answer", said, _reason(fault), fix=_revive(self.site), status=OURS, retryable=True)


def _rest(fault: Exception, pause: float) -> None:
    """Wait before the next try, a little differently in each process."""
    asked = fault.problem.retry_after if isinstance(fault, Unavailable) else None
    dice = int.from_bytes(os.urandom(2)) / 65_536
    time.sleep(min(asked if asked is not None else pause, LONGEST_PAUSE) * (0.75 + dice / 2))


def _reason(fault: Exception) -> str:
    if isinstance(fault, FileNotFoundError):
        return "its socket is not there, so no server runs"
    if isinstance(fault, ConnectionRefusedError):
        return "nobody listens there"
    if isinstance(fault, TimeoutError):
        return "it does not answer"
    return str(fault.strerror if isinstance(fault, OSError) and fault.strerror else fault)


def _revive(site: Site) -> str:
    """What brings the site back, as far as it can be known from here."""
    if site.socket.endswith("/server/api.sock"):
        return f"fairlead up --detach --dir {site.socket.removesuffix('/server/api.sock')}"
    if site.socket:
        return f"fairlead server --dir {os.path.dirname(site.socket)}"
    return "fairlead --connect-timeout 600 status"
