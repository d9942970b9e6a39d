"""Output that is stated complete is stored: each byte that was written, in its place, and the end.

What was written is computed anew from the attempt's key; what is stored is read out of the blobs themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead.model import changes
from fairlead.model.blocks import Sealed, parse, payload_of, rows_of
from fairlead.model.coverage import Assembly
from fairlead.model.lifecycles import Output
from fairlead.sim.checkers.sights import Broken, Durable, Finished, Stored

Stream = tuple[int, int, int, int, int]


class WholeOutput:
    """`written(key, stream, length)` gives the bytes an attempt wrote."""

    def __init__(self, written: Callable[[str, int, int], bytes]) -> None:
        self.written = written
        self.stored: dict[Stream, Assembly] = {}
        self.lengths: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        self.terms: dict[tuple[int, int, int], int] = {}
        self.sees = {Stored: self.store, Finished: self.finished, Durable: self.durable}

    def store(self, sight: Stored) -> None:
        """Take a blob apart."""
        at = 0
        while at < len(sight.body):
            block = parse(sight.body, None, at)
            if not isinstance(block, Sealed):
                raise Broken("I7 output", f"a block that cannot be read: {block.flaw.value}")
            payload = payload_of(block)
            assert isinstance(payload, bytes)
            for row in rows_of(block.columns, payload):
                self.stored.setdefault(row.key, Assembly()).add(row.offset, row.data, row.end)
            at += block.size

    def finished(self, sight: Finished) -> None:
        """What was written."""
        lengths = (sight.term, sight.out_length, sight.err_length)
        self.lengths[sight.job, sight.index, sight.attempt] = lengths

    def durable(self, sight: Durable) -> None:
        """The moment it is stated, it must be true; and an end without output says so."""
        for change in sight.part.changes:
            if isinstance(change, changes.OutputDone):
                for row, (job, first, count, attempt) in enumerate(change.keys.spans()):
                    if change.output[row] == Output.complete:
                        said = (change.out_length[row], change.err_length[row])
                        for index in range(first, first + count):
                            self._check((job, index, attempt), said)

    def _check(self, key: tuple[int, int, int], said: tuple[int, int]) -> None:
        name = ".".join(map(str, key))
        if key not in self.lengths:
            raise Broken("I7 output", f"output of {name} is complete, and it never ended")
        term, *lengths = self.lengths[key]
        if tuple(lengths) != said:
            raise Broken("I7 output", f"{name} wrote {lengths}, {said} is stated")
        for stream, length in enumerate(lengths):
            if not length:
                continue
            held = self.stored.get((*key, term, stream), Assembly())
            parts = held.read(0, length + 1)
            expected = self.written(f"{name}.{term}", stream, length)
            if parts != [expected] and b"".join(p for p in parts if isinstance(p, bytes)) != expected:
                raise Broken("I7 output", f"stream {stream} of {name} differs from what was written")
            if held.coverage.total != length:
                raise Broken("I7 output", f"stream {stream} of {name} has no end")
