"""One HTTP/1.1 connection over a UNIX socket, TCP or TLS, as small as the command line needs it.

`http.client` would load `ssl` and the mail parser for every `fairlead run` on the local socket, which costs more
than all the rest of the start; even `socket` is loaded only for sites elsewhere, the local one needs its core.
What is read here comes from our own front: lengths and chunks, no compression, no trailers. Whatever breaks a
connection is an `OSError`.
"""

from __future__ import annotations

import _socket
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

HEAD_LIMIT = 64 << 10
READ_SIZE = 256 << 10
CONNECT_SECONDS = 5.0


class Cut(OSError):
    """The connection ended in the middle of an answer."""


class Answer:
    """Status and headers are here; the body comes as it arrives."""

    def __init__(self, status: int, headers: dict[str, str], line: Line) -> None:
        self.status, self.headers, self._line = status, headers, line

    def chunks(self, idle: float | None = None) -> Iterator[bytes]:
        """The body, piece by piece; an empty piece each `idle` seconds in which nothing came."""
        self._line.patience(idle)
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._line.read_chunked()
        elif "content-length" in self.headers:
            yield from self._line.read_exactly(int(self.headers["content-length"]))
        else:
            yield from self._line.read_to_end()

    def body(self) -> bytes:
        """The whole of it."""
        return b"".join(self.chunks(self._line.timeout))


class Line:
    """A connection that is opened when it is needed, and again after it was cut."""

    def __init__(self, api: str, ca: str = "", timeout: float = 60.0) -> None:
        self.api, self.ca, self.timeout = api, ca, timeout
        self._socket: _socket.socket | None = None
        self._buffer = bytearray()

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Answer:
        """Send a request, and read the head of its answer."""
        head = [f"{method} {path} HTTP/1.1", f"Host: {self._host()}", f"Content-Length: {len(body)}"]
        head += [f"{name}: {value}" for name, value in headers.items()]
        message = "\r\n".join([*head, "", ""]).encode("latin-1") + body
        if self._socket is not None:
            try:
                return self._exchange(message)
            except (Cut, ConnectionError):
                # A connection that had rested was closed meanwhile; asked once more on a fresh one.
                self.close()
        self._open()
        try:
            return self._exchange(message)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Drop the connection and what is left on it."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._buffer.clear()

    def patience(self, seconds: float | None) -> None:
        """How long a read waits."""
        if self._socket is not None:
            self._socket.settimeout(seconds)

    def read_exactly(self, count: int) -> Iterator[bytes]:
        """So many bytes, as they come."""
        while count:
            if self._buffer:
                piece = bytes(self._buffer[:count])
                del self._buffer[:count]
                count -= len(piece)
                yield piece
            elif not (yield from self._more()):
                self.close()
                raise Cut("the connection was cut")

    def read_chunked(self) -> Iterator[bytes]:
        """Until the empty chunk."""
        while True:
            size = int((yield from self._text_line()).split(b";")[0], 16)
            if size == 0:
                yield from self._text_line()
                return
            yield from self.read_exactly(size)
            yield from self._text_line()

    def read_to_end(self) -> Iterator[bytes]:
        """Until the other side closes."""
        while True:
            if self._buffer:
                yield bytes(self._buffer)
                self._buffer.clear()
            if not (yield from self._more()):
                self.close()
                return

    def _more(self) -> Any:
        """Read on; yields an empty piece while nothing comes, returns whether there was more."""
        while True:
            try:
                return self._receive()
            except TimeoutError:
                yield b""

    def _receive(self) -> bool:
        if self._socket is None:
            return False
        got = self._socket.recv(READ_SIZE)
        self._buffer += got
        return bool(got)

    def _text_line(self) -> Any:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if not (yield from self._more()):
                self.close()
                raise Cut("the connection was cut")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _exchange(self, message: bytes) -> Answer:
        assert self._socket is not None
        self._buffer.clear()
        self._socket.settimeout(self.timeout)
        self._socket.sendall(message)
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > HEAD_LIMIT or not self._receive():
                raise Cut("the connection was cut before the answer")
        first, *rest = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        status = first.split(" ", 2)[1:2]
        if not first.startswith("HTTP/1.") or not status or not status[0].isdigit():
            raise Cut(f"{self.api} does not speak HTTP")
        pairs = (line.partition(":") for line in rest)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        return Answer(int(status[0]), headers, self)

    def _host(self) -> str:
        return "localhost" if self.api.startswith("unix:") else self.api.split("://", 1)[1].split("/")[0]

    def _open(self) -> None:
        self._buffer.clear()
        if self.api.startswith("unix://"):
            self._socket = _connect_unix(self.api.removeprefix("unix://"), self.timeout)
            return
        self._socket = _connect_far(self._host(), self.api.startswith("https:"), self.ca)


def _connect_unix(path: str, timeout: float) -> _socket.socket:
    """The socket of a path of any length: a long one is named through its folder's descriptor."""
    folder, name = os.path.split(path)
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    line.settimeout(timeout)
    try:
        if len(os.fsencode(path)) <= 100:
            line.connect(path)
            return line
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            line.connect(f"/proc/self/fd/{descriptor}/{name}")
        finally:
            os.close(descriptor)
    except BaseException:
        line.close()
        raise
    return line


def _connect_far(place: str, secure: bool, ca: str) -> _socket.socket:
    import socket

    host, _, port = place.rpartition(":")
    if not port.isdigit():
        host, port = place, "443" if secure else "80"
    line = socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A peer that vanished without a word is noticed within half a minute.
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return _secured(line, host.strip("[]"), ca) if secure else line


def _secured(plain: socket.socket, host: str, ca: str) -> socket.socket:
    import ssl

    if ca.startswith("-----BEGIN"):
        context = ssl.create_default_context(cadata=ca)
    else:
        context = ssl.create_default_context(cafile=ca or None)
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise
