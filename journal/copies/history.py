"""The chosen chain of a volume's segments, read from copies.

Belongs here: headers, the order of segments, and records read across segments and copies. Nothing is written, nothing
is believed that does not follow from its predecessor by the chain value.
"""

from __future__ import annotations

import dataclasses
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Final

from journal.copies.copies import DirectoryCopy
from journal.copies.segment_walk import Position, SegmentWalk, completing
from journal.errors import DamagedJournalError, JournalCode, JournalError, UnavailableError, damaged, refused
from journal.records.chain_rules import ChainLink, chain_of
from journal.records.record import HEADER_BYTES, META_BYTES_MAX, Lsn, Record, RecordHeader
from journal.records.record import ChainHash as ChainValue
from journal.records.segment import SegmentHeader, SegmentReader, decode_segment_header, parse_segment_name

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from journal.copies.copies import Copy

_HEADER_BYTES_READ: Final = 4096  # a header record with 15 members has about 1.5 kB


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CopyEnd:
    """Where one copy's part of the chain ends, the time of its last record, and what that says was acknowledged."""

    lsn: Lsn
    time_ms: int
    acknowledged_lsn: Lsn
    chain: ChainValue | None

    def after(self, header: RecordHeader, *, whole: bool) -> CopyEnd:
        """The end when this record has been read, which may be there in part only."""
        acknowledged_lsn = max(self.acknowledged_lsn, header.acknowledged_lsn)
        if not whole:
            return dataclasses.replace(self, acknowledged_lsn=acknowledged_lsn)
        return CopyEnd(
            lsn=header.end_lsn, time_ms=header.time_ms, acknowledged_lsn=acknowledged_lsn, chain=header.chain
        )


@dataclasses.dataclass(slots=True)
class History:
    """The retained history, oldest first, as the newest header tells it."""

    copies: tuple[Copy, ...]
    links: tuple[ChainLink, ...]
    headers: dict[str, SegmentHeader]
    times: dict[str, int]  # when each segment was opened
    sizes: dict[tuple[str, str], int]  # (copy, object)
    acknowledged_lsn: Lsn
    problems: dict[str, JournalError]
    unsealed: set[tuple[str, str]] = dataclasses.field(default_factory=set)  # of `sizes`, on servers
    doubtful: set[tuple[str, str]] = dataclasses.field(default_factory=set)  # of `sizes`, what servers call damaged
    ends: dict[str, CopyEnd] = dataclasses.field(default_factory=dict)  # by label of the copy
    positions: dict[str, Position] = dataclasses.field(default_factory=dict)  # how far each segment was read already
    unheard: tuple[str, ...] = ()  # who may have what these copies have not: named, and did not answer

    @property
    def is_part(self) -> bool:
        """Whether the copies have not even the whole retained history: a service's directory by itself."""
        first = self.headers[self.links[0].segment]
        return first.base is not None and first.base.end > self.headers[self.links[-1].segment].trim

    @property
    def names(self) -> set[str]:
        """All objects that any copy has."""
        return {name for _, name in self.sizes}

    @property
    def boundaries(self) -> dict[int, bytes]:
        """The chain value at each LSN where one segment of the chain ends and the next begins."""
        bases = (self.headers[link.segment].base for link in self.links)
        return {base.end: base.chain for base in bases if base is not None}

    def object_at(self, lsn: int) -> ChainLink:
        """The segment that a record at `lsn` lies in."""
        return next(link for link in reversed(self.links) if link.start <= lsn)

    async def records(self, start: int, end: int, *, payloads: bool) -> AsyncGenerator[Record, None]:
        """Records of the chain that begin in [start, end).

        Reading starts at the beginning of a segment, or where it was read up to before.
        """
        for link in self.links:
            stop = end if link.end is None else min(end, link.end)
            if stop <= start and link.end is not None:
                continue
            if link.start >= end:
                return
            async with aclosing(self.segment_records(link, stop, start=start, payloads=payloads)) as records:
                async for record in records:
                    if record.header.lsn >= start:
                        yield record

    def _position(self, link: ChainLink, start: int) -> Position:
        """Where to begin in a segment whose records from `start` on are wanted."""
        known = self.positions.get(link.segment)
        limit = start if link.end is None else min(start, link.end)
        return dataclasses.replace(known) if known and known.lsn <= limit else Position(lsn=Lsn(link.start))

    async def segment_records(
        self, link: ChainLink, stop: int, *, start: int = 0, payloads: bool
    ) -> AsyncGenerator[Record, None]:
        """Records of one segment before `stop`. DAMAGED, LOST, UNAVAILABLE if no copy has the next one whole."""
        at = self._position(link, start)

        def walk(copy: Copy) -> AsyncGenerator[Record, None]:
            return _records_of(copy, link, at, stop, payloads=payloads)

        with lost_if_all_were_heard(self.unheard):
            async with aclosing(completing(self.copies, link, at, stop, walk)) as records:
                async for record in records:
                    self.positions[link.segment] = at  # which moves along
                    yield record


