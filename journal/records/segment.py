"""Segments: what they are called, how they open, how their records are read one after another. Pure.

Belongs here: names, the header record's meta (configuration, back-link), the reader that tells a torn tail from damage.
Which segments make the chain is decided in chain_rules.py from headers alone.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from journal.errors import DamagedJournalError, JournalCode, damaged
from journal.kept_past import Retention
from journal.records.chain_rules import Base, SegmentFacts
from journal.records.membership import MEMBERS_MAX, Configuration, Member, Membership
from journal.records.record import (
    CHAIN_BYTES,
    FIRST_CHAIN,
    FIRST_LSN,
    HEADER_BYTES,
    META_BYTES_MAX,
    NUMBER_MAX,
    ChainHash,
    Epoch,
    Kind,
    Lsn,
    Record,
    RecordHeader,
    check_chain,
    check_meta,
    check_payload,
    decode_header,
)
from sos_client.wire.errors import ProtocolError
from sos_client.wire.msgpack_edge import pack, unpack
from sos_client.wire.shapes import NUMBER, ArrayShape, array_of, exact_bytes, optional, text, whole

if TYPE_CHECKING:
    from journal.volume import Buffer

FORMAT_VERSION: Final = 3
_ADDED: Final = (0, 0)  # each version has one item more at the end; what an older one would have said there
EPOCH_MAX: Final = 2**32 - 1
IDENTITY_BYTES: Final = 16
HOLDER_BYTES: Final = 16
NAME_BYTES: Final = 16 + 1 + 8 + 1 + 32 + 4
ADDRESS_BYTES_MAX: Final = 300  # a DNS name (253) and a port
LOSS_BYTES_MAX: Final = 4096

_NAME: Final = re.compile(r"([0-9a-f]{16})-([0-9a-f]{8})-([0-9a-f]{32})\.seg", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentName:
    """A segment's name says where it begins and who wrote it, so a plain listing is in the order of the log."""

    start: Lsn
    epoch: Epoch
    holder: bytes

    def __str__(self) -> str:
        return f"{self.start:016x}-{self.epoch:08x}-{self.holder.hex()}.seg"


