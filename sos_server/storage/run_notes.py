"""Notes: what the log has of a run, whose bytes were synced in their object's own file before. Pure.

A run is whole blocks of one object. Its note says how long it is, and the CRC32C of each part of it: the part ends
where a chunk of the object does, or the run. `STORAGE.md` has the grammar.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING, Final

from sos_client.wire.checksum import crc32c, crc32c_combine, crc32c_joiner
from sos_server.storage.log_format import BLOCK_BYTES
from sos_server.storage.object_layout import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

_LENGTH: Final = struct.Struct(">I")
_CRC_BYTES: Final = 4


@dataclasses.dataclass(frozen=True, slots=True)
class RunNote:
    """A run that begins at `offset` of its object and has `length` bytes; one CRC for each of its parts."""

    offset: int
    length: int
    crcs: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.offset + self.length

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Offset, length and CRC of each part."""
        for (start, stop), crc in zip(_bounds(self.offset, self.end), self.crcs, strict=True):
            yield start, stop - start, crc

    def crc_after(self, crc: int) -> int:
        """The CRC of what `crc` is of, and the run after it."""
        for _, length, part_crc in self.parts():
            crc = joined_crc(crc, part_crc, length)
        return crc

    def encode(self) -> bytes:
        return _LENGTH.pack(self.length) + struct.pack(f">{len(self.crcs)}I", *self.crcs)


def note_of(offset: int, content: memoryview) -> RunNote:
    """The note of a run with this content."""
    parts = (content[start - offset : stop - offset] for start, stop in _bounds(offset, offset + len(content)))
    return RunNote(offset, len(content), tuple(crc32c(part) for part in parts))


def decode_note(offset: int, payload: bytes | memoryview) -> RunNote | None:
    """The note of an entry with this offset; None when it makes no sense."""
    if len(payload) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(payload)
    count = -(-(offset % CHUNK_BYTES + length) // CHUNK_BYTES)
    if not length or offset % BLOCK_BYTES or length % BLOCK_BYTES:
        return None
    if len(payload) != _LENGTH.size + count * _CRC_BYTES:
        return None
    return RunNote(offset, length, struct.unpack_from(f">{count}I", payload, _LENGTH.size))


def joined_crc(first: int, second: int, second_bytes: int) -> int:
    """As `crc32c_combine`, and quick for a whole chunk."""
    if second_bytes == CHUNK_BYTES:
        return crc32c_joiner(CHUNK_BYTES)(first, second)
    return crc32c_combine(first, second, second_bytes)


def _bounds(start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = min(end, (start // CHUNK_BYTES + 1) * CHUNK_BYTES)
        yield start, stop
        start = stop
