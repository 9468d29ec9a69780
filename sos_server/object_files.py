"""The objects' own files: where they are, and reads that verify every byte against the CRC of its chunk.

Who decides what is in them is `copying.py`; the layout inside is `object_layout.py`. Files are found by number, so no
name that a client chose is ever part of a path.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from journal.disk import Disk, File, OpenMode
from sos_client.wire.checksum import crc32c
from sos_server.object_layout import (
    CHUNK_BYTES,
    CRC_BYTES,
    GROUP_CHUNKS,
    checksum_position,
    data_position,
    group_ranges,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OBJECTS_DIRECTORY: Final = "objects"
FILES_PER_DIRECTORY: Final = 1 << 12


class ChunkDamagedError(Exception):
    """The chunk at `offset` is not what was stored."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the chunk at offset {offset} does not match its CRC")
        self.offset = offset


def directory_of(number: int) -> str:
    """Where the object's file is, or will be."""
    return f"{OBJECTS_DIRECTORY}/{number // FILES_PER_DIRECTORY:x}"


def path_of(number: int) -> str:
    return f"{directory_of(number)}/{number:x}"


class ObjectFiles:
    """Reads objects' files through a bounded number of open handles, the least recently used closed first."""

    def __init__(self, disk: Disk, open_max: int) -> None:
        self._disk = disk
        self._open_max = open_max
        self._open: OrderedDict[int, File] = OrderedDict()
        self._users: dict[int, int] = {}
        self._gone: set[int] = set()

    async def read(self, number: int, offset: int, length: int, *, copied: int, tail_crc: int) -> bytes:
        """`length` bytes from `offset` on, all of them below `copied`.

        Raises ChunkDamagedError for bytes that are not what was stored, FileNotFoundError when there is no such file.
        """
        first = offset // CHUNK_BYTES * CHUNK_BYTES
        last = min(copied, -(-(offset + length) // CHUNK_BYTES) * CHUNK_BYTES)
        async with self._borrow(number) as file:
            pieces = [await _read_verified(file, start, stop, tail_crc) for start, stop in group_ranges(first, last)]
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return data[offset - first : offset - first + length]

    def forget(self, number: int) -> None:
        """The object is gone: its file is closed when nobody reads it any more."""
        if number in self._users:
            self._gone.add(number)
        elif number in self._open:
            self._open.pop(number).close()

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    @contextlib.asynccontextmanager
    async def _borrow(self, number: int) -> AsyncIterator[File]:
        if (file := self._open.get(number)) is None:
            file = await self._disk.open(path_of(number), OpenMode.READ)
            if (other := self._open.get(number)) is not None:
                file.close()
                file = other
            self._open[number] = file
        self._open.move_to_end(number)
        self._users[number] = self._users.get(number, 0) + 1
        try:
            yield file
        finally:
            self._users[number] -= 1
            if not self._users[number]:
                del self._users[number]
                if number in self._gone:
                    self._gone.remove(number)
                    self._open.pop(number).close()
            self._close_surplus()

    def _close_surplus(self) -> None:
        for number in list(self._open)[: len(self._open) - self._open_max]:
            if number not in self._users:
                self._open.pop(number).close()


async def _read_verified(file: File, start: int, stop: int, tail_crc: int) -> bytes:
    """Whole chunks of one group; the last may be the object's unfinished one, which `tail_crc` is of."""
    data = await file.read(data_position(start), stop - start)
    full = (stop - start) // CHUNK_BYTES
    checksums = await file.read(checksum_position(start // CHUNK_BYTES), full * CRC_BYTES) if full else b""
    if len(data) < stop - start or len(checksums) < full * CRC_BYTES:
        raise ChunkDamagedError(start)
    view = memoryview(data)
    for chunk in range(full):
        stored = int.from_bytes(checksums[chunk * CRC_BYTES : (chunk + 1) * CRC_BYTES], "big")
        if crc32c(view[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES]) != stored:
            raise ChunkDamagedError(start + chunk * CHUNK_BYTES)
    if full * CHUNK_BYTES < len(view) and crc32c(view[full * CHUNK_BYTES :]) != tail_crc:
        raise ChunkDamagedError(start + full * CHUNK_BYTES)
    return data


assert GROUP_CHUNKS * CRC_BYTES <= CHUNK_BYTES, "the checksums of a group are one small read"