@lru_cache(maxsize=1024)
def parse_segment_name(name: str) -> SegmentName | None:
    """What the name says, or None if it is not a segment's name (index snapshots lie beside them)."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return SegmentName(start=Lsn(int(match[1], 16)), epoch=Epoch(int(match[2], 16)), holder=bytes.fromhex(match[3]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHeader:
    """The first record of a segment: who wrote it, under which configuration, and what lies before it."""

    volume_id: bytes
    membership: Membership
    epoch: Epoch
    holder: bytes
    granted: frozenset[Member]  # who is known to have granted this claim
    base: Base | None  # how much of which older segment counts; None at birth only
    trim: Lsn = FIRST_LSN  # nothing before it is retained
    retention: Retention = Retention()  # noqa: RUF009 (frozen)
    accepted_loss: str = ""  # what an operator gave up with --accept-loss, in words
    oldest: Lsn = FIRST_LSN  # no moment before it can be read or pinned: the trim rests on the image there
    paused_ms: int = 0  # how much of the clock up to this header no owner has lived through (may be below zero)
    format_version: int = FORMAT_VERSION

    @property
    def start(self) -> Lsn:
        return FIRST_LSN if self.base is None else Lsn(self.base.end)

    @property
    def chain_before(self) -> ChainHash:
        """The chain value that the header record continues."""
        return FIRST_CHAIN if self.base is None else ChainHash(self.base.chain)

    @property
    def name(self) -> SegmentName:
        return SegmentName(start=self.start, epoch=self.epoch, holder=self.holder)

    @property
    def facts(self) -> SegmentFacts:
        """What recovery needs to know of it."""
        return SegmentFacts(
            name=str(self.name),
            epoch=self.epoch,
            holder=self.holder,
            start=self.start,
            trim=self.trim,
            base=self.base,
            membership=self.membership,
            granted=self.granted,
        )


def _keys_of(granted: frozenset[Member]) -> list[bytes]:
    return [member.identity + member.incarnation for member in sorted(granted)]


def _base(segment: str, end: int, chain: bytes) -> Base:
    parsed = parse_segment_name(segment)
    if parsed is None or end <= parsed.start:
        raise ProtocolError("the back-link names no segment, or ends before it begins")
    return Base(segment=segment, end=end, chain=chain)


def _segment_header(
    format_version: int,
    volume_id: bytes,
    configurations: tuple[Configuration, ...],
    epoch: int,
    holder: bytes,
    granted: tuple[bytes, ...],
    *others: Any,
) -> SegmentHeader:
    configuration, *replaced = configurations
    membership = Membership(configuration=configuration, replaces=replaced[0] if replaced else None)
    plain = dict(zip(_PLAIN_FIELDS, others, strict=True))
    known = {member.identity + member.incarnation: member for member in membership.members}
    return SegmentHeader(
        format_version=format_version,
        volume_id=volume_id,
        membership=membership,
        epoch=Epoch(epoch),
        holder=holder,
        granted=frozenset(
            known.get(key, Member(identity=key[:IDENTITY_BYTES], incarnation=key[IDENTITY_BYTES:])) for key in granted
        ),
        retention=Retention(**{name.removeprefix(_OF_RETENTION): plain.pop(name) for name in _LIMITS}),
        **plain,
    )


_IDENTITY: Final = exact_bytes(IDENTITY_BYTES)
_MEMBER: Final = ArrayShape(
    Member, {"identity": _IDENTITY, "incarnation": _IDENTITY, "address": text(ADDRESS_BYTES_MAX)}, name="member"
)
_CONFIGURATION: Final = ArrayShape(
    Configuration,
    {
        "members": array_of(_MEMBER.shape(), MEMBERS_MAX),
        "acknowledgements": whole(MEMBERS_MAX, minimum=1),
    },
    name="configuration",
)
_BASE: Final = ArrayShape(
    _base, {"segment": text(NAME_BYTES), "end": NUMBER, "chain": exact_bytes(CHAIN_BYTES)}, name="base"
)
_PLAIN_FIELDS: Final = {
    "base": optional(_BASE.shape()),
    "trim": NUMBER,
    "retention.seconds": NUMBER,
    "retention.bytes": NUMBER,
    "accepted_loss": text(LOSS_BYTES_MAX),
    "paused_ms": whole(NUMBER_MAX, minimum=-NUMBER_MAX),  # since format version 2
    "oldest": NUMBER,  # since format version 3
}
_OF_RETENTION: Final = "retention."
_LIMITS: Final = tuple(name for name in _PLAIN_FIELDS if name.startswith(_OF_RETENTION))
_HEADER: Final = ArrayShape(
    _segment_header,
    {
        "format_version": whole(FORMAT_VERSION, minimum=1),
        "volume_id": _IDENTITY,
        "membership.configurations": array_of(_CONFIGURATION.shape(), 2, at_least=1),
        "epoch": whole(EPOCH_MAX, minimum=1),
        "holder": exact_bytes(HOLDER_BYTES),
        "granted": dataclasses.replace(array_of(exact_bytes(2 * IDENTITY_BYTES), 2 * MEMBERS_MAX), writes=_keys_of),
        **_PLAIN_FIELDS,
    },
    name="segment header",
    by_name=False,
)


def encode_segment_header(header: SegmentHeader) -> bytes:
    """The meta of a HEADER record."""
    values = _HEADER.write(header)
    return pack(values[: len(values) + header.format_version - FORMAT_VERSION])


@lru_cache(maxsize=256)
def decode_segment_header(meta: bytes) -> SegmentHeader:
    """DamagedJournalError for anything that no writer writes; TOO_NEW for another format version."""
    try:
        values = unpack(
            meta, array_max=2 * MEMBERS_MAX, string_bytes_max=LOSS_BYTES_MAX, binary_bytes_max=2 * IDENTITY_BYTES
        )
        version = values[0] if type(values) is list and values else None
        if type(version) is int and version > FORMAT_VERSION:
            raise DamagedJournalError(
                JournalCode.TOO_NEW, f"the segment has format version {version}; use a newer version to read it"
            )
        if type(values) is list and type(version) is int:
            values += _ADDED[max(0, version - 1) :]
        return _HEADER.read(values)
    except (ValueError, ProtocolError) as error:
        raise damaged(f"a segment's header makes no sense: {error}") from error


class SegmentReader:
    """Takes a segment's bytes in pieces of any size and gives its records, each checked against CRCs and chain.

    Start at the segment's beginning (`chain` None: the header record itself says what lies before it), or at any
    later record whose chain value before it is known. After a DAMAGED meta or payload the next call goes on after
    that record; after a damaged header there is no going on, since nothing says where the next record begins.
    """

    def __init__(self, *, lsn: Lsn, chain: ChainHash | None = None, payloads: bool = True) -> None:
        self.lsn = lsn
        self.chain = chain
        self.broken_end: Lsn | None = None  # where the part that is known to be broken ends, after a DAMAGED
        self._payloads = payloads
        self._buffer = bytearray()
        self._header: RecordHeader | None = None
        self._stuck: DamagedJournalError | None = None

    @property
    def stuck(self) -> bool:
        """Whether a damaged header has ended the reading."""
        return self._stuck is not None

    @property
    def buffered_bytes(self) -> int:
        """How much was fed beyond the last whole record."""
        return len(self._buffer)

    def feed(self, data: Buffer) -> None:
        """Add the bytes that follow."""
        self._buffer += data

    def next_record(self) -> Record | None:
        """The next whole record; None until more is fed. DamagedJournalError (DAMAGED, TOO_NEW) names its LSN."""
        if self._stuck is not None:
            raise self._stuck
        header = self._header or self._read_header()
        if header is None or len(self._buffer) < header.record_bytes:
            return None
        meta_end = HEADER_BYTES + header.meta_bytes
        with memoryview(self._buffer) as view:
            raw_header, meta = bytes(view[:HEADER_BYTES]), bytes(view[HEADER_BYTES:meta_end])
            payload = bytes(view[meta_end : header.record_bytes])
        before, self.chain = self.chain, header.chain
        self._header = None
        self.lsn = self.broken_end = header.end_lsn
        del self._buffer[: header.record_bytes]
        check_meta(header, meta)
        if before is None:
            self._check_opening(header, raw_header, meta)
        check_payload(header, payload)
        self.broken_end = None
        return Record(header=header, meta=meta, payload=payload if self._payloads else b"")

    def skip_payload(self) -> Record | None:
        """The next record without its payload, which is not checked and need not be fed; None if meta is missing.

        What is fed next must begin at `lsn`, which is behind the payload now. Not for the first record of a segment.
        """
        header = self._header or self._read_header()
        if header is None or self.chain is None or len(self._buffer) < HEADER_BYTES + header.meta_bytes:
            return None
        meta = bytes(self._buffer[HEADER_BYTES : HEADER_BYTES + header.meta_bytes])
        check_meta(header, meta)
        del self._buffer[: header.record_bytes]
        self._header = None
        self.lsn, self.chain = header.end_lsn, header.chain
        return Record(header=header, meta=meta, payload=b"")

    def _read_header(self) -> RecordHeader | None:
        if len(self._buffer) < HEADER_BYTES:
            return None
        try:
            with memoryview(self._buffer) as view:
                self._header = decode_header(view[:HEADER_BYTES], lsn=self.lsn, before=self.chain)
            if self.chain is None and self._header.kind != Kind.HEADER:
                raise damaged(f"the segment does not open with a header at LSN {self.lsn}", lsn=self.lsn)
        except DamagedJournalError as error:
            self.broken_end = Lsn(self.lsn + HEADER_BYTES)
            self._stuck = error
            raise
        return self._header

    def _check_opening(self, header: RecordHeader, raw: bytes, meta: bytes) -> None:
        opening = decode_segment_header(meta)
        if opening.start != header.lsn:
            raise damaged(f"the segment at LSN {header.lsn} says that it starts at {opening.start}", lsn=header.lsn)
        check_chain(memoryview(raw), lsn=header.lsn, before=opening.chain_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEnd:
    """Where a copy's whole records end. `torn_bytes` follow that were never acknowledged and are nobody's loss."""

    lsn: Lsn
    chain: ChainHash | None
    torn_bytes: int


def read_end(reader: SegmentReader, *, synced_lsn: Lsn, error: DamagedJournalError | None = None) -> SegmentEnd:
    """What the end of a copy means, when all of its bytes were fed and `reader` gave None or raised `error`.

    Below the synced mark everything was once whole, so what is not whole there is damage: `error` is raised again (or
    DAMAGED for missing bytes). What reaches beyond the mark may never have been written whole: a torn tail.
    """
    end = Lsn(reader.lsn + reader.buffered_bytes)
    if error is not None and (error.code != JournalCode.DAMAGED or (reader.broken_end or end) <= synced_lsn):
        raise error
    if error is None and end < synced_lsn:
        raise damaged(f"the copy ends at LSN {end}, but it was synced up to LSN {synced_lsn}", lsn=end)
    return SegmentEnd(lsn=reader.lsn, chain=reader.chain, torn_bytes=reader.buffered_bytes)


assert META_BYTES_MAX >= 2 * MEMBERS_MAX * (4 * IDENTITY_BYTES + ADDRESS_BYTES_MAX + 32) + LOSS_BYTES_MAX + 1024