async def _records_of(
    copy: Copy, link: ChainLink, at: Position, stop: int, *, payloads: bool
) -> AsyncGenerator[Record, None]:
    """Records from `at` on, as long as this copy has them whole; moves `at` along."""
    walk = SegmentWalk(copy, link, at, stop=stop, whole_last=True, skip=not payloads, payloads=payloads)
    while at.lsn < stop:
        piece = await walk.feed()
        while at.lsn < stop and (record := walk.next_record()) is not None:
            at.lsn, at.chain = walk.reader.lsn, walk.reader.chain
            yield record
        if not piece:
            return


async def read_chain(
    volume: str, copies: Sequence[Copy], *, known: History | None = None, unopened: Sequence[str] = ()
) -> History:
    """The chain that these copies tell. VOLUME_NOT_FOUND, UNAVAILABLE, LOST (all were heard), DAMAGED, TOO_NEW.

    What was read before (`known`) is not read again: headers and records never change. `unopened`: other copies' names.
    """
    sizes: dict[tuple[str, str], int] = {}
    unsealed: set[tuple[str, str]] = set()
    doubtful: set[tuple[str, str]] = set()
    problems: dict[str, JournalError] = {}
    answering = []
    for copy in copies:
        try:
            objects = await copy.list()
        except JournalError as error:
            problems[copy.label] = error
            continue
        answering.append(copy)
        sizes |= {(copy.label, name): stored.size for name, stored in objects.items()}
        doubtful |= {(copy.label, name) for name, stored in objects.items() if stored.damaged}
        if not isinstance(copy, DirectoryCopy):
            unsealed |= {(copy.label, name) for name, stored in objects.items() if not stored.sealed}
    headers = await _read_headers(answering, sizes, known)
    if not headers.whole:
        raise _nothing_found(volume, problems)
    silent = [label for label, problem in problems.items() if isinstance(problem, UnavailableError)]
    unheard = (*unopened, *silent)
    with lost_if_all_were_heard(unheard):
        links = _links(headers.whole, answering)
    chain = History(
        copies=tuple(answering),
        links=links,
        headers=headers.whole,
        times=headers.times,
        sizes=sizes,
        unsealed=unsealed,
        doubtful=doubtful,
        acknowledged_lsn=Lsn(0),
        problems=problems,
        positions={} if known is None else known.positions,
        unheard=unheard,
    )
    for copy in answering:
        end = chain.ends[copy.label] = await _end_of(chain, copy, None if known is None else known.ends.get(copy.label))
        if end.lsn > links[-1].start:
            chain.acknowledged_lsn = max(chain.acknowledged_lsn, end.acknowledged_lsn)
    return chain


@contextmanager
def lost_if_all_were_heard(unheard: Sequence[str]) -> Iterator[None]:
    """LOST becomes UNAVAILABLE while there are copies that were not heard: they may have what no other has."""
    try:
        yield
    except DamagedJournalError as error:
        if error.code is not JournalCode.LOST or not unheard:
            raise
        message = f"{error.message.removeprefix('LOST: ')}; no answer from: {', '.join(unheard)}"
        raise UnavailableError(JournalCode.UNAVAILABLE, message, **error.fields) from error


