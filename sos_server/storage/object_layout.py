"""Where an object's bytes and the CRCs of its chunks lie in its file, and how logged bytes are laid out for it.

Pure. A file is groups of one checksum page and 1,024 chunks: page 0 has the CRC32C of each *full* chunk of its group,
so a read of any range is verified with one small read more, and no memory grows with the object. The CRC of the last
chunk as far as it is filled is in the catalog, so bytes that were synced are never needed to add to them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from sos_client.wire.checksum import crc32c, crc32c_combine, crc32c_joiner
from sos_server.storage.log_format import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sos_server.storage.run_notes import RunNote

CHUNK_BYTES: Final = 64 << 10
"""The unit of verification: the least that a read has to take from the disk."""
CRC_BYTES: Final = 4
GROUP_CHUNKS: Final = BLOCK_BYTES // CRC_BYTES
GROUP_BYTES: Final = GROUP_CHUNKS * CHUNK_BYTES


def data_position(offset: int) -> int:
    """Where the byte `offset` of the object lies in its file."""
    return offset + BLOCK_BYTES * (offset // GROUP_BYTES + 1)


def checksum_position(chunk: int) -> int:
    """Where the CRC of a full chunk lies in the file."""
    return chunk // GROUP_CHUNKS * (GROUP_BYTES + BLOCK_BYTES) + chunk % GROUP_CHUNKS * CRC_BYTES


def group_ranges(start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a range of the object that lie in one piece in its file."""
    while start < end:
        stop = min(end, (start // GROUP_BYTES + 1) * GROUP_BYTES)
        yield start, stop
        start = stop


@dataclasses.dataclass(slots=True)
class Run:
    """Buffers that lie one after the other in the file."""

    position: int
    end: int
    buffers: list[bytes | memoryview]


class ObjectCopy:
    """Takes an object's logged bytes in order and lays them out for its file.

    `size`, `crc` and `tail_crc` begin as what the file holds synced, and become what it will hold when `extents` are.
    """

    def __init__(self, size: int, crc: int, tail_crc: int) -> None:
        self.size = size
        self.tail_crc = tail_crc
        self.damaged = False
        self.run_bytes = 0
        """What lies in the file already."""
        self._runs: list[Run] = []
        self._checksums: list[Run] = []
        self._run = Run(0, 0, [])
        self._room = 0
        """What is left of the chunk that is being filled, in that run."""
        self._known = (size, crc ^ tail_crc)
        """Up to where `crc` is known, and what it is without the bytes of the chunk that is being filled: what
        `tail_crc` has come to by then makes it whole."""

    @property
    def crc(self) -> int:
        """Of all bytes up to `size`."""
        known, crc = self._known
        return crc32c_combine(crc, self.tail_crc, self.size - known)

    def add(self, payload: memoryview, crc: int) -> None:
        """Bytes that begin at `size`, and the CRC they came with.

        When they do not match it, the chunk's CRC is made one that its bytes do not have: the loss stays visible.
        """
        length = len(payload)
        if crc32c(payload) != crc:
            self._add_damaged(payload, crc)
        elif length < self._room:
            # Most appends are small: this is once for each of them.
            self._run.buffers.append(payload)
            self._run.end += length
            self._room -= length
            self.tail_crc = crc32c(payload, self.tail_crc)
            self.size += length
        else:
            self._add_parts(payload)

    def pass_run(self, note: RunNote) -> None:
        """A run that begins at `size`: its bytes lie where they belong already. Only the CRCs of its chunks do not."""
        for _, length, crc in note.parts():
            self.tail_crc = crc32c_combine(self.tail_crc, crc, length) if self.size % CHUNK_BYTES else crc
            self.size += length
            self.run_bytes += length
            self._room = 0
            if not self.size % CHUNK_BYTES:
                self._end_chunk()

    def extents(self) -> list[tuple[int, list[bytes | memoryview]]]:
        """What to write where."""
        return [(run.position, run.buffers) for run in (*self._runs, *self._checksums)]

    def _add_parts(self, payload: memoryview, *, poison: int = 0) -> None:
        while payload:
            room = CHUNK_BYTES - self.size % CHUNK_BYTES
            part, payload = payload[:room], payload[room:]
            self._run = _append(self._runs, data_position(self.size), part)
            self.tail_crc = crc32c(part, self.tail_crc) ^ poison
            self.size += len(part)
            self._room = room - len(part)
            if not self._room:
                self._end_chunk()

    def _end_chunk(self) -> None:
        chunk = self.size // CHUNK_BYTES - 1
        _append(self._checksums, checksum_position(chunk), self.tail_crc.to_bytes(CRC_BYTES, "big"))
        known, crc = self._known
        if self.size - known == CHUNK_BYTES:
            self._known = (self.size, crc32c_joiner(CHUNK_BYTES)(crc, self.tail_crc))
        else:
            self._known = (self.size, self.crc)
        self.tail_crc = 0

    def _add_damaged(self, payload: memoryview, crc: int) -> None:
        after = crc32c_combine(self.crc, crc, len(payload))
        self.damaged = True
        self._add_parts(payload, poison=0xFFFFFFFF)
        self._known = (self.size, after ^ self.tail_crc)


def _append(runs: list[Run], position: int, buffer: bytes | memoryview) -> Run:
    """The run that it is part of now."""
    if not runs or runs[-1].end != position:
        runs.append(Run(position, position, []))
    run = runs[-1]
    run.buffers.append(buffer)
    run.end += len(buffer)
    return run
