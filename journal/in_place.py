"""Changing a file in place: append and truncate, for programs that keep logs of their own in a volume.

Spark never does either, and the file protocol has neither: this is for whoever opens the journal in its own process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from journal import nodes, preconditions
from journal.change import Append, Truncate
from journal.errors import JournalCode, JournalError, refused
from journal.volume import PUT_BYTES_MAX, FileStatus
from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from journal.image import Image
    from journal.journal import Journal
    from journal.nodes import Extent
    from journal.volume import Buffer, OperationId, PathClaim

EXTENTS_MAX: Final = 10_000
"""Each append is one, and is copied with all before it by the next: whoever wants more writes the file anew."""


class _ChangedMeanwhileError(Exception):
    """The extent that is cut is another one by now."""


async def append(
    journal: Journal, path: str, data: Buffer, *, operation: OperationId | None, claim: PathClaim | None
) -> FileStatus:
    """Add bytes at the end of a file. NOT_FOUND, IS_DIRECTORY, FENCED, TOO_LARGE (at once, or pieces in all)."""
    if len(data) > PUT_BYTES_MAX:
        raise refused(JournalCode.TOO_LARGE, f"an append has at most {PUT_BYTES_MAX} bytes; make several")

    def check() -> Append:
        file = preconditions.check_in_place(journal.pending, path, claim=claim)
        if len(file) >= EXTENTS_MAX * nodes.EXTENT_BYTES:
            raise refused(
                JournalCode.TOO_LARGE, f"{path} was appended to {EXTENTS_MAX} times: write it anew", path=path
            )
        return Append(path=path, size=nodes.size_of(file))

    return cast("FileStatus", await journal.change(check, operation, data, answers=FileStatus))


async def truncate(
    journal: Journal, path: str, size: int, *, operation: OperationId | None, claim: PathClaim | None
) -> FileStatus:
    """Keep the first `size` bytes of a file. BAD_REQUEST if it has fewer, NOT_FOUND, IS_DIRECTORY, FENCED, DAMAGED."""
    while True:
        cut = _cut(journal.pending, path, size)
        kept = b"" if cut is None else (await journal.content.extent(cut[0]))[: cut[1]]
        tail_crc = crc32c(kept)

        def check(cut: tuple[Extent, int] | None = cut, tail_crc: int = tail_crc) -> Truncate:
            file = preconditions.check_in_place(journal.pending, path, claim=claim)
            if not 0 <= size <= nodes.size_of(file):
                raise refused(JournalCode.BAD_REQUEST, f"{path} has {nodes.size_of(file)} bytes, not {size}", path=path)
            if _cut(journal.pending, path, size) != cut:
                raise _ChangedMeanwhileError
            return Truncate(path=path, size=size, tail_crc=tail_crc)

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
