"""The rows of a staged file (STAGING.md), and to which of several sinks each goes.

Pure. Files come in pieces; a row may lie in several. What does not read as such a file is a RefusedByVolumeError. Rows
of one size, the most usual, are cut many by one call, others one by one.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, compress
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from connectors.wire.alike import ALIKE_BYTES_MAX, TOGETHER, TRY_AGAIN, count_alike
from journal.errors import JournalCode, refused
from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

VERSION: Final = 1
HAS_KEYS: Final = 1
HAS_SEQUENCES: Final = 2
HEAD_BYTES: Final = 2
NO_KEY: Final = 0xFFFFFFFF
KEY_BYTES_MAX: Final = 65_535
VALUE_BYTES_MAX: Final = 4_190_000
"""With the longest key and the rest of its MESSAGE it still is a frame."""

_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")


class StagedRow(NamedTuple):
    """A row."""

    sequence: int
    key: bytes | None
    value: bytes


class StagedRun(NamedTuple):
    """Rows that follow each other, as columns: there is no object of Python's for each."""

    values: list[bytes]
    keys: list[bytes | None] | None
    """None: no row has one."""
    sequences: list[int] | None
    """None: they have none."""

    def cut(self, start: int, stop: int) -> StagedRun:
        """The rows from `start` to `stop`."""
        return StagedRun(
            self.values[start:stop],
            None if self.keys is None else self.keys[start:stop],
            None if self.sequences is None else self.sequences[start:stop],
        )

    def of_sink(self, sink: int, sinks: int) -> StagedRun:
        """Those that go to one of several sinks: rows of a key to the same, those without by what is in them."""
        if sinks == 1:
            return self
        deciding: Iterable[bytes] = self.values
        if self.keys is not None:
            deciding = [value if key is None else key for key, value in zip(self.keys, self.values, strict=True)]
        own = [crc32c(each) % sinks == sink for each in deciding]
        return StagedRun(
            list(compress(self.values, own)),
            None if self.keys is None else list(compress(self.keys, own)),
            None if self.sequences is None else list(compress(self.sequences, own)),
        )


def merged(runs: Sequence[StagedRun]) -> StagedRun:
    """All their rows in the order of their sequences; rows of one sequence in the order of the runs."""
    some = [run for run in runs if run.values]
    if len(some) == 1:
        return some[0]
    sequences = list(chain.from_iterable(run.sequences or () for run in some))
    values = list(chain.from_iterable(run.values for run in some))
    order = sorted(range(len(sequences)), key=sequences.__getitem__)
    keys: list[bytes | None] | None = None
    if any(run.keys is not None for run in some):
        keys = list(chain.from_iterable(run.keys or [None] * len(run.values) for run in some))
        keys = [keys[place] for place in order]
    return StagedRun([values[place] for place in order], keys, [sequences[place] for place in order])


