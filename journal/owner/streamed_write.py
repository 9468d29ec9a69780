"""A large file on its way into a volume, in pieces; nothing of it is visible before commit.

What fits one record is held back and written as one at commit: most files that are streamed turn out to be small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from journal.errors import JournalCode, refused
from journal.image import preconditions
from journal.records.change import ChunkChange, CommitChange
from journal.records.paths import check_path
from journal.volume import PUT_BYTES_MAX, FileStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from journal.owner.journal import Journal
    from journal.volume import Buffer, OperationId, PathClaim


def open_write(
    journal: Journal,
    path: str,
    *,
    overwrite: bool,
    operation: OperationId | None,
    claim: PathClaim | None,
    modified_ms: int | None,
) -> JournalWrite:
    """Start a large file. BAD_PATH; all else is decided at commit."""
    check_path(path)

    def check(size: int) -> CommitChange:
        preconditions.check_write(journal.pending, path, overwrite=overwrite, claim=claim)
        return CommitChange(upload=upload, path=path, size=size, modified_ms=modified_ms)

    async def put(payload: Buffer) -> FileStatus:
        return await journal.put(
            path, payload, overwrite=overwrite, operation=operation, claim=claim, modified_ms=modified_ms
        )

    upload = journal.new_upload()
    return JournalWrite(journal, upload, operation=operation, check=check, put=put)


class JournalWrite:
    """Implements StreamedWrite of journal/volume.py. Used by one task at a time."""

    def __init__(
        self,
        journal: Journal,
        upload: int,
        *,
        operation: OperationId | None,
        check: Callable[[int], CommitChange],
        put: Callable[[Buffer], Awaitable[FileStatus]],
    ) -> None:
        self._journal = journal
        self._upload = upload
        self._operation = operation
        self._check = check
        self._put = put
        self._held = bytearray()
        self._written = 0
        self._over = False

    async def write(self, data: Buffer) -> None:
        """Add bytes; waits while too much of the volume is not yet acknowledged."""
        if self._over:
            raise refused(JournalCode.BAD_REQUEST, "the file was committed or cancelled already")
        self._held += data
        while len(self._held) > PUT_BYTES_MAX:
            piece = bytes(self._held[:PUT_BYTES_MAX])
            del self._held[:PUT_BYTES_MAX]
            await self._chunk(piece)

    async def commit(self) -> FileStatus:
        """Publish. Preconditions are decided here."""
        if self._over:
            raise refused(JournalCode.BAD_REQUEST, "the file was committed or cancelled already")
        self._over = True
        if not self._written:
            return await self._put(bytes(self._held))
        try:
            if self._held:
                await self._chunk(bytes(self._held))
            status = await self._journal.change(lambda: self._check(self._written), self._operation, answers=FileStatus)
        finally:
            # Refused, cancelled, no room, or answered by an earlier attempt: nobody needs the pieces, and as long as
            # they are there the log cannot be trimmed.
            self._journal.abandon(self._upload)
        return cast("FileStatus", status)

    async def cancel(self) -> None:
        """Forget the file; harmless at any time."""
        if not self._over:
            self._over = True
            self._held.clear()
            self._journal.abandon(self._upload)

    async def _chunk(self, piece: bytes) -> None:
        await self._journal.log.wait_room()
        self._journal.write(ChunkChange(upload=self._upload, offset=self._written), piece)
        self._written += len(piece)
