from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.coverage import Assembly, Coverage, Gap

TEXT = bytes(range(100))
ranges = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 40)), max_size=12)


@given(ranges, st.integers(0, 99), st.integers(0, 60))
def test_coverage_knows_what_a_set_of_offsets_knows(
    pieces: list[tuple[int, int]], start: int, length: int
) -> None:
    coverage = Coverage()
    held: set[int] = set()
    for offset, size in pieces:
        new = set(range(offset, offset + size)) - held
        fresh = coverage.add(offset, size)
        assert {at for low, high in fresh for at in range(low, high)} == new
        held |= new
    assert coverage.held == len(held)
    assert coverage.contiguous == next(at for at in range(200) if at not in held)
    gaps = {at for gap in coverage.gaps(start, start + length) for at in range(gap.start, gap.stop)}
    assert gaps == set(range(start, start + length)) - held


@given(ranges, st.integers(0, 110), st.integers(0, 110), st.booleans())
def test_an_assembly_gives_each_byte_or_names_it_missing(
    pieces: list[tuple[int, int]], start: int, length: int, ended: bool
) -> None:
    assembly = Assembly()
    held: set[int] = set()
    for offset, size in pieces:
        assembly.add(offset, TEXT[offset : offset + size])
        held |= set(range(offset, min(offset + size, 100)))
    if ended:
        assembly.add(100, b"", end=True)
    at = start
    for part in assembly.read(start, length):
        if isinstance(part, Gap):
            assert part.start == at
            assert not held & set(range(part.start, part.stop))
            at = part.stop
        else:
            assert part == TEXT[at : at + len(part)]
            assert part
            at += len(part)
    last = 100 if ended else max(held, default=-1) + 1
    assert at == max(start, min(start + length, last)) or (
        not ended and not held & set(range(at, start + length))
    )


def test_a_stream_is_whole_when_its_end_is_known_and_no_byte_before_it_is_missing() -> None:
    assembly = Assembly()
    assembly.add(3, b"def", end=True)
    before = assembly.coverage.whole
    assert assembly.coverage.gaps() == [Gap(0, 3)]
    assert assembly.read(0, 10) == [Gap(0, 3), b"def"]
    assembly.add(0, b"abcd")
    assert (before, assembly.coverage.whole) == (False, True)
    assert assembly.coverage.contiguous == 6
    assert assembly.read(1, 4) == [b"bc", b"de"]


def test_an_empty_stream_is_whole_at_its_end() -> None:
    coverage = Coverage()
    before = coverage.whole
    coverage.ends_at(0)
    assert (before, coverage.whole) == (False, True)
