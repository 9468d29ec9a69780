"""The catalog on disk: a file of checkpoint records, added to until a fresh snapshot in a new file is shorter.

Start-up reads it instead of the objects, so it is quick whatever their size; a checkpoint costs what changed, not what
there is. Log files may be written over only after a checkpoint has made them superfluous. Bytes: `catalog_format.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from journal.disk.disk import Disk, File, OpenMode
from sos_client.wire.errors import DamagedError
from sos_server.storage.catalog_format import (
    HEADER_BYTES,
    CatalogCheckpoint,
    decode_record,
    encode_record,
    encode_rows,
    record_bytes,
)
from sos_server.storage.rows import encode_row

if TYPE_CHECKING:
    from sos_server.storage.contents import Contents

CATALOG_DIRECTORY: Final = "catalog"
CHANGES_BYTES_MIN: Final = 1 << 20
"""Changes may take this much, or as much as the snapshot before them, until a new file is begun."""
ROWS_PER_SLICE: Final = 500
"""Rows encoded between two turns of other tasks: about a millisecond."""


def is_catalog_file(name: str) -> bool:
    """Whether a file of this name in the catalog's directory is the server's. It leaves all others alone."""
    return len(name) == len(_file_name(0)) and set(name) <= set("0123456789abcdef")


class Catalog:
    """The newest catalog file, and what its last record says."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._file: File | None = None
        self._end = 0
        self._snapshot_bytes = 0
        self._found: str | None = None
        self._found_bytes = 0
        self.checkpoint = CatalogCheckpoint(sequence=0, replay_from=1, open_generation=0, next_number=1)

    async def load(self, contents: Contents) -> None:
        """Apply the newest file that begins with a whole record. DamagedError when there are files but none does.

        Nothing is ever added to a file that was found: what the page cache shows of it may not be on the disk.
        """
        names = list(filter(is_catalog_file, await self._disk.list_directory(CATALOG_DIRECTORY)))
        for name in reversed(names):
            file = await self._disk.open(f"{CATALOG_DIRECTORY}/{name}", OpenMode.READ)
            try:
                self._found_bytes = await self._load_file(file, contents)
            finally:
                file.close()
            if self._found_bytes:
                self._found = name
                contents.next_number = max(contents.next_number, self.checkpoint.next_number)
                contents.changed.clear()
                return
        if names and names != [_file_name(1)]:
            raise DamagedError(f"no catalog file in {CATALOG_DIRECTORY}/ begins with a whole record")

    async def settle(self) -> None:
        """Write what `load` found again, and sync it, before anything rests on it: a sync may have failed before the
        start, and a later one that succeeds would not make up for that. Raises OSError."""
        if self._found is None:
            return
        file = await self._disk.open(f"{CATALOG_DIRECTORY}/{self._found}", OpenMode.WRITE)
        try:
            await file.write_and_sync(0, [await file.read(0, self._found_bytes)])
        finally:
            file.close()
        await self._disk.sync_directory(CATALOG_DIRECTORY)

    async def write(self, contents: Contents, *, replay_from: int, open_generation: int) -> None:
        """Make everything durable that is not in the log from generation `replay_from` on. Raises OSError.

        After an error the old records still count, and the next checkpoint goes to a new file.
        """
        changed, contents.changed = contents.changed, set()
        fresh = self._file is None or self._end - self._snapshot_bytes > max(self._snapshot_bytes, CHANGES_BYTES_MIN)
        checkpoint = CatalogCheckpoint(
            sequence=self.checkpoint.sequence + 1,
            replay_from=replay_from,
            open_generation=open_generation,
            next_number=contents.next_number,
        )
        try:
            rows = await _encode(contents, contents.numbers() if fresh else sorted(changed))
            record = encode_record(checkpoint, rows)
            if fresh:
                await self._begin_file(checkpoint, record)
            else:
                assert self._file is not None
                await self._file.write_and_sync(self._end, [record])
                self._end += len(record)
        except BaseException as error:
            contents.changed |= changed
            if isinstance(error, OSError):
                self._abandon_file()
            raise
        self.checkpoint = checkpoint

    def close(self) -> None:
        self._abandon_file()

    async def _load_file(self, file: File, contents: Contents) -> int:
        """Apply its records; how many bytes they are. A last one that is not whole never counted."""
        position, file_bytes = 0, await file.size()
        while (length := record_bytes(await file.read(position, HEADER_BYTES))) is not None:
            # No more than there is: a bit more in its length may be exabytes.
            decoded = decode_record(await file.read(position, min(length, file_bytes - position)))
            if decoded is None or (position and decoded[0].sequence != self.checkpoint.sequence + 1):
                break
            self.checkpoint, rows = decoded
            for row in rows:
                contents.restore(row)
            position += length
            await trio.lowlevel.checkpoint()
        return position

    async def _begin_file(self, checkpoint: CatalogCheckpoint, record: bytes) -> None:
        """Write a new file; when it is durable the old one goes."""
        name = _file_name(checkpoint.sequence)
        path = f"{CATALOG_DIRECTORY}/{name}"
        if await self._disk.exists(path):
            # Left by an attempt that failed: what is in it was never acknowledged by anything.
            await self._disk.unlink(path)
        file = await self._disk.open(path, OpenMode.CREATE)
        try:
            await file.write_and_sync(0, [record])
            await self._disk.sync_directory(CATALOG_DIRECTORY)
        except OSError:
            file.close()
            raise
        self._abandon_file()
        self._file = file
        self._end = self._snapshot_bytes = len(record)
        for other in filter(is_catalog_file, await self._disk.list_directory(CATALOG_DIRECTORY)):
            if other != name:
                await self._disk.unlink(f"{CATALOG_DIRECTORY}/{other}")

    def _abandon_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _file_name(sequence: int) -> str:
    return f"{sequence:016x}"


async def _encode(contents: Contents, numbers: list[int]) -> bytearray:
    """Rows of everything with these numbers, other tasks having their turn in between.

    What changes meanwhile may or may not be in: it is in the log as well, and applying it twice changes nothing.
    """
    encoded = bytearray()
    for start in range(0, len(numbers), ROWS_PER_SLICE):
        part = numbers[start : start + ROWS_PER_SLICE]
        encoded += encode_rows(encode_row(row) for number in part for row in contents.rows(number))
        await trio.lowlevel.checkpoint()
    return encoded
