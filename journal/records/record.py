"""One record of the log: its bytes, its chain value, its checks. Layout in FORMAT.md. Pure: bytes in, values out.

Belongs here: the fixed header, CRCs, chain. What the meta of each kind says is in change.py; how records make a
segment, and how a torn tail is told from damage, is in segment.py.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple, NewType

from journal.errors import DamagedJournalError, JournalCode, damaged
from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from journal.volume import Buffer

Lsn = NewType("Lsn", int)
"""Logical time: a byte offset in the volume's journal, all segments joined."""
Epoch = NewType("Epoch", int)
ChainHash = NewType("ChainHash", bytes)
"""blake2b-8 over all headers up to a point: equal numbers, equal history."""

RECORD_MAGIC: Final = b"SOSr"
RECORD_VERSION: Final = 1
CHAIN_BYTES: Final = 8
FIRST_LSN: Final = Lsn(0)
FIRST_CHAIN: Final = ChainHash(bytes(CHAIN_BYTES))
CLIENT_BYTES: Final = 16
NO_CLIENT: Final = bytes(CLIENT_BYTES)

META_BYTES_MAX: Final = 64 * 1024  # two paths, or 64 marks, or 15 members, many times over
PAYLOAD_BYTES_MAX: Final = 4 * 1024 * 1024  # bounds what a reader must hold to check one record
NUMBER_MAX: Final = 2**63 - 1  # LSNs, times and sequences fit Java's long

# magic, version, kind, reserved, meta and payload length, LSN, acknowledged LSN, time, client, sequence, meta and
# payload CRC
_FIELDS: Final = struct.Struct(">4sBBHIIQQQ16sQII")
_HEADER_CRC: Final = struct.Struct(">I")
_CHAINED_BYTES: Final = _FIELDS.size + _HEADER_CRC.size
HEADER_BYTES: Final = _CHAINED_BYTES + CHAIN_BYTES
assert HEADER_BYTES == 84, "FORMAT.md says so"


class Kind(IntEnum):
    """What a record does. Numbers are never reused; an unknown one means that the writer is newer than this reader."""

    HEADER = 1
    PUT = 2
    CHUNK = 3
    COMMIT = 4
    ABANDON = 5
    APPEND = 6
    TRUNCATE = 7
    DELETE = 8
    RENAME = 9
    MKDIR = 10
    RELOCATE = 11
    MARK = 12
    TRIM = 13
    CLAIM = 14
    PIN = 15
    RELEASE = 16


_KINDS: Final = {int(kind): kind for kind in Kind}


class RecordHeader(NamedTuple):
    """What the fixed part says. `chain` is the value *after* this record.

    One is made for every record written or read: a tuple takes a third of the time of a frozen dataclass.
    """

    kind: Kind
    lsn: Lsn
    acknowledged_lsn: Lsn
    time_ms: int
    client: bytes
    sequence: int
    meta_bytes: int
    payload_bytes: int
    meta_crc: int
    payload_crc: int
    chain: ChainHash

    @property
    def record_bytes(self) -> int:
        return HEADER_BYTES + self.meta_bytes + self.payload_bytes

    @property
    def end_lsn(self) -> Lsn:
        return Lsn(self.lsn + HEADER_BYTES + self.meta_bytes + self.payload_bytes)

    @property
    def payload_lsn(self) -> Lsn:
        """Where the raw bytes begin."""
        return Lsn(self.lsn + HEADER_BYTES + self.meta_bytes)


class Record(NamedTuple):
    """A checked record. `payload` is empty in what was read without payloads (see segment.py)."""

    header: RecordHeader
    meta: bytes
    payload: Buffer


def encode_record(
    *,
    kind: Kind,
    lsn: Lsn,
    acknowledged_lsn: Lsn,
    time_ms: int,
    meta: bytes,
    chain: ChainHash,
    payload: Buffer = b"",
    payload_crc: int | None = None,
    client: bytes = NO_CLIENT,
    sequence: int = 0,
) -> tuple[bytes, RecordHeader]:
    """(header and meta as bytes, the header as a value). The payload follows them as it is: it is never copied here.

    `chain` is the value before this record. `payload_crc`, when it is known already, is taken as it is, so that the
    sum made in the client's process covers the bytes all the way; whoever passes it must have compared it.
    """
    meta_bytes, payload_bytes = len(meta), len(payload)
    assert meta_bytes <= META_BYTES_MAX, "the writer bounds paths and marks"
    assert payload_bytes <= PAYLOAD_BYTES_MAX, "the writer cuts files into chunks"
    assert acknowledged_lsn <= lsn, "nothing is acknowledged before it is written"
    meta_crc = crc32c(meta)
    if payload_crc is None:
        payload_crc = crc32c(payload)
    fields = _FIELDS.pack(
        RECORD_MAGIC, RECORD_VERSION, kind, 0, meta_bytes, payload_bytes, lsn, acknowledged_lsn, time_ms,
        client, sequence, meta_crc, payload_crc,
    )  # fmt: skip
    chained = fields + _HEADER_CRC.pack(crc32c(fields))
    after = next_chain(chain, chained)
    header = RecordHeader(
        kind, lsn, acknowledged_lsn, time_ms, client, sequence,
        meta_bytes, payload_bytes, meta_crc, payload_crc, after,
    )  # fmt: skip
    return chained + after + meta, header


