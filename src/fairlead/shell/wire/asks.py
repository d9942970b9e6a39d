"""What a front and control say to each other, as bytes: records in MessagePack, several to a message."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from google.protobuf.message import DecodeError

from fairlead.model.errors import Problem
from fairlead.model.requests import Answer, Ask, Told
from fairlead.shell.wire.pb import front_pb2

_encode = msgspec.msgpack.Encoder().encode
_asks = msgspec.msgpack.Decoder(Ask)
_answers = msgspec.msgpack.Decoder(Answer)
_told = msgspec.msgpack.Decoder(Told)


def encode_ask(ask: Ask) -> bytes:
    """An ask as a message; several, joined, are one message."""
    return _blob(front_pb2.Item(ask=_encode(ask)))


def encode_answer(answer: Answer) -> bytes:
    """An answer as a message."""
    return _blob(front_pb2.Item(answer=_encode(answer)))


def encode_told(told: Told) -> bytes:
    """A segment as a message."""
    return _blob(front_pb2.Item(told=_encode(told)))


def _blob(item: front_pb2.Item) -> bytes:
    return front_pb2.Blob(items=[item]).SerializeToString()


def decode_asks(data: bytes) -> list[Ask] | Problem:
    """The asks of a message, or why there are none."""
    try:
        return [_asks.decode(item.ask) for item in front_pb2.Blob.FromString(data).items]
    except (DecodeError, msgspec.DecodeError) as error:
        return _refusal(error)


def decode_down(data: bytes) -> list[Answer | tuple[Told, int]] | Problem:
    """Answers and segments (each with its size in bytes) in order, or why there are none."""
    try:
        return list(_items(data))
    except (DecodeError, msgspec.DecodeError) as error:
        return _refusal(error)


def _items(data: bytes) -> Iterator[Answer | tuple[Told, int]]:
    for item in front_pb2.Blob.FromString(data).items:
        if item.WhichOneof("item") == "told":
            yield _told.decode(item.told), len(item.told)
        else:
            yield _answers.decode(item.answer)


def _refusal(error: Exception) -> Problem:
    return Problem("malformed_frame", "the bytes are no message of a front's link", why=str(error))
