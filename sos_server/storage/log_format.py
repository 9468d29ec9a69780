"""Commit log files as bytes: the header block, batches of entries, and the scan that finds where a file ends.

Pure: no files, no clock. `STORAGE.md` has the grammar. A batch is what one write and one fdatasync made durable:

    batch header | payloads, one after the other | directory: one entry per payload | zeros up to a whole block

Batches begin at block boundaries, so writing one never touches a block of another: a torn write hurts only what was
not synced yet. Directory and header share one CRC; each payload has its own.

A file keeps what was in it before, and clients decide what is in payloads. So every generation has a nonce, which the
server draws and tells nobody: without it in its header nothing is a batch, whatever it looks like.
"""

from __future__ import annotations

import dataclasses
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    Entry = tuple[int, int, int, int]

LOG_VERSION: Final = 3
_VERSIONS_KNOWN: Final = frozenset({1, 2, LOG_VERSION})
BLOCK_BYTES: Final = 4096
"""What a disk writes whole or not at all, or tears: nothing synced shares a block with what is not."""
ROW_NUMBER: Final = 0
"""The object number of entries whose payload is a catalog row."""
NOTE: Final = 1 << 63
"""Set in the object number of an entry whose payload is the note of a run (`run_notes.py`). From version 3 on."""

NONCE_BYTES: Final = 8
"""So many that it does not pay to fill a disk with guesses."""

_HEADER: Final = Struct(">4sHHQQQQQ16s8sI")
_HEADER_1: Final = Struct(">4sHHQQQQQ16sI")
_HEADER_START: Final = Struct(">4sH")
_HEADER_MAGIC: Final = b"SOSL"
_BATCH: Final = Struct(">4sIQQ8sII")
_BATCH_MAGIC: Final = b"SOB2"
_BATCH_1: Final = Struct(">4sIQQII")
_BATCH_1_MAGIC: Final = b"SOSB"
ENTRY: Final = Struct(">QQII")
"""Object number, offset in the object, length, CRC32C of the payload."""
BATCH_HEADER_BYTES: Final = _BATCH.size
CRC_BYTES: Final = 4

assert _HEADER.size <= BLOCK_BYTES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogHeader:
    """The first block of a log file. `previous_end` alone decides how much of the generation before it counts.

    `nonce` is in the header of each of its batches; those of version 1 have none. Notes of runs are in files of
    version 3 only.
    """

    generation: int
    file_bytes: int
    previous_generation: int
    previous_end: int
    catalog_sequence: int
    identity: bytes
    nonce: bytes
    version: int = LOG_VERSION


@dataclasses.dataclass(frozen=True, slots=True)
class ScannedBatch:
    """A batch whose header and directory are whole; `entries` are (object number, offset, length, CRC)."""

    number: int
    start: int
    payload_start: int
    end: int
    entries: list[Entry]

    def payloads(self, log: memoryview) -> Iterator[tuple[Entry, int, memoryview]]:
        """Each entry, where its payload begins in the file, and the payload, whole or not."""
        position = self.payload_start
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
    entries: int = 0
    """As `places_of` counts them."""


class _BatchHeader(NamedTuple):
    """What the bytes at the beginning of a batch say, true or not."""

    entries: int
    generation: int
    number: int
    nonce: bytes
    payload_bytes: int
    crc: int
    header_bytes: int

    @property
    def disk_bytes(self) -> int:
        return _whole_blocks(self.header_bytes + self.payload_bytes + self.entries * ENTRY.size)


def encode_log_header(header: LogHeader) -> bytes:
    """The whole first block."""
    assert len(header.nonce) == NONCE_BYTES
    assert header.version == LOG_VERSION
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
        header.nonce,
        0,
    )[:-CRC_BYTES]
    return (content + crc32c(content).to_bytes(CRC_BYTES, "big")).ljust(BLOCK_BYTES, b"\0")


def _layout(version: int) -> Struct:
    return _HEADER_1 if version == 1 else _HEADER


def _matches(block: bytes, version: int) -> bool:
    """Whether a header of this version has the CRC that is in it."""
    layout = _layout(version)
    crc: int = layout.unpack_from(block)[-1]
    return crc == crc32c(block[: layout.size - CRC_BYTES])


def decode_log_header(block: bytes) -> LogHeader | None:
    """The header, or None for anything that is not a whole one (a file that was never used, a torn write, a bit that
    rotted: in the version, too, if the checksum is that of a version that is known).

    DamagedError for a version that is not known: its file is not ours to write over.
    """
    if len(block) < _HEADER.size:
        return None
    magic, version = _HEADER_START.unpack_from(block)
    if magic != _HEADER_MAGIC:
        return None
    if version not in _VERSIONS_KNOWN:
        if any(
            _matches(_HEADER_START.pack(magic, known) + block[_HEADER_START.size :], known) for known in _VERSIONS_KNOWN
        ):
            return None
        raise DamagedError(f"a log file has version {version}, this server knows versions 1 to {LOG_VERSION} only")
    if not _matches(block, version):
        return None
    _, _, _, generation, file_bytes, previous, end, sequence, identity, *nonce, _ = _layout(version).unpack_from(block)
    return LogHeader(
        generation=generation,
        file_bytes=file_bytes,
        previous_generation=previous,
        previous_end=end,
        catalog_sequence=sequence,
        identity=identity,
        nonce=nonce[0] if nonce else b"",
        version=version,
    )


