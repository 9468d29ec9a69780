"""The log of the one owner: where it ends, its retained chain of segments, who has how much of it.

Belongs here: encoding records one after another, opening segments, the acknowledged LSN. What records do to the tree is
journal.py's business, how they reach the members replica.py's.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalCode, UnavailableError
from journal.owner.acknowledgement import Acknowledgement
from journal.records.chain_rules import Base, ChainLink
from journal.records.log_tail import LogTail
from journal.records.record import NO_CLIENT, Kind, Lsn, encode_record
from journal.records.segment import FORMAT_VERSION, encode_segment_header
from journal.records.settings import monotonic_ms
from journal.volume import OperationId

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.errors import JournalError
    from journal.owner.replica_progress import ReplicaProgress
    from journal.records.membership import Member
    from journal.records.record import RecordHeader
    from journal.records.segment import SegmentHeader
    from journal.records.settings import JournalSettings
    from journal.records.timekeeping import Timekeeper
    from journal.takeover.driver import LogEnd
    from journal.volume import Buffer

NOBODYS: Final = OperationId(client=NO_CLIENT, sequence=0)
RECORD_BYTES: Final = 1024
"""What a record that waits takes in memory besides its own bytes: the change that it makes, who waits for it."""


class Log:
    """Grows at `end`; `acknowledged.lsn` follows. One task at a time writes: nothing here awaits but `wait`."""

    def __init__(
        self,
        end: LogEnd,
        progress: ReplicaProgress,
        *,
        settings: JournalSettings,
        timekeeper: Timekeeper,
        wall_ms: Callable[[], int],
        acknowledge: Callable[[Lsn], None],
    ) -> None:
        """`acknowledge(lsn)` is called when k members have everything before `lsn` for the first time."""
        self.segment = end.segment
        self.holder = end.holder
        self.links = list(end.links)
        self.end: Lsn = end.lsn
        self.chain = end.chain
        self.progress = progress
        self.tail = LogTail(lsn=end.lsn, bytes_max=settings.tail_bytes_max)
        self.acknowledged = Acknowledgement(end.lsn, wait_seconds=settings.quorum_seconds)
        self.grown = trio.lowlevel.ParkingLot()
        self.granted: set[Member] = set(end.segment.granted)
        self._acknowledge = acknowledge
        self.segment_lived_ms = timekeeper.last_ms - end.segment.paused_ms  # when the segment at hand was opened
        self._opened_lsn = end.lsn
        self.waiting_records = 0  # until whoever applies them when they are acknowledged says that fewer are left
        self._unacknowledged_bytes_max = settings.unacknowledged_bytes_max
        self._timekeeper = timekeeper
        self._wall_ms = wall_ms

    @property
    def epoch(self) -> int:
        return self.segment.epoch

    @property
    def segment_bytes(self) -> int:
        """How long the segment at hand is."""
        return self.end - self.segment.start

    @property
    def is_full(self) -> bool:
        """Whether what is written and not acknowledged takes as much memory as it may."""
        waiting_bytes = self.end - self.acknowledged.lsn + RECORD_BYTES * self.waiting_records
        return waiting_bytes > self._unacknowledged_bytes_max

    @property
    def has_content(self) -> bool:
        """Whether the segment at hand has more than its header."""
        return self.end > self._opened_lsn

    def now_ms(self) -> int:
        """The volume's clock: never before the last record, and right after a sleep."""
        return self._timekeeper.now_ms(self._wall_ms(), monotonic_ms())

    def written_ms(self) -> int:
        """The earliest time that the next record can have in this segment."""
        return max(self._timekeeper.read(self._wall_ms(), monotonic_ms()), self._timekeeper.last_ms)

    def lived_ms(self) -> int:
        """How long owners have lived through this volume: what ages are counted by."""
        return self._timekeeper.lived_ms(self._wall_ms(), monotonic_ms())

    @property
    def has_slept(self) -> bool:
        """Whether the next record should be in another segment: times are late by a sleep until one begins."""
        return self._timekeeper.has_slept

    @property
    def may_step(self) -> bool:
        """Whether a new segment would bring times much nearer to the wall clock."""
        return self._timekeeper.may_step

    def clock_jump_ms(self) -> int:
        """How far somebody has set the wall clock since the last call; 0 mostly. Records' times never go back."""
        return self._timekeeper.jump_ms(self._wall_ms(), monotonic_ms())

    def encode(
        self,
        kind: Kind,
        meta: bytes,
        payload: Buffer = b"",
        payload_crc: int | None = None,
        operation: OperationId = NOBODYS,
    ) -> tuple[bytes, RecordHeader]:
        """The record that `add` may write next: everything before its payload as bytes, and its header."""
        now_ms = monotonic_ms()
        return encode_record(
            kind=kind,
            lsn=self.end,
            acknowledged_lsn=Lsn(self.acknowledged.lsn),
            time_ms=self._timekeeper.next_within(now_ms) or self._timekeeper.next_ms(self._wall_ms(), now_ms),
            meta=meta,
            chain=self.chain,
            payload=payload,
            payload_crc=payload_crc,
            client=operation.client,
            sequence=operation.sequence,
        )

    def add(self, header: RecordHeader, head: bytes, payload: Buffer = b"") -> None:
        """Write the record that was encoded last at the end of the log."""
        assert header.lsn == self.end, "a record is written where it was encoded for"
        self.waiting_records += 1
        self.tail.add(self.segment, b"".join((head, payload)) if payload else head)
        self.end, self.chain = header.end_lsn, header.chain
        if self.grown:
            self.grown.unpark_all()

    def open_segment(self, *, trim: int, oldest: int) -> tuple[RecordHeader, SegmentHeader]:
        """End the segment at hand, begin the next one with its header record."""
        self._timekeeper.correct()
        base = Base(segment=str(self.segment.name), end=self.end, chain=self.chain)
        self.links[-1] = dataclasses.replace(self.links[-1], end=self.end)
        self.segment = dataclasses.replace(
            self.segment,
            base=base,
            trim=Lsn(trim),
            oldest=Lsn(oldest),
            granted=frozenset(self.granted),
            accepted_loss="",
            format_version=FORMAT_VERSION,
            paused_ms=self.now_ms() - self.lived_ms(),
        )
        self.links.append(ChainLink(segment=str(self.segment.name), start=self.end, end=None))
        head, header = self.encode(Kind.HEADER, encode_segment_header(self.segment))
        self.add(header, head)
        self.segment_lived_ms, self._opened_lsn = header.time_ms - self.segment.paused_ms, self.end
        return header, self.segment

    def drop_before(self, lsn: int) -> list[ChainLink]:
        """Give up segments that end at or before `lsn`; returns them."""
        gone = [link for link in self.links if link.end is not None and link.end <= lsn]
        self.links = self.links[len(gone) :]
        return gone

    async def wait_room(self) -> None:
        """Bounded memory: wait until most of what was written is acknowledged. Nothing has been done yet."""
        if not self.is_full:
            return
        try:
            await self.acknowledged.wait((self.end + self.acknowledged.lsn) // 2)
        except UnavailableError as error:
            if error.code is JournalCode.OUTCOME_UNKNOWN:
                message = "too much waits for members that do not answer; the change was not made"
                raise UnavailableError(JournalCode.UNAVAILABLE, message) from error
            raise

    def advanced(self) -> None:
        """Some member has come further: acknowledge what k of them have."""
        if self.progress.acknowledged > self.acknowledged.lsn:
            self._acknowledge(Lsn(self.progress.acknowledged))

    def stop(self, reason: Callable[[], JournalError]) -> None:
        """Nothing more will be acknowledged."""
        self.acknowledged.stop(reason)
