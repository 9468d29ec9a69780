"""The end of the log in memory: what was written, until everybody who follows has taken it. Pure.

Belongs here: records as bytes in the order of their LSNs, readers' positions, what may be dropped. Whoever falls behind
what is kept reads the log elsewhere (member_filling.py) and comes back.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from journal.records.segment import SegmentHeader


class TailPart(NamedTuple):
    """Whole records of one segment that follow each other: one when it is added, as many as fit when it is taken."""

    segment: SegmentHeader
    lsn: int
    data: bytes

    @property
    def end(self) -> int:
        return self.lsn + len(self.data)


class LogTail:
    """Bounded by what may be dropped: what is acknowledged and not among the last `bytes_max` bytes."""

    def __init__(self, *, lsn: int, bytes_max: int) -> None:
        self.end = lsn
        self._bytes_max = bytes_max
        self._parts: deque[TailPart] = deque()
        self._dropped = 0  # how many parts came before the first one kept

    @property
    def start(self) -> int:
        """The first LSN kept."""
        return self._parts[0].lsn if self._parts else self.end

    @property
    def next_index(self) -> int:
        """Where a reader begins that has everything."""
        return self._dropped + len(self._parts)

    def add(self, segment: SegmentHeader, data: bytes) -> None:
        """One more record."""
        self._parts.append(TailPart(segment, self.end, data))
        self.end += len(data)

    def index_at(self, lsn: int) -> tuple[int, int] | None:
        """(position of the record that `lsn` lies in, how many bytes of it come before), None if it is not kept.

        A copy may end inside a record: it was cut off there. The log's end is a position, too.
        """
        if lsn == self.end:
            return self.next_index, 0
        at = self._part_at(lsn)
        return None if at is None else (self._dropped + at, lsn - self._parts[at].lsn)

    def take(self, index: int, bytes_max: int) -> tuple[TailPart | None, int]:
        """Records from a position on, of one segment, and the position after them; None if there are none yet.

        LookupError if they are no longer kept.
        """
        at = index - self._dropped
        if at < 0:
            raise LookupError("the reader has fallen behind")
        if at >= len(self._parts):
            return None, index
        first = self._parts[at]
        if at == len(self._parts) - 1:  # the usual case when nothing else is going on
            return first, index + 1
        chosen, size = [], 0
        while at < len(self._parts) and size < bytes_max:
            part = self._parts[at]
            if part.segment is not first.segment:
                break
            chosen.append(part.data)
            size += len(part.data)
            at += 1
        return TailPart(first.segment, first.lsn, b"".join(chosen)), at + self._dropped

    def find(self, lsn: int, length: int) -> bytes | None:
        """Bytes inside one kept record."""
        at = self._part_at(lsn)
        if at is None:
            return None
        part = self._parts[at]
        return part.data[lsn - part.lsn : lsn - part.lsn + length]

    def _part_at(self, lsn: int) -> int | None:
        low, high = 0, len(self._parts)
        while low < high:
            middle = (low + high) // 2
            if self._parts[middle].end <= lsn:
                low = middle + 1
            else:
                high = middle
        return None if low == len(self._parts) or self._parts[low].lsn > lsn else low

    def release(self, lsn: int) -> None:
        """Everything before `lsn` may be dropped, but for the last `bytes_max` bytes."""
        while self._parts and self._parts[0].end <= min(lsn, self.end - self._bytes_max):
            self._parts.popleft()
            self._dropped += 1
