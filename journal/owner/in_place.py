"""Changing a file in place: append and truncate, for programs that keep logs of their own in a volume.

Spark's event log and what else is flushed before its end come by append. The file protocol has no truncate: that is for
whoever opens the journal in its own process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from journal.errors import JournalCode, JournalError, refused
from journal.image import nodes, preconditions
from journal.records.change import AppendChange, ChunkChange, CommitChange, TruncateChange
from journal.volume import PUT_BYTES_MAX, FileStatus
from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from journal.image.image import Image
    from journal.image.nodes import Extent
    from journal.owner.journal import Journal
    from journal.volume import Buffer, OperationId, PathClaim

EXTENTS_MAX: Final = 10_000
"""Each append is one, copied with all before it by the next: a file that has this many is joined first."""


class _ChangedMeanwhileError(Exception):
    """What was looked at is another file by now."""


class _InTooManyPiecesError(Exception):
    """The file must be joined before something can be added."""


async def append(
    journal: Journal,
    path: str,
    data: Buffer,
    *,
    size: int | None,
    modified_ms: int | None,
    operation: OperationId | None,
    claim: PathClaim | None,
) -> FileStatus:
    """Add bytes at the end of a file, of this size and time if they are given.

    NOT_FOUND, IS_DIRECTORY, FENCED, CHANGED, TOO_LARGE (at once, or in all).
    """
    if len(data) > PUT_BYTES_MAX:
        raise refused(JournalCode.TOO_LARGE, f"an append has at most {PUT_BYTES_MAX} bytes; make several")

    def check() -> AppendChange:
        file, now_size = preconditions.check_append(
            journal.pending, path, size=size, modified_ms=modified_ms, claim=claim
        )
        if _has_too_many_pieces(file):
            if _is_too_large(now_size):
                raise refused(JournalCode.TOO_LARGE, f"{path} is as large as appends can make it", path=path)
            raise _InTooManyPiecesError
        return AppendChange(path=path, size=now_size)

    while True:
        try:
            return cast("FileStatus", await journal.change(check, operation, data, answers=FileStatus))
        except _InTooManyPiecesError:
            await join(journal, path)


async def join(journal: Journal, path: str) -> bool:
    """Make few pieces of a file that has too many, which takes a while. False, at once, if there is no need to."""
    file = nodes.find(journal.pending.tree.root, path)
    if not isinstance(file, bytes) or not _has_too_many_pieces(file) or _is_too_large(nodes.size_of(file)):
        return False
    async with journal.content.joining:  # who waited for it finds the file joined
        await _join(journal, path)
    return True


def _has_too_many_pieces(file: bytes) -> bool:
    return len(file) >= EXTENTS_MAX * nodes.EXTENT_BYTES


def _is_too_large(size: int) -> bool:
    return 2 * size > EXTENTS_MAX * PUT_BYTES_MAX


async def _join(journal: Journal, path: str) -> None:
    """Write a file's content again in few pieces, in one change. Nothing if the file is another one meanwhile."""
    file = nodes.find(journal.pending.tree.root, path)
    if not isinstance(file, bytes) or not _has_too_many_pieces(file):
        return

    def check() -> CommitChange:
        if nodes.find(journal.pending.tree.root, path) != file:
            raise _ChangedMeanwhileError
        return CommitChange(upload=upload, path=path, size=nodes.size_of(file), modified_ms=nodes.modified_ms_of(file))

    upload = journal.new_upload()
    held, written = bytearray(), 0
    try:
        for extent in [*journal.pending.tree.extents(path), None]:
            if extent is not None:
                held += await journal.content.extent(extent)
            while len(held) >= PUT_BYTES_MAX or (held and extent is None):
                await journal.log.wait_room()
                journal.write(ChunkChange(upload=upload, offset=written), bytes(held[:PUT_BYTES_MAX]))
                written += len(held[:PUT_BYTES_MAX])
                del held[:PUT_BYTES_MAX]
        await journal.change(check, None, answers=FileStatus)
    except _ChangedMeanwhileError:
        return
    finally:
        journal.abandon(upload)


async def truncate(
    journal: Journal, path: str, size: int, *, operation: OperationId | None, claim: PathClaim | None
) -> FileStatus:
    """Keep the first `size` bytes of a file. BAD_REQUEST if it has fewer, NOT_FOUND, IS_DIRECTORY, FENCED, DAMAGED."""
    while True:
        cut = _cut(journal.pending, path, size)
        kept = b"" if cut is None else (await journal.content.extent(cut[0]))[: cut[1]]
        tail_crc = crc32c(kept)

        def check(cut: tuple[Extent, int] | None = cut, tail_crc: int = tail_crc) -> TruncateChange:
            file = preconditions.check_in_place(journal.pending, path, claim=claim)
            if not 0 <= size <= nodes.size_of(file):
                raise refused(JournalCode.BAD_REQUEST, f"{path} has {nodes.size_of(file)} bytes, not {size}", path=path)
            if _cut(journal.pending, path, size) != cut:
                raise _ChangedMeanwhileError
            return TruncateChange(path=path, size=size, tail_crc=tail_crc)

        try:
            return cast("FileStatus", await journal.change(check, operation, answers=FileStatus))
        except _ChangedMeanwhileError:
            continue


def _cut(image: Image, path: str, size: int) -> tuple[Extent, int] | None:
    """The extent that ends in two, and how much of it is kept; None if none does (or there is no such file)."""
    try:
        extents = image.tree.extents(path)
    except JournalError:
        return None
    at = 0
    for extent in extents:
        if at < size < at + extent.length:
            return extent, size - at
        at += extent.length
    return None
