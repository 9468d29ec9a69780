"""Segments: what they are called, how they open, how their records are read one after another. Pure.

Belongs here: names, the header record's meta (configuration, back-link), the reader that tells a torn tail from damage.
Which segments make the chain is decided in chain_rules.py from headers alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.errors import DamagedJournalError, JournalCode, damaged
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


def parse_segment_name(name: str) -> SegmentName | None:
    """What the name says, or None if it is no segment's name (index snapshots lie beside them)."""
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
    retention_seconds: int = 0  # 0: not limited by age
    retention_bytes: int = 0  # 0: not limited by size
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


def encode_segment_header(header: SegmentHeader) -> bytes:
    """The meta of a HEADER record."""
    base = header.base
    added = (header.paused_ms, header.oldest)[: header.format_version - 1]
    return pack(
        [
            header.format_version,
            header.volume_id,
            [_packable(configuration) for configuration in header.membership.configurations],
            header.epoch,
            header.holder,
            [member.identity + member.incarnation for member in sorted(header.granted)],
            None if base is None else [base.segment, base.end, base.chain],
            header.trim,
            header.retention_seconds,
            header.retention_bytes,
            header.accepted_loss,
            *added,
        ]
    )


def _packable(configuration: Configuration) -> list[object]:
    members = [[member.identity, member.incarnation, member.address] for member in configuration.members]
    return [members, configuration.acknowledgements]


def decode_segment_header(meta: bytes) -> SegmentHeader:
    """DamagedJournalError for anything that no writer writes; TOO_NEW for another format version."""
    try:
        values = unpack(
            meta, array_max=2 * MEMBERS_MAX, string_bytes_max=LOSS_BYTES_MAX, binary_bytes_max=2 * IDENTITY_BYTES
        )
        items = _items(values, None)
        if items and type(items[0]) is int and items[0] > FORMAT_VERSION:
            raise DamagedJournalError(
                JournalCode.TOO_NEW, f"the segment has format version {items[0]}; use a newer version to read it"
            )
        return _segment_header(items)
    except (ValueError, ProtocolError) as error:
        raise damaged(f"a segment's header makes no sense: {error}") from error


def _segment_header(items: list[object]) -> SegmentHeader:
    format_version = _number(items[0] if items else None, 1, FORMAT_VERSION)
    items = [*items, *_ADDED[format_version - 1 :]]
    _, volume_id, configurations, epoch, holder, granted, base, trim, seconds, size, loss, paused, oldest = items
    configuration, *replaced = (_configuration(value) for value in _items(configurations, None))
    if len(replaced) > 1:
        raise ValueError("more than one configuration is being replaced")
    membership = Membership(configuration=configuration, replaces=replaced[0] if replaced else None)
    known = {member.identity + member.incarnation: member for member in membership.members}
    keys = [_exactly(key, 2 * IDENTITY_BYTES) for key in _items(granted, None)]
    return SegmentHeader(
        format_version=format_version,
        volume_id=_exactly(volume_id, IDENTITY_BYTES),
        membership=membership,
        epoch=Epoch(_number(epoch, 1, EPOCH_MAX)),
        holder=_exactly(holder, HOLDER_BYTES),
        granted=frozenset(
            known.get(key, Member(identity=key[:IDENTITY_BYTES], incarnation=key[IDENTITY_BYTES:])) for key in keys
        ),
        base=None if base is None else _base(base),
        trim=Lsn(_number(trim)),
        retention_seconds=_number(seconds),
        retention_bytes=_number(size),
        accepted_loss=_text(loss, LOSS_BYTES_MAX),
        oldest=Lsn(_number(oldest)),
        paused_ms=_number(paused, -NUMBER_MAX),
    )


def _configuration(value: object) -> Configuration:
    members, acknowledgements = _items(value, 2)
    return Configuration(
        members=tuple(_member(member) for member in _items(members, None)),
        acknowledgements=_number(acknowledgements, 1, MEMBERS_MAX),
    )


def _member(value: object) -> Member:
    identity, incarnation, address = _items(value, 3)
    return Member(
        identity=_exactly(identity, IDENTITY_BYTES),
        incarnation=_exactly(incarnation, IDENTITY_BYTES),
        address=_text(address, ADDRESS_BYTES_MAX),
    )


def _base(value: object) -> Base:
    name, end, chain = _items(value, 3)
    segment = _text(name, NAME_BYTES)
    parsed = parse_segment_name(segment)
    if parsed is None or _number(end) <= parsed.start:
        raise ValueError("the back-link names no segment, or ends before it begins")
    return Base(segment=segment, end=_number(end), chain=_exactly(chain, CHAIN_BYTES))


def _items(value: object, count: int | None) -> list[object]:
    if type(value) is not list or (count is not None and len(value) != count):
        raise ValueError("an array of another length is expected")
    return value


def _number(value: object, least: int = 0, most: int = NUMBER_MAX) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError("a number is out of range")
    return value


def _text(value: object, bytes_max: int) -> str:
    if type(value) is not str or len(value.encode()) > bytes_max:
        raise ValueError("text is too long, or no text")
    return value


def _exactly(value: object, size: int) -> bytes:
    if type(value) is not bytes or len(value) != size:
        raise ValueError(f"{size} bytes are expected")
    return value


class SegmentReader:
    """Takes a segment's bytes in pieces of any size and gives its records, each checked against CRCs and chain.

    Start at the segment's beginning (`chain` None: the header record itself says what lies before it), or at any
    later record whose chain value before it is known. After a DAMAGED meta or payload the next call goes on behind
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
