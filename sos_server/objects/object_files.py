"""The objects' own files: where they are, and reads that verify every byte against the CRC of its chunk.

Who decides what is in them is `copying.py`; the layout inside is `object_layout.py`. Files are found by number, so no
name that a client chose is ever part of a path.
"""

from __future__ import annotations

import contextlib
import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from journal.disk.disk import Disk, File, OpenMode
from sos_client.wire.checksum import crc32c, crc32c_combine, crc32c_joiner
from sos_server.storage.object_layout import (
    CHUNK_BYTES,
    CRC_BYTES,
    GROUP_CHUNKS,
    checksum_position,
    data_position,
    group_ranges,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

OBJECTS_DIRECTORY: Final = "objects"
FILES_PER_DIRECTORY: Final = 1 << 12


class VerifiedBytes(NamedTuple):
    """Bytes that match the CRCs they were stored with, and the CRC of just these bytes.

    Where whole chunks were read it is joined from theirs, so whoever gets it compares with what was stored, and
    nothing is read a second time to make it.
    """

    content: bytes | memoryview
    crc: int


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


def fresh_memory(length: int) -> memoryview:
    return memoryview(bytearray(length))


class ObjectFiles:
    """Reads objects' files through a bounded number of open handles, the least recently used closed first."""

    def __init__(self, disk: Disk, open_max: int) -> None:
        self._disk = disk
        self._open_max = open_max
        self._open: OrderedDict[int, File] = OrderedDict()
        self._users: dict[int, int] = {}
        self._gone: set[int] = set()

    async def read(
        self,
        number: int,
        offset: int,
        length: int,
        *,
        copied: int,
        tail_crc: int,
        memory: Callable[[int], memoryview] = fresh_memory,
    ) -> VerifiedBytes:
        """`length` bytes from `offset` on, all of them below `copied`.

        They lie in what `memory` gives for all chunks that they are part of. Raises ChunkDamagedError for bytes that
        are not what was stored, FileNotFoundError when there is no such file.
        """
        first = offset // CHUNK_BYTES * CHUNK_BYTES
        last = min(copied, -(-(offset + length) // CHUNK_BYTES) * CHUNK_BYTES)
        chunks, crc = memory(last - first), 0
        for start, stop in group_ranges(first, last):
            view = chunks[start - first : stop - first]
            checksums = self._read_now(number, start, view)
            if checksums is None:
                async with self._borrow(number) as file:
                    checksums = await _read(file, start, view)
            crc = _verified(start, view, checksums, tail_crc, crc)
        content = chunks[offset - first : offset - first + length]
        return VerifiedBytes(content, crc if length == last - first else crc32c(content))

    async def read_as_it_is(self, number: int, offset: int, length: int) -> bytes:
        """These bytes of a run, which lie in one piece in the file, fewer where it ends. The caller has their CRCs: the
        checksum page may know nothing of them yet. Raises FileNotFoundError when there is no such file."""
        view = memoryview(bytearray(length))
        if (file := self._open.get(number)) is not None and file.read_now(data_position(offset), view):
            return bytes(view)
        async with self._borrow(number) as file:
            return await file.read(data_position(offset), length)

    def forget(self, number: int) -> None:
        """The object is gone: its file is closed when nobody reads it any more."""
        if number in self._users:
            self._gone.add(number)
        elif number in self._open:
            self._open.pop(number).close()

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def _read_now(self, number: int, start: int, view: memoryview) -> bytes | bytearray | None:
        """As `_read`, when the file is open and all of it in memory, which is what most reads find."""
        if (file := self._open.get(number)) is None or not file.read_now(data_position(start), view):
            return None
        checksums = bytearray(len(view) // CHUNK_BYTES * CRC_BYTES)
        if checksums and not file.read_now(checksum_position(start // CHUNK_BYTES), memoryview(checksums)):
            return None
        self._open.move_to_end(number)
        return checksums

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
        for number in list(self._open)[: max(0, len(self._open) - self._open_max)]:
            if number not in self._users:
                self._open.pop(number).close()


async def _read(file: File, start: int, view: memoryview) -> bytes:
    """Fill the view with whole chunks of one group, the last maybe the object's unfinished one; the others' CRCs."""
    full = len(view) // CHUNK_BYTES
    count = await file.read_into(data_position(start), view)
    checksums = await file.read(checksum_position(start // CHUNK_BYTES), full * CRC_BYTES) if full else b""
    if count < len(view) or len(checksums) < full * CRC_BYTES:
        raise ChunkDamagedError(start)
    return checksums


def _verified(start: int, view: memoryview, checksums: bytes | bytearray, tail_crc: int, crc_before: int) -> int:
    """The CRC of what `crc_before` is of with these chunks after it; `tail_crc` is of the unfinished one."""
    crc, full = crc_before, len(view) // CHUNK_BYTES
    join = crc32c_joiner(CHUNK_BYTES)
    for chunk, stored in enumerate(struct.unpack(f">{full}I", checksums)):
        if crc32c(view[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES]) != stored:
            raise ChunkDamagedError(start + chunk * CHUNK_BYTES)
        crc = join(crc, stored)
    tail = view[full * CHUNK_BYTES :]
    if tail:
        if crc32c(tail) != tail_crc:
            raise ChunkDamagedError(start + full * CHUNK_BYTES)
        crc = crc32c_combine(crc, tail_crc, len(tail))
    return crc


assert GROUP_CHUNKS * CRC_BYTES <= CHUNK_BYTES, "the checksums of a group are one small read"
