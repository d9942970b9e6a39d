from __future__ import annotations

import time
from enum import IntEnum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from fairlead.model.errors import Problem
from fairlead.model.keys import Keys
from fairlead.model.orders import Beat, Ended, Frame, Hello, Order, Specs, Start, Stop, Word
from fairlead.model.storage import Fence
from fairlead.shell.wire.columns import DOWN, TOGETHER, UP, Conversion, Way
from fairlead.shell.wire.pb import agent_pb2

NUMBER = st.integers(-(2**63), 2**63 - 1)
NATURAL = st.integers(0, 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: NUMBER,
    bool: st.booleans(),
    str: TEXT,
    bytes: st.binary(max_size=50),
}


def strategy(kind: Any, rows: int | None = None) -> st.SearchStrategy[Any]:
    if kind is Keys:
        assert rows is not None
        naturals = st.lists(NATURAL, min_size=rows, max_size=rows)
        counts = st.lists(st.integers(1, 2**63 - 1), min_size=rows, max_size=rows)
        return st.builds(Keys, naturals, naturals, counts, naturals)
    if get_origin(kind) is list:
        (inner,) = get_args(kind)
        return st.lists(SCALARS[inner], min_size=rows or 0, max_size=5 if rows is None else rows)
    if get_origin(kind) is UnionType:
        (inner,) = (each for each in get_args(kind) if each is not NoneType)
        return st.none() | strategy(inner, rows)
    if issubclass(kind, IntEnum):
        return st.sampled_from(kind)
    if issubclass(kind, Struct):
        return records(kind)
    return SCALARS[kind]


def records(kind: type[Struct]) -> st.SearchStrategy[Any]:
    """Any record of a type; columns that belong together have the same length."""
    hints = get_type_hints(kind)
    has_keys = "keys" in hints or "withheld" in hints

    def build(rows: int) -> st.SearchStrategy[Any]:
        return st.builds(
            kind,
            **{
                name: strategy(hint, rows if has_keys or name in TOGETHER.get(kind, ()) else None)
                for name, hint in hints.items()
            },
        )

    return st.integers(0, 5).flatmap(build)


def frames(body: Any) -> st.SearchStrategy[Frame]:
    each = st.one_of([records(kind) for kind in get_args(body)])
    return st.builds(Frame, NUMBER, NUMBER, st.lists(each, max_size=4))


@pytest.mark.parametrize(
    ("way", "kind"),
    [(UP, kind) for kind in get_args(Word)] + [(DOWN, kind) for kind in get_args(Order)],
    ids=lambda value: getattr(value, "__name__", ""),
)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_order_and_word_comes_out_as_it_went_in(way: Way, kind: type[Struct], data: Any) -> None:
    frame = Frame(7, 3, [data.draw(records(kind))])
    decoded = way.decode(way.encode(frame))
    assert decoded == [frame]
    assert isinstance(decoded, list)
    assert type(decoded[0].body[0]) is kind


@settings(max_examples=60, deadline=None)
@given(st.lists(frames(Word), max_size=4))
def test_encoded_frames_joined_are_one_message_with_all_of_them(several: list[Frame]) -> None:
    assert UP.decode(b"".join(UP.encode(frame) for frame in several)) == several


@settings(max_examples=60, deadline=None)
@given(st.lists(frames(Order), max_size=4))
def test_orders_joined_keep_their_order(several: list[Frame]) -> None:
    assert DOWN.decode(b"".join(DOWN.encode(frame) for frame in several)) == several


def test_a_record_with_a_field_that_its_message_lacks_is_found_out() -> None:
    class Reported(Struct):
        count: int
        brand_new: int = 0

    with pytest.raises(TypeError, match="brand_new"):
        Conversion(Reported, agent_pb2.Reported.DESCRIPTOR)


def test_a_message_with_a_field_that_its_record_lacks_is_found_out() -> None:
    class Leaving(Struct):
        keep: bool

    with pytest.raises(TypeError, match="back_within_ms"):
        Conversion(Leaving, agent_pb2.Leaving.DESCRIPTOR)


def test_a_message_without_a_record_is_found_out() -> None:
    with pytest.raises(TypeError, match="moved"):
        Way(agent_pb2.Down, Start | Stop, "order")


