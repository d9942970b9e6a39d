"""A site that plays a conversation: a real HTTP server on a socket, whose answers are written down beforehand."""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from fairlead.shell.front.server import short_path


class Heard:
    """One request as it came."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.path, self.headers, self.body = method, path, headers, body

    def json(self) -> Any:
        return json.loads(self.body)


class Reply:
    """One answer. `cut` breaks the connection after the body; `hold` keeps it open until the site is released."""

    def __init__(
        self,
        body: object = None,
        status: int = 200,
        *,
        raw: list[bytes] | None = None,
        cut: bool = False,
        hold: bool = False,
    ) -> None:
        self.status, self.raw, self.cut, self.hold = status, raw, cut, hold
        self.body = json.dumps(body).encode()


def problem(status: int, code: str, message: str, **more: Any) -> Reply:
    """A refusal as the site writes it."""
    return Reply({"status": status, "code": code, "message": message, "retryable": False, **more}, status)


class PlayedSite:
    """Answers each path from its own list; the last answer of a list is given again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, list[Reply]] = {}
        self.heard: list[Heard] = []
        self.arrived = threading.Condition()
        self.released = threading.Event()
        self._server: socketserver.BaseServer | None = None

    @property
    def api(self) -> str:
        return f"unix://{self.path}"

    def on(self, request: str, *replies: Reply) -> None:
        """`GET /v1/jobs/x` is answered by these, in order."""
        self.answers[request] = list(replies)

    def of(self, request: str) -> list[Heard]:
        """What came for a path, without its query."""
        return [each for each in self.heard if f"{each.method} {each.path.split('?')[0]}" == request]

    def wait_for(self, request: str, count: int = 1) -> None:
        """Until so many came."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.of(request)) >= count, 20), self.heard

    def open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with short_path(str(self.path)) as short:
            self._server = _Server(short, _handler(self))
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def close(self) -> None:
        if self._server is not None:
            self.released.set()
            self._server.shutdown()
            self._server.server_close()
            self.path.unlink()
            self._server = None

    def take(self, heard: Heard) -> Reply:
        with self.arrived:
            self.heard.append(heard)
            self.arrived.notify_all()
            request = f"{heard.method} {heard.path}"
            replies = self.answers.get(request) or self.answers.get(request.split("?")[0])
            if not replies:
                return problem(404, "no_such_route", f"nothing was written down for {request}")
            return replies.pop(0) if len(replies) > 1 else replies[0]


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves before the last byte is part of the play."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _handler(site: PlayedSite) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None: ...

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = site.take(Heard(self.command, self.path, headers, body))
            self.send_response(reply.status)
            if reply.raw is None:
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in reply.raw:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            if reply.hold:
                site.released.wait(20)
            if reply.cut or reply.hold:
                self.close_connection = True
            else:
                self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST = do_DELETE = _any

    return Handler


@contextmanager
def opened(site: PlayedSite) -> Iterator[PlayedSite]:
    site.open()
    try:
        yield site
    finally:
        site.close()


def frame(kind: int, payload: bytes) -> bytes:
    """One frame of a followed stream."""
    return bytes((kind,)) + len(payload).to_bytes(4, "big") + payload


def event(word: str, **more: Any) -> bytes:
    """One event of a followed stream."""
    return frame(0, json.dumps({"event": word, **more}).encode())
