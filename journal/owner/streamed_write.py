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

    async def commit(size: int) -> FileStatus:
        return cast("FileStatus", await journal.change(lambda: check(size), operation, answers=FileStatus))

    async def chunk(offset: int, piece: bytes) -> None:
        await journal.log.wait_room()
        journal.write(ChunkChange(upload=upload, offset=offset), piece)

    return JournalWrite(put=put, chunk=chunk, commit=commit, abandon=lambda: journal.abandon(upload))


class JournalWrite:
    """Implements StreamedWrite of journal/volume.py. Used by one task at a time."""

    def __init__(
        self,
        *,
        put: Callable[[Buffer], Awaitable[FileStatus]],
        chunk: Callable[[int, bytes], Awaitable[None]],
        commit: Callable[[int], Awaitable[FileStatus]],
        abandon: Callable[[], None],
    ) -> None:
        """`put(bytes)` writes a small file; `chunk(offset, bytes)` a piece of a large one, `commit(size)` its end.

        `abandon()` gives the pieces up, and does nothing after a commit that was acknowledged.
        """
        self._put = put
        self._chunk = chunk
        self._commit = commit
        self._abandon = abandon
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
            await self._add(piece)

    async def commit(self) -> FileStatus:
        """Publish. Preconditions are decided here."""
        if self._over:
            raise refused(JournalCode.BAD_REQUEST, "the file was committed or cancelled already")
        self._over = True
        if not self._written:
            return await self._put(bytes(self._held))
        try:
            if self._held:
                await self._add(bytes(self._held))
            return await self._commit(self._written)
        finally:
            # Refused, cancelled, no room, or answered by an earlier attempt: nobody needs the pieces, and as long as
            # they are there the log cannot be trimmed.
            self._abandon()

    async def cancel(self) -> None:
        """Forget the file; harmless at any time."""
        if not self._over:
            self._over = True
            self._held.clear()
            self._abandon()

    async def _add(self, piece: bytes) -> None:
        await self._chunk(self._written, piece)
        self._written += len(piece)