class StagedRowReader:
    """The rows of one file. Feed its pieces in order, take the rows that are whole, say `end` at its end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._left = b""
        self._columns = -1

    def feed(self, piece: bytes) -> StagedRun:
        """The rows whose last byte is in this piece."""
        data = self._left + piece if self._left else piece
        position = 0
        if self._columns < 0:
            if len(data) < HEAD_BYTES:
                self._left = data
                return StagedRun([], None, None)
            self._take_head(data)
            position = HEAD_BYTES
        has_keys, has_sequences = self._columns & HAS_KEYS, self._columns & HAS_SEQUENCES
        run = StagedRun([], [] if has_keys else None, [] if has_sequences else None)
        take = self._take_rows if has_keys or has_sequences else self._take_values
        position = take(data, position, run)
        self._left = data[position:]
        return run

    def end(self) -> None:
        """The file ends here."""
        if self._left or self._columns < 0:
            raise self._bad("ends in the middle of a row")

    def _take_head(self, data: bytes) -> None:
        version, columns = data[0], data[1]
        if version != VERSION or columns > HAS_KEYS | HAS_SEQUENCES:
            raise self._bad(f"begins with {data[:HEAD_BYTES].hex()}: this relay knows version {VERSION}")
        self._columns = columns

    def _take_values(self, data: bytes, position: int, run: StagedRun) -> int:
        """Values and nothing else. Those of one size, one after the other, are cut together."""
        size_at, end, values = _U32.unpack_from, len(data), run.values
        size_before, try_at = -1, 0
        while end - position >= _U32.size:
            size = size_at(data, position)[0]
            if size == size_before and len(values) >= try_at:
                alike = _alike(data, position, size)
                if alike:
                    values += alike
                    position += len(alike) * (_U32.size + size)
                    continue
                try_at = len(values) + TRY_AGAIN
            at = position + _U32.size
            if not 0 < size <= VALUE_BYTES_MAX:
                raise self._bad_size(size)
            if end - at < size:
                break
            size_before = size
            position = at + size
            values.append(data[at:position])
        return position

    def _take_rows(self, data: bytes, position: int, run: StagedRun) -> int:
        """Where the first row begins that is not whole."""
        values, keys, sequences = run
        end = len(data)
        key: bytes | None = None
        sequence = 0
        while True:
            at = position
            if sequences is not None:
                if end - at < _U64.size:
                    return position
                sequence = _U64.unpack_from(data, at)[0]
                at += _U64.size
            if keys is not None:
                if end - at < _U32.size:
                    return position
                size = _U32.unpack_from(data, at)[0]
                at += _U32.size
                if size == NO_KEY:
                    key = None
                else:
                    if size > KEY_BYTES_MAX:
                        raise self._bad(f"has a key of {size:,} bytes; {KEY_BYTES_MAX:,} are allowed")
                    key = data[at : at + size]
                    at += size
            if end - at < _U32.size:
                return position
            size = _U32.unpack_from(data, at)[0]
            at += _U32.size
            if not 0 < size <= VALUE_BYTES_MAX:
                raise self._bad_size(size)
            if end - at < size:
                return position
            position = at + size
            values.append(data[at:position])
            if keys is not None:
                keys.append(key)
            if sequences is not None:
                sequences.append(sequence)

    def _bad_size(self, size: int) -> Exception:
        return self._bad(f"has a row of {size:,} bytes; 1 to {VALUE_BYTES_MAX:,} are allowed")

    def _bad(self, reason: str) -> Exception:
        return refused(JournalCode.BAD_REQUEST, f"staged file {self._what} {reason}", path=self._what)


def _alike(data: bytes, position: int, size: int) -> list[bytes]:
    """The values of rows of this size, if all that lie there, or half of them, or a quarter, are such."""
    if size > ALIKE_BYTES_MAX:
        return []
    before = _U32.pack(size)
    count = count_alike(data, position, len(data), _U32.size + size, before)
    lying = data[position : position + count * (_U32.size + size)]
    fields = list(chain.from_iterable(_rows(size).iter_unpack(lying)))
    return fields[1::2] if fields[0::2].count(before) == count else []


@lru_cache(maxsize=64)
def _rows(size: int) -> Struct:
    return Struct(f"{_U32.size}s{size}s" * TOGETHER)


def encode_rows(rows: Iterable[StagedRow], *, keys: bool = False, sequences: bool = False) -> bytes:
    """A staged file: what a task writes."""
    parts = [bytes((VERSION, HAS_KEYS * keys | HAS_SEQUENCES * sequences))]
    for row in rows:
        assert 0 < len(row.value) <= VALUE_BYTES_MAX, "there are no empty rows"
        if sequences:
            parts.append(_U64.pack(row.sequence))
        if keys:
            parts.append(_U32.pack(NO_KEY) if row.key is None else _U32.pack(len(row.key)) + row.key)
        parts += (_U32.pack(len(row.value)), row.value)
    return b"".join(parts)
