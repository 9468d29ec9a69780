"""Catalog files as bytes: checkpoint records, one after the other, each a whole number of blocks.

Pure. A record is `header | rows | zeros up to a whole block`; the first of a file is a snapshot of everything, those
after it are what changed. A record counts whole or not at all; the last one may be torn, because the log that it
would have made superfluous is still there. Grammar and example: `STORAGE.md`.
"""

from __future__ import annotations

import dataclasses
from struct import Struct
from typing import TYPE_CHECKING, Final

from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import DamagedError
from sos_server.storage.log_format import BLOCK_BYTES
from sos_server.storage.rows import Row, decode_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CATALOG_VERSION: Final = 1
_HEADER: Final = Struct(">4sHHQQQQQII")
_HEADER_START: Final = Struct(">4sH")
_MAGIC: Final = b"SOSC"
_ROW_BYTES: Final = Struct(">H")
HEADER_BYTES: Final = _HEADER.size


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CatalogCheckpoint:
    """What a record says besides its rows.

    `sequence` counts records over all files; log generations below `replay_from` are not needed any more, and
    `open_generation` (0 for none) was being written: it must be there. `next_number` was not given to anything yet.
    """

    sequence: int
    replay_from: int
    open_generation: int
    next_number: int


def encode_rows(rows: Iterable[bytes]) -> bytearray:
    """Encoded rows, each after its length."""
    content = bytearray()
    for row in rows:
        content += _ROW_BYTES.pack(len(row))
        content += row
    return content


def encode_record(checkpoint: CatalogCheckpoint, rows: bytes | bytearray) -> bytes:
    """A whole record; `rows` comes from `encode_rows`."""
    content = _HEADER.pack(
        _MAGIC,
        CATALOG_VERSION,
        0,
        checkpoint.sequence,
        checkpoint.replay_from,
        checkpoint.open_generation,
        checkpoint.next_number,
        len(rows),
        0,
        0,
    )[:-4]
    record = content + crc32c(rows, crc32c(content)).to_bytes(4, "big") + rows
    return record.ljust(-(-len(record) // BLOCK_BYTES) * BLOCK_BYTES, b"\0")


def record_bytes(header: bytes) -> int | None:
    """How long the record is that begins with this header, or None when that is not a header."""
    if len(header) < HEADER_BYTES:
        return None
    magic, _, _, _, _, _, _, rows_bytes, _, _ = _HEADER.unpack_from(header)
    if magic != _MAGIC:
        return None
    return -(-(HEADER_BYTES + int(rows_bytes)) // BLOCK_BYTES) * BLOCK_BYTES


def decode_record(record: bytes) -> tuple[CatalogCheckpoint, list[Row]] | None:
    """The record at the beginning of these bytes, or None when it is not whole.

    DamagedError: whole, but nonsense, or of a version that is not known, whose checksum could be anywhere.
    """
    if len(record) < HEADER_BYTES or record_bytes(record) is None:
        return None
    _, _, _, sequence, replay_from, open_generation, next_number, rows_bytes, _, crc = _HEADER.unpack_from(record)
    rows = memoryview(record)[HEADER_BYTES : HEADER_BYTES + rows_bytes]
    known = _HEADER_START.pack(_MAGIC, CATALOG_VERSION) + record[_HEADER_START.size : HEADER_BYTES - 4]
    if len(rows) != rows_bytes or crc != crc32c(rows, crc32c(known)):
        _, version = _HEADER_START.unpack_from(record)
        if version != CATALOG_VERSION:
            raise DamagedError(f"the catalog has version {version}, this server knows version {CATALOG_VERSION} only")
        return None
    if not record.startswith(_HEADER_START.pack(_MAGIC, CATALOG_VERSION)):
        return None  # nothing but the version rotted
    checkpoint = CatalogCheckpoint(
        sequence=sequence, replay_from=replay_from, open_generation=open_generation, next_number=next_number
    )
    return checkpoint, [decode_row(row) for row in _split(rows)]


def _split(rows: memoryview) -> Iterator[memoryview]:
    position = 0
    while position < len(rows):
        if position + _ROW_BYTES.size > len(rows):
            raise DamagedError("a catalog row is cut short")
        (length,) = _ROW_BYTES.unpack_from(rows, position)
        position += _ROW_BYTES.size + length
        if position > len(rows):
            raise DamagedError("a catalog row is cut short")
        yield rows[position - length : position]
