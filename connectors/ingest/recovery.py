"""What an ingest volume says: read by a listener that begins, and by whoever looks at a volume without one."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from connectors.ingest import places
from connectors.ingest.block import blocks, replay
from connectors.ingest.known_streams import KnownStreams, decode_streams
from connectors.ingest.reader_position import READER_BYTES_MAX, ReaderPosition, parse_reader
from connectors.ingest.retention import MessageFile
from journal.errors import JournalCode, JournalError, damaged, journal_error, refused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from journal.volume import FileStatus, Volume

READ_ATTEMPTS: Final = 5
"""While it is changed; the last file of a busy volume changes all the time."""


class IngestFiles(Protocol):
    """The files of a volume, from wherever."""

    def children(self, path: str) -> AsyncIterator[FileStatus]:
        """What is in a directory, in order. NOT_FOUND."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """The bytes of a file. NOT_FOUND."""


class VolumeFiles:
    """The files of a volume."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume

    async def children(self, path: str) -> AsyncGenerator[FileStatus, None]:
        after, more = "", True
        while more:
            page = await self._volume.list(path, after=after)
            for entry in page.entries:
                yield entry
                after = entry.path.rpartition("/")[2]
            more = page.more

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._volume.read(path, offset, length)) as pieces:
            async for piece in pieces:
                yield piece


@dataclass(slots=True)
class StoredLog:
    """What was written. The last file is the one that blocks are added to, if there is one."""

    files: dict[int, MessageFile] = field(default_factory=dict)
    streams_files: list[int] = field(default_factory=list)
    streams: KnownStreams = field(default_factory=KnownStreams)
    streams_bytes: int = 0
    since_streams_bytes: int = 0
    next_sequence: int = 0
    last: FileStatus | None = None
    last_first: int = 0
    last_blocks: int = 0
    blocks: dict[int, int] = field(default_factory=dict)
    """Of each file that was read, by its first sequence number."""

    def crowded(self, blocks_max: int) -> list[int]:
        """The newest file that was left, if it has more blocks than that: a crash may have come before it was gathered.

        The older ones were, which cannot be seen: a file's bytes are the same.
        """
        return [first for first in sorted(self.files)[-2:-1] if self.blocks.get(first, 0) > blocks_max]


async def check_format(files: IngestFiles, volume: str) -> None:
    """NOT_FOUND for a volume that is not an ingest volume, TOO_NEW for one of a newer version."""
    text = await content_of(files, places.FORMAT_FILE)
    if text != places.FORMAT_TEXT:
        message = f"{places.FORMAT_FILE} of {volume} says {text[:100]!r}: a newer sos-connector wrote it; use that one"
        raise journal_error(JournalCode.TOO_NEW, message)


def not_ingest(volume: str) -> JournalError:
    """For whoever expected one."""
    return refused(
        JournalCode.BAD_REQUEST,
        f"volume {volume} is not an ingest volume, and is not empty: make one with `sos-journal create`",
    )


async def stored_log(files: IngestFiles) -> StoredLog:
    """The newest streams, and what the log says after them. DAMAGED."""
    stored = StoredLog()
    numbered = await _numbered(files, places.LOG)
    snapshots = await _numbered(files, places.STREAMS)
    stored.streams_files = [sequence for sequence, _ in snapshots]
    if snapshots:
        stored.next_sequence, file = snapshots[-1]
        data = await content_of(files, file.path)
        stored.streams_bytes = len(data)
        stored.streams = decode_streams(data)
    elif numbered:
        stored.next_sequence = numbered[0][0]
    for first, file in numbered:
        stored.files[first] = MessageFile(first, file.size, file.modified_ms)
        if first >= stored.next_sequence:
            _replay(stored, first, file, memoryview(await content_of(files, file.path)))
    return stored


async def stored_readers(files: IngestFiles) -> list[ReaderPosition]:
    """Who reads, and how far."""
    found: list[ReaderPosition] = []
    for status in await _children(files, places.READERS):
        if not status.is_directory:
            content = b"".join([piece async for piece in files.read(status.path, 0, READER_BYTES_MAX)])
            found.append(parse_reader(status.path.rpartition("/")[2], content, status.modified_ms))
    return found


async def content_of(files: IngestFiles, path: str) -> bytes:
    """A file, whole. NOT_FOUND. A listener may write it once more meanwhile, with the same bytes or more."""
    for _ in range(READ_ATTEMPTS):
        try:
            return b"".join([piece async for piece in files.read(path)])
        except JournalError as error:
            if error.code is not JournalCode.CHANGED:
                raise
    return b"".join([piece async for piece in files.read(path)])


async def _numbered(files: IngestFiles, directory: str) -> list[tuple[int, FileStatus]]:
    """The files of a directory that are named after a sequence number, in order."""
    found = [(places.sequence_of(entry.path), entry) for entry in await _children(files, directory)]
    return [(first, entry) for first, entry in found if first is not None]


async def _children(files: IngestFiles, directory: str) -> list[FileStatus]:
    try:
        return [entry async for entry in files.children(directory)]
    except JournalError as error:
        if error.code is JournalCode.NOT_FOUND:
            return []
        raise


def _replay(stored: StoredLog, first: int, file: FileStatus, data: memoryview) -> None:
    stored.last, stored.last_first, stored.last_blocks = file, first, 0
    read_bytes = 0
    for block in blocks(data):
        if block.first_sequence != stored.next_sequence:
            raise damaged(f"{file.path} goes on with {block.first_sequence} after {stored.next_sequence}")
        replay(block, stored.streams)
        stored.next_sequence = block.end_sequence
        stored.last_blocks += 1
        read_bytes += block.size
    if read_bytes != file.size:
        raise damaged(f"{file.path} has {file.size} bytes, of which {read_bytes} are blocks")
    stored.since_streams_bytes += read_bytes
    stored.blocks[first] = stored.last_blocks
