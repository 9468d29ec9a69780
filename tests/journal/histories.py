"""Small logs made by the tests: segments of encoded records, as a writer would write them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from journal.records.chain_rules import Base
from journal.records.change import encode_change
from journal.records.membership import Configuration, Member, Membership
from journal.records.record import (
    FIRST_CHAIN,
    FIRST_LSN,
    NO_CLIENT,
    ChainHash,
    Epoch,
    Kind,
    Lsn,
    RecordHeader,
    encode_record,
)
from journal.records.segment import SegmentHeader, encode_segment_header

if TYPE_CHECKING:
    from journal.records.change import Change

FIRST_TIME_MS = 1_790_000_000_000
FIRST_EPOCH = Epoch(1)
VOLUME_ID = bytes(range(16))
MEMBERS = tuple(
    Member(identity=bytes([n]) * 16, incarnation=bytes([16 + n]) * 16, address=f"server-{n}:7400") for n in (1, 2, 3)
)
MEMBERSHIP = Membership(configuration=Configuration(members=MEMBERS, acknowledgements=2))


@dataclasses.dataclass
class History:
    """A log that grows: `segments` has the bytes of each segment by name, in order."""

    lsn: Lsn = FIRST_LSN
    chain: ChainHash = FIRST_CHAIN
    time_ms: int = FIRST_TIME_MS
    epoch: Epoch = FIRST_EPOCH
    holder: bytes = b"\x0a" * 16
    acknowledged: Lsn = FIRST_LSN
    membership: Membership = MEMBERSHIP
    segments: dict[str, bytearray] = dataclasses.field(default_factory=dict)
    headers: list[RecordHeader] = dataclasses.field(default_factory=list)

    def open_segment(self, *, epoch: int | None = None, trim: int = 0, paused_ms: int = 0) -> SegmentHeader:
        """Start the next segment; a new epoch has a holder of its own."""
        if epoch is not None:
            self.epoch, self.holder = Epoch(epoch), bytes([9 + epoch]) * 16
        base = None
        if self.segments:
            base = Base(segment=next(reversed(self.segments)), end=self.lsn, chain=self.chain)
        header = SegmentHeader(
            volume_id=VOLUME_ID,
            membership=self.membership,
            epoch=self.epoch,
            holder=self.holder,
            granted=frozenset(self.membership.members[:2]),
            base=base,
            trim=Lsn(trim),
            paused_ms=paused_ms,
        )
        self.segments[str(header.name)] = bytearray()
        self._add(Kind.HEADER, encode_segment_header(header))
        return header

    def add(
        self, change: Change, payload: bytes = b"", *, client: bytes = NO_CLIENT, sequence: int = 0
    ) -> RecordHeader:
        """Write one change; it is acknowledged at once."""
        if not self.segments:
            self.open_segment()
        return self._add(change.kind, encode_change(change), payload, client, sequence)

    def _add(
        self, kind: Kind, meta: bytes, payload: bytes = b"", client: bytes = NO_CLIENT, sequence: int = 0
    ) -> RecordHeader:
        data, header = encode_record(
            kind=kind,
            lsn=self.lsn,
            acknowledged_lsn=self.acknowledged,
            time_ms=self.time_ms,
            meta=meta,
            chain=self.chain,
            payload=payload,
            client=client,
            sequence=sequence,
        )
        last = next(reversed(self.segments))
        self.segments[last] += data + payload
        self.headers.append(header)
        self.acknowledged = self.lsn = header.end_lsn
        self.chain = header.chain
        self.time_ms += 1000
        return header