def next_chain(before: ChainHash, chained: bytes) -> ChainHash:
    """The chain value after a record whose header begins with `chained` (all of it but the value itself)."""
    return ChainHash(blake2b(before + chained, digest_size=CHAIN_BYTES).digest())


def decode_header(data: memoryview, *, lsn: Lsn, before: ChainHash | None) -> RecordHeader:
    """The header at the start of `data` (≥ HEADER_BYTES), which must be the one of the record at `lsn`.

    With `before` None the link to the past is not checked (a header record says itself what lies before it).
    DamagedJournalError: DAMAGED, with the LSN; TOO_NEW if it is whole but from a newer format.
    """
    chained = bytes(data[:_CHAINED_BYTES])
    (magic, version, kind, reserved, meta_bytes, payload_bytes, at, acknowledged, time_ms, client, sequence,
     meta_crc, payload_crc) = _FIELDS.unpack_from(chained)  # fmt: skip
    if magic != RECORD_MAGIC:
        raise damaged(f"no record begins at LSN {lsn}", lsn=lsn)
    if crc32c(memoryview(chained)[: _FIELDS.size]) != _HEADER_CRC.unpack_from(chained, _FIELDS.size)[0]:
        raise damaged(f"the header of the record at LSN {lsn} does not match its CRC", lsn=lsn)
    if version != RECORD_VERSION or kind not in _KINDS or reserved != 0:
        raise _too_new(lsn, f"format {version}, kind {kind}, flags {reserved}")
    if at != lsn:
        raise damaged(f"the record at LSN {lsn} says that it belongs at LSN {at}", lsn=lsn)
    if meta_bytes > META_BYTES_MAX or payload_bytes > PAYLOAD_BYTES_MAX or acknowledged > at or time_ms > NUMBER_MAX:
        raise damaged(f"the header of the record at LSN {lsn} has impossible values", lsn=lsn)
    chain = ChainHash(bytes(data[_CHAINED_BYTES:HEADER_BYTES]))
    if before is not None and next_chain(before, chained) != chain:
        raise damaged(f"the record at LSN {lsn} does not continue the history before it", lsn=lsn, forked=True)
    return RecordHeader(
        _KINDS[kind], lsn, Lsn(acknowledged), time_ms, client, sequence,
        meta_bytes, payload_bytes, meta_crc, payload_crc, chain,
    )  # fmt: skip


def check_chain(header: memoryview, *, lsn: Lsn, before: ChainHash) -> None:
    """Check the link of a header that was decoded without one (a header record, whose meta names its base)."""
    if next_chain(before, bytes(header[:_CHAINED_BYTES])) != bytes(header[_CHAINED_BYTES:HEADER_BYTES]):
        raise damaged(f"the record at LSN {lsn} does not continue the history before it", lsn=lsn, forked=True)


def check_meta(header: RecordHeader, meta: Buffer) -> None:
    """DAMAGED unless these are the meta bytes that the header was made for."""
    if crc32c(meta) != header.meta_crc:
        raise damaged(f"the description in the record at LSN {header.lsn} does not match its CRC", lsn=header.lsn)


def check_payload(header: RecordHeader, payload: Buffer) -> None:
    """DAMAGED unless these are the file bytes that the header was made for."""
    if crc32c(payload) != header.payload_crc:
        raise damaged(f"the file bytes in the record at LSN {header.lsn} do not match their CRC", lsn=header.lsn)


def _too_new(lsn: Lsn, what: str) -> DamagedJournalError:
    return DamagedJournalError(
        JournalCode.TOO_NEW,
        f"the record at LSN {lsn} was written by a newer version ({what}); use that version to read it",
        lsn=lsn,
    )
