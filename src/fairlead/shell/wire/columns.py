"""Turns frames of records into protobuf bytes and back, and refuses bytes that are no frame.

One conversion, built once from the records' own definitions: a field goes to the protobuf field of its name.
A record without its message, or a field without its counterpart, fails at import. Columns are copied whole,
never value by value.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from google.protobuf.message import DecodeError
from msgspec import Struct

from fairlead.model.errors import Problem
from fairlead.model.keys import Keys
from fairlead.model.orders import Frame, Hello, Order, Specs, Word
from fairlead.shell.wire.pb import agent_pb2

# Repeated fields that belong together row by row, in records without keys.
TOGETHER: dict[type, tuple[str, ...]] = {
    Specs: ("hashes", "bodies"),
    Hello: ("names", "totals"),
}

Fill = Callable[[Any, Any], None]
Take = Callable[[Any], Any]


class _Malformed(ValueError):
    """Bytes that parse, and are no record all the same; it never leaves this module."""


class Conversion:
    """How the records of one type are written to their message, and read from it."""

    __slots__ = ("_checks", "_fills", "_record", "_takes")

    def __init__(self, record: type[Struct], descriptor: Any) -> None:
        hints = get_type_hints(record)
        missing = set(record.__struct_fields__) ^ set(descriptor.fields_by_name)
        if missing:
            raise TypeError(f"{record.__name__} and its message differ in {sorted(missing)}")
        self._record = record
        self._fills: list[Fill] = []
        self._takes: list[Take] = []
        for name in record.__struct_fields__:
            fill, take = _field(name, hints[name], descriptor.fields_by_name[name])
            self._fills.append(fill)
            self._takes.append(take)
        self._checks = _checks(record, hints)

    def fill(self, message: Any, record: Any) -> None:
        """Write a record into an empty message."""
        for fill in self._fills:
            fill(message, record)

    def take(self, message: Any) -> Any:
        """The record in a message; _Malformed when there is none."""
        record = self._record(*[take(message) for take in self._takes])
        for check in self._checks:
            check(record)
        return record


def _field(name: str, kind: Any, descriptor: Any) -> tuple[Fill, Take]:
    if get_origin(kind) is list:
        return _column(name)
    if get_origin(kind) is UnionType:
        inner = next(each for each in get_args(kind) if each is not NoneType)
        return _optional(name, Conversion(inner, descriptor.message_type))
    if issubclass(kind, Struct):
        return _nested(name, Conversion(kind, descriptor.message_type))
    return _scalar(name, kind)


def _column(name: str) -> tuple[Fill, Take]:
    def fill(message: Any, record: Any) -> None:
        getattr(message, name).extend(getattr(record, name))

    def take(message: Any) -> Any:
        return getattr(message, name)[:]

    return fill, take


def _scalar(name: str, kind: type) -> tuple[Fill, Take]:
    def fill(message: Any, record: Any) -> None:
        setattr(message, name, getattr(record, name))

    def take(message: Any) -> Any:
        return getattr(message, name)

    def take_word(message: Any) -> Any:
        try:
            return kind(getattr(message, name))
        except ValueError as error:
            raise _Malformed(f"{name}: {error}") from None

    return fill, take_word if issubclass(kind, IntEnum) else take


def _nested(name: str, conversion: Conversion) -> tuple[Fill, Take]:
    def fill(message: Any, record: Any) -> None:
        inner = getattr(message, name)
        # A message whose fields are all empty is otherwise not written at all.
        inner.SetInParent()
        conversion.fill(inner, getattr(record, name))

    def take(message: Any) -> Any:
        if not message.HasField(name):
            raise _Malformed(f"{name} is missing")
        return conversion.take(getattr(message, name))

    return fill, take


def _optional(name: str, conversion: Conversion) -> tuple[Fill, Take]:
    fill_present, take_present = _nested(name, conversion)

    def fill(message: Any, record: Any) -> None:
        if getattr(record, name) is not None:
            fill_present(message, record)

    def take(message: Any) -> Any:
        return take_present(message) if message.HasField(name) else None

    return fill, take


def _checks(record: type[Struct], hints: dict[str, Any]) -> list[Callable[[Any], None]]:
    if record is Keys:
        return [_check_keys]
    together = TOGETHER.get(record, ())
    if hints.get("keys") is Keys:
        together = ("keys", *(name for name, kind in hints.items() if get_origin(kind) is list))
    if len(together) < 2:
        return []

    def check(value: Any) -> None:
        if len({len(getattr(value, name)) for name in together}) > 1:
            raise _Malformed(f"columns of unequal length in {record.__name__}")

    return [check]


def _check_keys(keys: Keys) -> None:
    if not len(keys.job) == len(keys.first) == len(keys.count) == len(keys.attempt):
        raise _Malformed("columns of unequal length in Keys")
    if not keys.job:
        return
    if min(keys.count) < 1 or any(min(column) < 0 for column in (keys.job, keys.first, keys.attempt)):
        raise _Malformed("a span of nothing, or a negative number in Keys")


def _snake(name: str) -> str:
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name).lstrip("_")


class Way:
    """One direction of a session: which records may travel, and in which message."""

    def __init__(self, envelope: type[Any], body: Any, choice: str) -> None:
        self._envelope = envelope
        self._choice = choice
        frame = envelope.DESCRIPTOR.fields_by_name["frames"].message_type
        fields = dict(frame.fields_by_name["body"].message_type.fields_by_name)
        self._by_type: dict[type, tuple[str, Fill]] = {}
        self._by_name: dict[str, Take] = {}
        for record in get_args(body):
            name = _snake(record.__name__)
            conversion = Conversion(record, fields.pop(name).message_type)
            self._by_type[record] = (name, conversion.fill)
            self._by_name[name] = conversion.take
        if fields:
            raise TypeError(f"no records for {sorted(fields)}")

    def encode(self, frame: Frame) -> bytes:
        """A frame as bytes. Several, joined, are a message that holds them all in order."""
        envelope = self._envelope()
        message = envelope.frames.add()
        message.number = frame.number
        message.seen = frame.seen
        for record in frame.body:
            name, fill = self._by_type[type(record)]
            inner = getattr(message.body.add(), name)
            inner.SetInParent()
            fill(inner, record)
        encoded: bytes = envelope.SerializeToString()
        return encoded

    def decode(self, data: bytes) -> list[Frame] | Problem:
        """The frames of a message, or why there are none."""
        try:
            return [
                Frame(message.number, message.seen, [self._record(item) for item in message.body])
                for message in self._envelope.FromString(data).frames
            ]
        except (DecodeError, _Malformed) as error:
            return Problem("malformed_frame", "the bytes are no frame of this protocol", why=str(error))

    def _record(self, item: Any) -> Any:
        name = item.WhichOneof(self._choice)
        if name is None:
            # Dropped in silence it would count as received.
            raise _Malformed(f"an unknown {self._choice}")
        return self._by_name[name](getattr(item, name))


UP = Way(agent_pb2.Up, Word, "word")
DOWN = Way(agent_pb2.Down, Order, "order")
