"""Batches that came to their path with an import, a fork or a rename: no record of the log made `commits/N` there.

Such a tree appears at once, with all its batches. So it can be gone back to as it appeared, which is its last batch
then; the batches before that are known where it came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.checkpoint.layout import batch_of
from journal.errors import JournalCode, refused
from journal.records.change import RenameChange, decode_change
from journal.records.paths import is_within
from journal.records.record import Kind, Lsn

if TYPE_CHECKING:
    from journal.copies.volume_reader import VolumeReader
    from journal.image.image import Image


async def lsn_of_moved_batch(reader: VolumeReader, batch: int, path: str) -> Lsn | None:
    """Where a tree appeared whose last batch was this one; None if none did. BAD_REQUEST if the batch came with others.

    Reads the whole log for renames, and the image of each that brought a tree to the path.
    """
    last = None
    for lsn in await _arrivals(reader, path):
        last = _last_commit(await reader.image_at(lsn), path)
        if last == batch:
            return lsn
    if last is not None and batch < last:
        raise refused(
            JournalCode.BAD_REQUEST,
            f"the checkpoint at {path or '/'} came here with batch {last} as its last (import, fork or rename): "
            f"no moment here ends with batch {batch}; ask where it came from",
        )
    return None


async def _arrivals(reader: VolumeReader, path: str) -> list[Lsn]:
    """Where a directory that the path lies in was renamed to its place, the newest last."""
    found = []
    async for record in reader.records(Lsn(reader.chain.links[0].start), payloads=False):
        if record.header.kind is Kind.RENAME:
            change = decode_change(record.header, record.meta)
            assert isinstance(change, RenameChange)
            if is_within(path, change.target) and record.header.end_lsn >= reader.oldest_lsn:
                found.append(record.header.end_lsn)
    return found


def _last_commit(image: Image, path: str) -> int | None:
    found = (batch_of(status.path) for status in image.tree.walk(path) if not status.is_directory)
    return max((one[2] for one in found if one is not None and one[1] == "commits"), default=None)
