"""Commit log files as bytes: the header block, batches of entries, and the scan that finds where a file ends.

Pure: no files, no clock. `STORAGE.md` has the grammar. A batch is what one write and one fdatasync made durable:

    batch header | payloads, one after the other | directory: one entry per payload | zeros up to a whole block

Batches begin at block boundaries, so writing one never touches a block of another: a torn write hurts only what was
not synced yet. Directory and header share one CRC; each payload has its own.
"""

from __future__ import annotations

import dataclasses
from struct import Struct
from typing import TYPE_CHECKING, Final

from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    Entry = tuple[int, int, int, int]

LOG_VERSION: Final = 1
BLOCK_BYTES: Final = 4096
"""What a disk writes whole or not at all, or tears: nothing synced shares a block with what is not."""
ROW_NUMBER: Final = 0
"""The object number of entries whose payload is a catalog row."""

_HEADER: Final = Struct(">4sHHQQQQQ16sI")
_HEADER_MAGIC: Final = b"SOSL"
_BATCH: Final = Struct(">4sIQQII")
_BATCH_MAGIC: Final = b"SOSB"
ENTRY: Final = Struct(">QQII")
"""Object number, offset in the object, length, CRC32C of the payload."""
BATCH_HEADER_BYTES: Final = _BATCH.size

assert _HEADER.size <= BLOCK_BYTES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogHeader:
    """The first block of a log file. `previous_end` alone decides how much of the generation before it counts."""

    generation: int
    file_bytes: int
    previous_generation: int
    previous_end: int
    catalog_sequence: int
    identity: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class ScannedBatch:
    """A batch whose header and directory are whole; `entries` are (object number, offset, length, CRC)."""

    number: int
    start: int
    end: int
    entries: list[Entry]

    def payloads(self, log: memoryview) -> Iterator[tuple[Entry, int, memoryview]]:
        """Each entry, where its payload begins in the file, and the payload, whole or not."""
        position = self.start + BATCH_HEADER_BYTES
        for entry in self.entries:
            yield entry, position, log[position : position + entry[2]]
            position += entry[2]

    def is_whole(self, log: memoryview) -> bool:
        """Whether every payload matches its CRC."""
        return all(crc32c(payload) == entry[3] for entry, _, payload in self.payloads(log))


@dataclasses.dataclass(slots=True)
class LogScan:
    """What a scan found besides batches, known when its iterator is exhausted.

    `end` is where the last batch that counts ends; `torn` is what a crash left behind it, when its directory can be
    read; `damage` are places before `end` where synced bytes are no longer a batch.
    """

    end: int = BLOCK_BYTES
    torn: ScannedBatch | None = None
    damage: list[int] = dataclasses.field(default_factory=list)
    last: ScannedBatch | None = None


def encode_log_header(header: LogHeader) -> bytes:
    """The whole first block."""
    content = _HEADER.pack(
        _HEADER_MAGIC,
        LOG_VERSION,
        0,
        header.generation,
        header.file_bytes,
        header.previous_generation,
        header.previous_end,
        header.catalog_sequence,
        header.identity,
        0,
    )[:-4]
    return (content + crc32c(content).to_bytes(4, "big")).ljust(BLOCK_BYTES, b"\0")


def decode_log_header(block: bytes) -> LogHeader | None:
    """The header, or None for anything that is not a whole one (a file that was never used, a torn write).

    DamagedError for a version that is not known: its file is not ours to write over.
    """
    if len(block) < _HEADER.size:
        return None
    magic, version, _, generation, file_bytes, previous, end, sequence, identity, crc = _HEADER.unpack_from(block)
    if magic == _HEADER_MAGIC and version != LOG_VERSION:
        raise DamagedError(f"a log file has version {version}, this server knows version {LOG_VERSION} only")
    if magic != _HEADER_MAGIC or crc != crc32c(block[: _HEADER.size - 4]):
        return None
    return LogHeader(
        generation=generation,
        file_bytes=file_bytes,
        previous_generation=previous,
        previous_end=end,
        catalog_sequence=sequence,
        identity=identity,
    )


