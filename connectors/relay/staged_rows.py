"""The rows of a staged file (STAGING.md), and to which of several sinks each goes.

Pure. Files come in pieces; a row may lie in several. What does not read as such a file is a RefusedByVolumeError.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from journal.errors import JournalCode, refused
from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """A row: a plain tuple, since there is one for each."""

    sequence: int
    key: bytes | None
    value: bytes


class StagedRowReader:
    """The rows of one file. Feed its pieces in order, take the rows that are whole, say `end` at its end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._left = b""
        self._columns = -1

    def feed(self, piece: bytes) -> list[StagedRow]:
        """The rows whose last byte is in this piece."""
        data = self._left + piece if self._left else piece
        position = 0
        if self._columns < 0:
            if len(data) < HEAD_BYTES:
                self._left = data
                return []
            self._take_head(data)
            position = HEAD_BYTES
        rows: list[StagedRow] = []
        position = self._take_rows(data, position, rows)
        self._left = data[position:]
        return rows

    def end(self) -> None:
        """The file ends here."""
        if self._left or self._columns < 0:
            raise self._bad("ends in the middle of a row")

    def _take_head(self, data: bytes) -> None:
        version, columns = data[0], data[1]
        if version != VERSION or columns > HAS_KEYS | HAS_SEQUENCES:
            raise self._bad(f"begins with {data[:HEAD_BYTES].hex()}: this relay knows version {VERSION}")
        self._columns = columns

    def _take_rows(self, data: bytes, position: int, rows: list[StagedRow]) -> int:
        """Where the first row begins that is not whole."""
        keys, sequences = self._columns & HAS_KEYS, self._columns & HAS_SEQUENCES
        end = len(data)
        key: bytes | None = None
        sequence = 0
        while True:
            at = position
            if sequences:
                if end - at < _U64.size:
                    return position
                sequence = _U64.unpack_from(data, at)[0]
                at += _U64.size
            if keys:
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
                raise self._bad(f"has a row of {size:,} bytes; 1 to {VALUE_BYTES_MAX:,} are allowed")
            if end - at < size:
                return position
            position = at + size
            rows.append(StagedRow(sequence, key, data[at:position]))

    def _bad(self, reason: str) -> Exception:
        return refused(JournalCode.BAD_REQUEST, f"staged file {self._what} {reason}", path=self._what)


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


def sink_of(row: StagedRow, sinks: int) -> int:
    """Rows of a key go to one sink; those without a key are spread by what is in them."""
    return crc32c(row.value if row.key is None else row.key) % sinks