def test_columns_are_packed_and_fields_have_the_kind_of_their_records() -> None:
    kinds = {
        int: {"TYPE_INT64", "TYPE_SINT64"},
        str: {"TYPE_STRING"},
        bytes: {"TYPE_BYTES"},
        bool: {"TYPE_BOOL"},
    }
    types = {
        getattr(agent_pb2.Fence.DESCRIPTOR.fields[0], name): name
        for name in dir(agent_pb2.Fence.DESCRIPTOR.fields[0])
        if name.startswith("TYPE_")
    }
    for record in (*get_args(Word), *get_args(Order), Keys, Fence):
        descriptor = getattr(agent_pb2, record.__name__).DESCRIPTOR
        for name, hint in get_type_hints(record).items():
            field = descriptor.fields_by_name[name]
            repeated = get_origin(hint) is list
            assert field.is_repeated is repeated, (record, name)
            inner = get_args(hint)[0] if repeated else hint
            if inner in kinds:
                assert types[field.type] in kinds[inner], (record, name)
            if repeated and inner is int:
                assert field.is_packed, (record, name)


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_a_refusal(data: bytes) -> None:
    for way in (UP, DOWN):
        decoded = way.decode(data)
        assert isinstance(decoded, list) or decoded.code == "malformed_frame"


@settings(deadline=None)
@given(frames(Word), st.data())
def test_a_frame_with_a_byte_changed_is_frames_or_a_refusal(frame: Frame, data: Any) -> None:
    encoded = bytearray(UP.encode(frame))
    if encoded:
        encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    decoded = UP.decode(bytes(encoded))
    assert isinstance(decoded, list) or decoded.code == "malformed_frame"


KEYS = Keys([1, 2], [0, 0], [1, 1], [1, 1])


@pytest.mark.parametrize(
    ("way", "record"),
    [
        (DOWN, Start(KEYS, ["a"], [0, 0])),
        (DOWN, Start(KEYS, ["a", "b"], [0])),
        (DOWN, Specs(["a"], [])),
        (DOWN, Start(replace(KEYS, count=[1, 0]), ["a", "b"], [0, 0])),
        (DOWN, Start(replace(KEYS, first=[-1, 0]), ["a", "b"], [0, 0])),
        (DOWN, Beat(replace(KEYS, job=[1]))),
        (DOWN, Stop(KEYS, 9, 1)),  # type: ignore[arg-type]
        (UP, Hello("b", "m", None, ["cpu"], [], [], [])),
    ],
)
def test_columns_that_contradict_each_other_are_refused(way: Way, record: Any) -> None:
    decoded = way.decode(way.encode(Frame(1, 0, [record])))
    assert isinstance(decoded, Problem)
    assert decoded.code == "malformed_frame"
    assert decoded.why


def test_a_record_of_a_later_release_is_refused_and_not_dropped() -> None:
    message = agent_pb2.Up(frames=[agent_pb2.UpFrame(number=1, body=[agent_pb2.Word()])])
    decoded = UP.decode(message.SerializeToString())
    assert isinstance(decoded, Problem)
    assert "unknown word" in decoded.why


def test_a_record_without_its_keys_is_refused() -> None:
    message = agent_pb2.Down(
        frames=[agent_pb2.DownFrame(number=1, body=[agent_pb2.Order(ack=agent_pb2.Ack(what=1))])]
    )
    decoded = DOWN.decode(message.SerializeToString())
    assert isinstance(decoded, Problem)
    assert "keys is missing" in decoded.why


def ended(rows: int) -> Frame:
    """The widest of the hot records, with a row of its own for each instance."""
    ones, times = [1] * rows, [1_790_000_000_000 + row for row in range(rows)]
    keys = Keys([77_000] * rows, list(range(rows)), ones, ones)
    return Frame(5, 5, [Ended(keys, ones, ones, ones, ones, times, times, ones)])


def test_a_row_of_the_widest_record_is_converted_in_well_under_ten_microseconds() -> None:
    """Whole columns take about half of one; an object a row takes more than ten, on any machine."""
    frame = ended(10_000)
    best = float("inf")
    for _ in range(5):
        before = time.thread_time()
        UP.decode(UP.encode(frame))
        best = min(best, time.thread_time() - before)
    assert best / 10_000 < 5e-6