def batch_bytes(payload_bytes: int, entries: int) -> int:
    """What a batch takes in a log file."""
    used = BATCH_HEADER_BYTES + payload_bytes + entries * ENTRY.size
    return -(-used // BLOCK_BYTES) * BLOCK_BYTES


def batch_header(*, generation: int, number: int, payload_bytes: int, directory: bytes | bytearray) -> bytes:
    """The header of batch `number` (from 0 on) of a generation."""
    count = len(directory) // ENTRY.size
    content = _BATCH.pack(_BATCH_MAGIC, count, generation, number, payload_bytes, 0)[:-4]
    return content + crc32c(directory, crc32c(content)).to_bytes(4, "big")


def read_batch(log: memoryview, start: int, *, generation: int, number: int | None) -> ScannedBatch | None:
    """The batch at `start`, or None when header or directory are not whole, or of another generation or number."""
    if start + BATCH_HEADER_BYTES > len(log):
        return None
    magic, count, of_generation, of_number, payload_bytes, crc = _BATCH.unpack_from(log, start)
    if magic != _BATCH_MAGIC or of_generation != generation or (number is not None and of_number != number):
        return None
    directory_start = start + BATCH_HEADER_BYTES + payload_bytes
    end = start + batch_bytes(payload_bytes, count)
    if end > len(log):
        return None
    directory = log[directory_start : directory_start + count * ENTRY.size]
    if crc != crc32c(directory, crc32c(log[start : start + BATCH_HEADER_BYTES - 4])):
        return None
    entries = list(ENTRY.iter_unpack(directory))
    if sum(entry[2] for entry in entries) != payload_bytes:
        return None
    return ScannedBatch(of_number, start, end, entries)


def batch_length(beginning: bytes) -> int:
    """What the batch that begins like this takes in its file, 0 when it is none."""
    if len(beginning) < BATCH_HEADER_BYTES:
        return 0
    magic, count, _, _, payload_bytes, _ = _BATCH.unpack_from(beginning)
    return batch_bytes(payload_bytes, count) if magic == _BATCH_MAGIC else 0


def first_generation(batch: bytes) -> int:
    """The generation of a first batch that is whole, else 0: what the file is of whose header is damaged."""
    generation: int = _BATCH.unpack_from(batch)[2]
    return generation if read_batch(memoryview(batch), 0, generation=generation, number=0) is not None else 0


def scan_log(log: memoryview, *, generation: int, end: int | None, scan: LogScan) -> Iterator[ScannedBatch]:
    """The batches of a generation that count, in order; `scan` says the rest.

    With a known `end` (the next generation's back-link) everything before it was synced, and what is not whole there
    is damage. Without one, batch N+1 was written only after N was synced: something broken with a whole batch
    behind it is damage, and only what has nothing behind it is a tail that a crash left.
    """
    number: int | None = 0
    while end is None or scan.end < end:
        batch = read_batch(log, scan.end, generation=generation, number=number)
        if batch is None or (end is None and not batch.is_whole(log)):
            behind = batch.end if batch is not None else scan.end + BLOCK_BYTES
            found = _next_batch(log[:end], behind, generation)
            if found is None and end is None:
                scan.torn = batch
                return
            if batch is None:
                scan.damage.append(scan.end)
                scan.end, number = found or end or behind, None
                continue
        scan.end, scan.last = batch.end, batch
        number = batch.number + 1
        yield batch


def _next_batch(log: memoryview, start: int, generation: int) -> int | None:
    """Where the next batch of this generation with a whole directory begins."""
    for position in range(start, len(log) - BATCH_HEADER_BYTES, BLOCK_BYTES):
        if read_batch(log, position, generation=generation, number=None) is not None:
            return position
    return None
