"""Walking a segment of the chain: record by record on one copy, and from copy to copy where one cannot go on.

Belongs here: which bytes are read next, and what a copy that is damaged or ends means for the others. What is done with
records, and with damage, is each reader's: showing images, filling members, verifying, finding the end.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from journal.errors import JournalError
from journal.records.chain_rules import lost
from journal.records.segment import SegmentReader

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from journal.copies.copies import Copy
    from journal.records.chain_rules import ChainLink
    from journal.records.record import ChainHash, Lsn, Record

T = TypeVar("T")

_PIECE_BYTES: Final = 1 << 20
# Without payloads, small pieces are read, and a payload longer than what is left of one is stepped over; where there is
# none, pieces grow: each costs as much as some ten records.
_SKIPPING_PIECE_BYTES: Final = 64 * 1024


@dataclass(slots=True)
class Position:
    """How far a segment has been read, and the chain value there, once it is known."""

    lsn: Lsn
    chain: ChainHash | None = None


class SegmentWalk:
    """One copy's bytes of a segment from a position on, up to LSN `stop` if there is one.

    Call `feed`, then `next_record` until None. `whole_last`: the record that begins before `stop` is read to its end.
    `skip`: payloads are neither read nor checked.
    """

    def __init__(
        self,
        copy: Copy,
        link: ChainLink,
        at: Position,
        *,
        stop: int | None = None,
        whole_last: bool = False,
        skip: bool = False,
        payloads: bool = False,
    ) -> None:
        self.reader = SegmentReader(lsn=at.lsn, chain=at.chain, payloads=payloads)
        self._copy = copy
        self._link = link
        self._stop = stop
        self._whole_last = whole_last
        self._skip = skip
        self._fed = int(at.lsn)
        self._piece_bytes = _SKIPPING_PIECE_BYTES // 2 if skip else _PIECE_BYTES  # it grows before it is used

    async def feed(self) -> bytes:
        """Read what follows and take it; nothing at the end of the copy or of the walk. JournalError, as the copy's."""
        if self._skip:
            stepping = self.reader.lsn > self._fed
            self._piece_bytes = _SKIPPING_PIECE_BYTES if stepping else min(2 * self._piece_bytes, _PIECE_BYTES)
            self._fed = max(self._fed, self.reader.lsn)
        length = self._piece_bytes
        if self._stop is not None and self._fed < self._stop:
            length = min(length, self._stop - self._fed)
        elif self._stop is not None and not self._whole_last:
            return b""
        piece = await self._copy.read(self._link.segment, self._fed - self._link.start, length)
        self.reader.feed(piece)
        self._fed += len(piece)
        return piece

    def next_record(self) -> Record | None:
        """The next whole record, or None. DamagedJournalError: then `reader` says whether there is any going on."""
        if self._skip and self.reader.chain is not None:
            return self.reader.skip_payload()
        return self.reader.next_record()


async def completing(
    copies: Sequence[Copy], link: ChainLink, at: Position, stop: int, walk: Callable[[Copy], AsyncGenerator[T, None]]
) -> AsyncGenerator[T, None]:
    """What `walk` gives of a segment, of one copy after the other: each goes on where the one before could not.

    `walk` moves `at` along. Raises what the first copy did, or LOST, if no copy has what comes next, up to `stop`.
    """
    while at.lsn < stop:
        before, failure = at.lsn, None
        for copy in copies:
            try:
                async with aclosing(walk(copy)) as walked:
                    async for found in walked:
                        yield found
            except JournalError as error:  # also that a server which was named has not the volume
                failure = failure or error
            if at.lsn >= stop:
                return
        if at.lsn == before:  # nobody could go on
            raise failure or lost(at.lsn, f"no copy that answers has the record at LSN {at.lsn}, in {link.segment}")
