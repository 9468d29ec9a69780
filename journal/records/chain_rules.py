"""What counts of the copies that answer: the chain of segments, and its end, record by record.

Belongs here: which segments make the history (back-links alone decide), and what each copy's view of the next record
means: take it, stop, or refuse. Pure: the bytes are read and checked elsewhere, and arrive as views.
Does not belong here: whom to ask (takeover.py), what a record does (image.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from journal.errors import DamagedJournalError, JournalCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from journal.records.membership import Member, Membership


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Base:
    """A back-link: how much of which older segment counts, and the chain value there."""

    segment: str
    end: int
    chain: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """What a segment's header says about the past and the members. An incomplete header does not exist."""

    name: str
    epoch: int
    holder: bytes
    start: int
    trim: int  # nothing before it is retained; acknowledged before this header was written
    base: Base | None  # None only at birth
    membership: Membership
    granted: frozenset[Member]  # who had granted this epoch's claim when the header was written

    @property
    def age(self) -> tuple[int, int, bytes]:
        """The greatest is the newest. Two holders may share an epoch only if neither acknowledged anything in it."""
        return (self.epoch, self.start, self.holder)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLink:
    """One segment of the chosen chain. `end` is None for the last one: its end is assembled from the copies."""

    segment: str
    start: int
    end: int | None


def newest(facts: Iterable[SegmentFacts]) -> SegmentFacts:
    """The header with the highest epoch, whoever has it: it begins at or after everything acknowledged before it."""
    return max(facts, key=lambda one: one.age)


def chain_of(facts: Iterable[SegmentFacts]) -> tuple[ChainLink, ...]:
    """The retained history, oldest first, as the newest header's back-links tell it.

    LOST if a segment that a back-link names has no header on any answering copy.
    """
    by_name = {one.name: one for one in facts}
    last = newest(by_name.values())
    links = [ChainLink(segment=last.name, start=last.start, end=None)]
    current = last
    while current.base is not None and current.base.end > last.trim:
        base = current.base
        if base.segment not in by_name:
            raise lost(
                base.end, f"segment {base.segment}, which lies before LSN {current.start}, is on no member that answers"
            )
        current = by_name[base.segment]
        links.append(ChainLink(segment=current.name, start=current.start, end=base.end))
    return tuple(reversed(links))


class Sight(Enum):
    """What one copy shows where the next record should begin."""

    WHOLE = "whole"  # every check passed
    NOTHING = "nothing"  # the copy ends here
    TORN = "torn"  # the copy ends inside the record: it was never synced there as a whole
    DAMAGED = "damaged"  # the bytes are there, and are not what was synced


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordView:
    """One copy's view of the record at one LSN. `chain` and `end` are set for a whole one."""

    sight: Sight
    end: int = 0
    chain: bytes = b""


END = RecordView(sight=Sight.NOTHING)


def next_record(lsn: int, views: Sequence[RecordView]) -> RecordView:
    """The record at `lsn` if any copy has it whole, or END if every copy ends there.

    LOST if a copy is damaged there and none is whole: what was damaged may have been acknowledged. Also if two copies
    show different records at one place in one history, which no crash can cause.
    """
    whole = [view for view in views if view.sight is Sight.WHOLE]
    if whole:
        if any(view.chain != whole[0].chain for view in whole):
            raise lost(
                lsn,
                f"two copies show different records at LSN {lsn}; one of them was not written by this volume's owner",
            )
        return whole[0]
    if any(view.sight is Sight.DAMAGED for view in views):
        raise lost(lsn, f"the record at LSN {lsn} is damaged, and no copy that answers has it whole")
    return END


def lost(lsn: int, message: str) -> DamagedJournalError:
    """The one error for acknowledged records that no answering copy has."""
    return DamagedJournalError(JournalCode.LOST, f"LOST: {message}", lsn=lsn)