def batch_bytes(payload_bytes: int, entries: int) -> int:
    """What a batch takes in a log file."""
    return _whole_blocks(BATCH_HEADER_BYTES + payload_bytes + entries * ENTRY.size)


def batch_header(
    *, generation: int, number: int, nonce: bytes, payload_bytes: int, directory: bytes | bytearray
) -> bytes:
    """The header of batch `number` (from 0 on) of a generation."""
    count = len(directory) // ENTRY.size
    content = _BATCH.pack(_BATCH_MAGIC, count, generation, number, nonce, payload_bytes, 0)[:-CRC_BYTES]
    return content + crc32c(directory, crc32c(content)).to_bytes(CRC_BYTES, "big")


def read_batch(
    log: memoryview, start: int, *, generation: int, nonce: bytes, number: int | None
) -> ScannedBatch | None:
    """The batch at `start`, or None when header or directory are not whole, or it is another generation's or number."""
    header = _batch_header_at(log, start)
    if header is None or header.generation != generation or header.nonce != nonce:
        return None
    if number is not None and header.number != number:
        return None
    payload_start = start + header.header_bytes
    end = start + header.disk_bytes
    if end > len(log):
        return None
    directory_start = payload_start + header.payload_bytes
    directory = log[directory_start : directory_start + header.entries * ENTRY.size]
    if header.crc != crc32c(directory, crc32c(log[start : payload_start - CRC_BYTES])):
        return None
    entries = list(ENTRY.iter_unpack(directory))
    if sum(entry[2] for entry in entries) != header.payload_bytes:
        return None
    return ScannedBatch(header.number, start, payload_start, end, entries)


def batch_length(beginning: bytes) -> int:
    """How many bytes of its file the batch that begins like this takes; 0 when it is not a batch."""
    header = _batch_header_at(memoryview(beginning), 0)
    return header.disk_bytes if header is not None else 0


def first_generation(batch: bytes) -> int:
    """The generation of a first batch that is whole, else 0: what the file is of whose header is damaged.

    The nonce is lost with the header, and is not needed: nothing else is ever written where a file's first batch is.
    """
    log = memoryview(batch)
    header = _batch_header_at(log, 0)
    if header is None:
        return 0
    found = read_batch(log, 0, generation=header.generation, nonce=header.nonce, number=0)
    return header.generation if found is not None else 0


def places_of(number: int, length: int) -> int:
    """How many places an entry makes memory keep: one, or about one for each part of a run."""
    return length // CRC_BYTES if number & NOTE else 1


def scan_log(
    log: memoryview, *, generation: int, nonce: bytes, end: int | None, scan: LogScan
) -> Iterator[ScannedBatch]:
    """The batches of a generation that count, in order; `scan` says the rest.

    With a known `end` (the next generation's back-link) everything before it was synced, and what is not whole there
    is damage. Without one, batch N+1 was written only after N was synced: something broken with a whole batch
    after it is damage, and only what has nothing after it is a tail that a crash left.
    """
    number: int | None = 0
    while end is None or scan.end < end:
        batch = read_batch(log, scan.end, generation=generation, nonce=nonce, number=number)
        if batch is None or (end is None and not batch.is_whole(log)):
            behind = batch.end if batch is not None else scan.end + BLOCK_BYTES
            found = _next_batch(log[:end], behind, generation, nonce)
            if found is None and end is None:
                scan.torn = batch
                return
            if batch is None:
                scan.damage.append(scan.end)
                scan.end, number = found or end or behind, None
                continue
        scan.end, scan.last = batch.end, batch
        scan.entries += sum(places_of(number, length) for number, _, length, _ in batch.entries)
        number = batch.number + 1
        yield batch


def _next_batch(log: memoryview, start: int, generation: int, nonce: bytes) -> int | None:
    """Where the next batch of this generation with a whole directory begins."""
    for position in range(start, len(log) - BATCH_HEADER_BYTES, BLOCK_BYTES):
        if read_batch(log, position, generation=generation, nonce=nonce, number=None) is not None:
            return position
    return None


def _batch_header_at(log: memoryview, start: int) -> _BatchHeader | None:
    """What may be a batch's header, of either version: no CRC was compared."""
    magic = bytes(log[start : start + len(_BATCH_MAGIC)])
    if magic == _BATCH_MAGIC and start + _BATCH.size <= len(log):
        _, entries, generation, number, nonce, payload_bytes, crc = _BATCH.unpack_from(log, start)
        return _BatchHeader(entries, generation, number, nonce, payload_bytes, crc, _BATCH.size)
    if magic == _BATCH_1_MAGIC and start + _BATCH_1.size <= len(log):
        _, entries, generation, number, payload_bytes, crc = _BATCH_1.unpack_from(log, start)
        return _BatchHeader(entries, generation, number, b"", payload_bytes, crc, _BATCH_1.size)
    return None


def _whole_blocks(length: int) -> int:
    return -(-length // BLOCK_BYTES) * BLOCK_BYTES
