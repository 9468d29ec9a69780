"""Reads of synced bytes, from an object's own file or, not copied yet, from the log. Every byte is verified.

While a read waits for the disk, copying goes on: what was in the log a moment ago may be in the object's file only.
Such a read looks again; it never takes a log file that is being written over for damage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sos_client.wire.checksum import crc32c, crc32c_combine
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_server.objects.object_files import ChunkDamagedError, ObjectFiles, VerifiedBytes, fresh_memory
from sos_server.storage.contents import IN_FILE
from sos_server.storage.object_layout import data_position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sos_server.storage.contents import LoggedPiece, StoredObject
    from sos_server.store.log_files import LogFiles
    from sos_server.store.statistics import StoreStatistics


class StoredReader:
    """Reads any object of a store."""

    def __init__(
        self,
        object_files: ObjectFiles,
        log_files: LogFiles,
        statistics: StoreStatistics,
        report: Callable[[str], None],
    ) -> None:
        self._object_files = object_files
        self._log_files = log_files
        self._statistics = statistics
        self._report = report
        self._reported: set[int] = set()

    async def read(
        self, stored: StoredObject, offset: int, length: int, memory: Callable[[int], memoryview] = fresh_memory
    ) -> VerifiedBytes:
        """Exactly these bytes, all of them synced, maybe in `memory`. RefusedError: DAMAGED, NOT_FOUND (deleted)."""
        pieces: list[bytes | memoryview] = []
        crc = 0
        end = offset + length
        while offset < end:
            if offset < stored.copied:
                room = fresh_memory if pieces else memory
                piece, piece_crc = await self._from_file(stored, offset, min(end, stored.copied), room)
            else:
                piece, piece_crc = await self._from_log(stored, offset, end)
            crc = crc32c_combine(crc, piece_crc, len(piece)) if pieces else piece_crc
            pieces.append(piece)
            offset += len(piece)
        return VerifiedBytes(pieces[0] if len(pieces) == 1 else b"".join(pieces), crc)

    async def _from_file(
        self, stored: StoredObject, offset: int, end: int, memory: Callable[[int], memoryview]
    ) -> VerifiedBytes:
        try:
            return await self._object_files.read(
                stored.number, offset, end - offset, copied=stored.copied, tail_crc=stored.tail_crc, memory=memory
            )
        except ChunkDamagedError as error:
            raise self._damaged(stored, max(offset, error.offset)) from error
        except OSError as error:
            raise self._unreadable(stored, offset, error) from error

    def _unreadable(self, stored: StoredObject, offset: int, error: OSError) -> RefusedError:
        """What a reader is told of its failure to read an object's own file."""
        if not isinstance(error, FileNotFoundError):
            return RefusedError(ErrorCode.IO_ERROR, reason=error.strerror or str(error))
        if stored.namespace.objects.get(stored.name) is not stored:
            return RefusedError(ErrorCode.NOT_FOUND, what="object", name=stored.name)
        return self._damaged(stored, offset)

    async def _from_log(self, stored: StoredObject, offset: int, end: int) -> VerifiedBytes:
        """At least one byte from `offset` on; none when it has been copied meanwhile."""
        parts: list[bytes] = []
        position = offset
        for run in _runs(list(stored.logged.pieces(offset, end)) if stored.logged is not None else []):
            if (content := await self._read_pieces(stored, offset, run)) is None:
                break
            view, start = memoryview(content), 0
            for piece in run:
                if crc32c(view[start : start + piece.length]) != piece.crc:
                    raise self._damaged(stored, max(offset, piece.offset))
                start += piece.length
            first = run[0].offset
            parts.append(content[position - first : end - first])
            position = first + start
        if not parts and stored.namespace.objects.get(stored.name) is not stored:
            raise RefusedError(ErrorCode.NOT_FOUND, what="object", name=stored.name)
        if not parts and stored.copied <= offset:
            raise self._damaged(stored, offset)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        return VerifiedBytes(content, crc32c(content))

    async def _read_pieces(self, stored: StoredObject, offset: int, pieces: list[LoggedPiece]) -> bytes | None:
        """What lies there; None when it was in a log file that is gone. A run stays where it is, copied or not."""
        first, length = pieces[0], sum(piece.length for piece in pieces)
        if first.position == IN_FILE:
            try:
                return await self._object_files.read_as_it_is(stored.number, first.offset, length)
            except OSError as error:
                raise self._unreadable(stored, max(offset, first.offset), error) from error
        try:
            return await self._log_files.read(first.generation, first.position, length)
        except OSError as error:
            raise RefusedError(ErrorCode.IO_ERROR, reason=error.strerror or str(error)) from error

    def _damaged(self, stored: StoredObject, offset: int) -> RefusedError:
        self._statistics.damaged_reads += 1
        if stored.number not in self._reported:
            self._reported.add(stored.number)
            self._report(f"object {stored.namespace.name}/{stored.name} is damaged at offset {offset}")
        return RefusedError(ErrorCode.DAMAGED, offset=offset)


def _runs(pieces: list[LoggedPiece]) -> Iterator[list[LoggedPiece]]:
    """Pieces that lie one after the other in the object and in one file, so that they are one read."""
    run: list[LoggedPiece] = []
    for piece in pieces:
        if run and not _follows(piece, run[-1]):
            yield run
            run = []
        run.append(piece)
    if run:
        yield run


def _follows(piece: LoggedPiece, before: LoggedPiece) -> bool:
    if piece.offset != before.offset + before.length:
        return False
    if piece.position == IN_FILE or before.position == IN_FILE:
        in_file = piece.position == before.position
        return in_file and data_position(piece.offset) == data_position(before.offset) + before.length
    return piece.position == before.position + before.length and piece.generation == before.generation