async def _end_of(chain: History, copy: Copy, before: CopyEnd | None) -> CopyEnd:
    """Where a copy's newest segment of the chain ends, and what its records say was acknowledged (torn ones, too)."""
    for link in reversed(chain.links):
        size = chain.sizes.get((copy.label, link.segment), 0)
        limit = link.start + size if link.end is None else min(link.end, link.start + size)
        end = CopyEnd(lsn=Lsn(link.start), time_ms=0, acknowledged_lsn=Lsn(0), chain=None)
        if before is not None and before.chain is not None and link.start < before.lsn <= limit:
            end = before
        at = Position(lsn=end.lsn, chain=end.chain)
        try:
            async with aclosing(_records_of(copy, link, at, limit, payloads=False)) as records:
                async for record in records:
                    end = end.after(record.header, whole=record.header.end_lsn <= limit)
        except JournalError:
            pass  # what lies after is this copy's tail or its damage; the records tell which, when they are read
        if end.lsn > link.start:
            return end
    return CopyEnd(lsn=Lsn(0), time_ms=0, acknowledged_lsn=Lsn(0), chain=None)


@dataclasses.dataclass(slots=True)
class _Headers:
    """What the headers on all copies say."""

    whole: dict[str, SegmentHeader] = dataclasses.field(default_factory=dict)
    times: dict[str, int] = dataclasses.field(default_factory=dict)
    damaged: dict[str, DamagedJournalError] = dataclasses.field(default_factory=dict)

    def check_newest(self) -> None:
        """DAMAGED if a header that is whole nowhere may be newer than all others: its word is unknown."""
        newest = max((facts.age for facts in (header.facts for header in self.whole.values())), default=(0, 0, b""))
        for name, error in self.damaged.items():
            parsed = parse_segment_name(name)
            assert parsed is not None
            if name not in self.whole and (parsed.epoch, parsed.start, parsed.holder) > newest:
                raise error


async def _read_headers(copies: Sequence[Copy], sizes: dict[tuple[str, str], int], known: History | None) -> _Headers:
    """Each segment's header from the first copy that has it whole. TOO_NEW at once."""
    found = _Headers()
    if known is not None:
        still_there = {name for _, name in sizes}
        found.whole = {name: header for name, header in known.headers.items() if name in still_there}
        found.times = {name: known.times[name] for name in found.whole}
    for copy in copies:
        for label, name in sorted(sizes):
            if label != copy.label or name in found.whole or parse_segment_name(name) is None:
                continue
            try:
                record = await read_header(copy, name)
            except DamagedJournalError as error:
                if error.code == JournalCode.TOO_NEW:
                    raise
                found.damaged[name] = error
                continue
            except UnavailableError:
                continue
            if record is not None:
                found.whole[name] = decode_segment_header(record.meta)
                found.times[name] = record.header.time_ms
    found.check_newest()
    return found


async def read_header(copy: Copy, name: str) -> Record | None:
    """The checked header record of a segment; None if this copy has it in part only: then it does not exist there."""
    parsed = parse_segment_name(name)
    assert parsed is not None
    reader = SegmentReader(lsn=parsed.start)
    size = 0
    for length in (_HEADER_BYTES_READ, HEADER_BYTES + META_BYTES_MAX):
        piece = await copy.read(name, size, length - size)
        if not size and not any(piece):
            return None  # nothing but zeros: room that was made for it, and never written
        size += len(piece)
        reader.feed(piece)
        record = reader.next_record()
        if record is not None:
            if decode_segment_header(record.meta).name != parsed:
                raise damaged(f"{name} says that it is another segment", object=name)
            return record
        if size < length:
            return None
    return None


def _links(headers: dict[str, SegmentHeader], copies: Sequence[Copy]) -> tuple[ChainLink, ...]:
    """The chain. A service's directory alone is a cache: what it has in one piece up to now, if that is not all."""
    try:
        return chain_of([header.facts for header in headers.values()])
    except DamagedJournalError:
        if not all(isinstance(copy, DirectoryCopy) for copy in copies):
            raise
    current = max(headers.values(), key=lambda header: header.facts.age)
    links = [ChainLink(segment=str(current.name), start=current.start, end=None)]
    while current.base is not None and current.base.segment in headers:
        end, current = current.base.end, headers[current.base.segment]
        links.append(ChainLink(segment=str(current.name), start=current.start, end=end))
    return tuple(reversed(links))


def _nothing_found(volume: str, problems: dict[str, JournalError]) -> JournalError:
    others = [error for error in problems.values() if error.code != JournalCode.VOLUME_NOT_FOUND]
    if others:
        return others[0]
    return refused(JournalCode.VOLUME_NOT_FOUND, f"there is no volume {volume} here", volume=volume)
