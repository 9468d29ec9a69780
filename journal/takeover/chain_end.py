"""The end of the chosen chain, found in the copies that answer, and the image there.

Belongs here: reading. What a copy's view of a record means is decided in chain_rules.py; which chain, in takeover.py.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from journal.copies.history import History, read_header
from journal.copies.segment_walk import Position, SegmentWalk
from journal.copies.volume_reader import VolumeReader, whole_snapshot
from journal.errors import DamagedJournalError, JournalCode, JournalError
from journal.image.index_snapshot import SnapshotObject, snapshots_on_chain
from journal.records.chain_rules import END, Base, RecordView, Sight, chain_of, lost, next_record
from journal.records.record import Lsn, Record
from journal.records.segment import SegmentHeader, decode_segment_header, parse_segment_name
from sos_client.nurseries import together

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from journal.copies.copies import Copy
    from journal.image.image import Image
    from journal.records.chain_rules import ChainLink, SegmentFacts
    from journal.records.record import ChainHash as ChainValue
    from journal.records.segment import SegmentName
    from journal.records.stored_objects import CopiedObject

_READERS_MAX = 8
_HEADERS_EACH = 8  # each reader has a connection of its own, which costs as much as some headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What one copy has: its objects, the headers that are whole, and the segments whose header is damaged.

    `doubtful` are segments that its server calls damaged, wherever that is.
    """

    objects: dict[str, CopiedObject]
    headers: dict[str, SegmentHeader]
    damaged: frozenset[SegmentName]
    doubtful: frozenset[SegmentName]


async def read_holdings(copy: Copy, known: dict[str, SegmentHeader]) -> Holdings:
    """List a copy and read its headers. `known` has those that some copy has shown whole; it is added to.

    A header is the same on every copy, so one that is known is read again only to see whether it is whole here; not
    in a sealed segment, which is old: there are many, and damage in them is seen when they are read.
    """
    objects = await copy.list()
    segments = {name: parsed for name in objects if (parsed := parse_segment_name(name)) is not None}
    headers = {name: known[name] for name in segments if objects[name].sealed and name in known}
    damaged = set()
    to_read = [name for name in segments if name not in headers]
    left = iter(to_read)

    async def read_some() -> None:
        for name in left:
            try:
                record = await read_header(copy, name)
            except DamagedJournalError as error:
                if error.code is JournalCode.TOO_NEW:
                    raise
                damaged.add(segments[name])
                continue
            if record is not None:
                headers[name] = known.setdefault(name, decode_segment_header(record.meta))

    async with together() as nursery:
        for _ in range(min(_READERS_MAX, 1 + len(to_read) // _HEADERS_EACH)):
            nursery.start_soon(read_some)
    doubtful = frozenset(parsed for name, parsed in segments.items() if objects[name].damaged)
    return Holdings(objects=objects, headers=headers, damaged=frozenset(damaged), doubtful=doubtful)


class CopySilentError(Exception):
    """A copy no longer answers. What it would have shown is unknown: the takeover has to count again without it."""

    def __init__(self, copy: Copy) -> None:
        super().__init__(copy.label)
        self.copy = copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The chosen chain with its end, and the records of its last segment without their payloads."""

    copies: tuple[Copy, ...]  # the members' copies that were read
    links: tuple[ChainLink, ...]
    end: Base
    records: tuple[Record, ...]
    damaged: frozenset[str] = frozenset()  # labels of copies that do not hold all of it, up to the end, whole
    given_up: str = ""  # with accepted loss: what stopped the assembly, in words

    def known_before(self, lsn: int) -> tuple[Lsn, ChainValue] | None:
        """The last record's end at or before `lsn` in the last segment, and the chain value there."""
        at = bisect_right(self.records, lsn, key=lambda record: record.header.end_lsn)
        return None if at == 0 else (self.records[at - 1].header.end_lsn, self.records[at - 1].header.chain)

    @property
    def time_ms(self) -> int:
        """Of the last record."""
        return self.records[-1].header.time_ms


async def assemble(
    facts: Iterable[SegmentFacts], copies: Sequence[Copy], local: Copy | None, *, accept_loss: bool = False
) -> Assembly:
    """Record by record from all copies. DamagedJournalError (LOST) if one may have been acknowledged and is nowhere.

    The local copy was never synced: what it has whole helps, what it has not means nothing. With `accept_loss` the
    chain ends before a lost record. CopySilentError if a member's copy cannot be read any more.
    """
    links = chain_of(facts)
    last = links[-1]
    at = Position(Lsn(last.start))
    records: list[Record] = []
    damaged: dict[str, int] = {}  # by label of the copy, where it is damaged first
    given_up = ""
    while True:
        before = at.lsn
        views = []
        for copy in copies:
            views.append(await _advance(copy, last, at, records))
            if views[-1].sight is Sight.DAMAGED:
                damaged.setdefault(copy.label, at.lsn)
        if local is not None:
            await _help(local, last, at, records)
        if at.lsn > before:
            continue  # some copy had more: the others are asked again where it ended
        try:
            next_record(at.lsn, views)
        except DamagedJournalError as error:
            if not accept_loss or not records:
                raise
            given_up = error.message
        break
    if not records or at.chain is None:
        raise DamagedJournalError(
            JournalCode.LOST, f"LOST: no copy that answers has the header of {last.segment}", lsn=last.start
        )
    end = Base(segment=last.segment, end=at.lsn, chain=at.chain)
    return Assembly(
        copies=tuple(copies),
        links=links,
        end=end,
        records=tuple(records),
        damaged=frozenset(label for label, lsn in damaged.items() if lsn < end.end),
        given_up=given_up,
    )


async def _help(local: Copy, link: ChainLink, at: Position, records: list[Record]) -> None:
    try:
        await _advance(local, link, at, records)
    except CopySilentError:
        return  # a disk that cannot be read is a cache that is gone


async def _advance(copy: Copy, link: ChainLink, at: Position, records: list[Record]) -> RecordView:
    """Take every whole record that this copy has from `at` on; what it shows after them."""
    walk = SegmentWalk(copy, link, at)
    try:
        while await walk.feed():
            while (record := walk.next_record()) is not None:
                records.append(record)
                at.lsn, at.chain = walk.reader.lsn, walk.reader.chain
    except DamagedJournalError as error:
        if error.code is JournalCode.TOO_NEW:
            raise
        return RecordView(sight=Sight.DAMAGED)
    except JournalError as error:
        raise CopySilentError(copy) from error
    return RecordView(sight=Sight.TORN) if walk.reader.buffered_bytes else END


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingSnapshot:
    """An index snapshot that every member is to hold; its bytes are there if some member is to be given it."""

    stored: SnapshotObject
    data: bytes | None


async def standing_snapshots(
    assembly: Assembly, headers: dict[str, SegmentHeader], local: Copy | None
) -> list[StandingSnapshot]:
    """What stands for all that was trimmed: the newest index snapshot, and that of the oldest moment.

    Moments between the two are told from the second; without it, if it is whole nowhere. LOST if something was trimmed,
    and none is whole anywhere.
    """
    last = headers[assembly.links[-1].segment]
    held = [await copy.list() for copy in assembly.copies]
    boundaries = {base.end: base.chain for link in assembly.links if (base := headers[link.segment].base) is not None}
    sealed = {name for objects in held for name, stored in objects.items() if stored.sealed}
    others = {name for objects in held for name in objects} | set({} if local is None else await _listed(local))
    candidates = [
        str(one)
        for names in (sealed, others - sealed)  # one that is not sealed anywhere may have been cut short
        for one in snapshots_on_chain(names, boundaries, lsn=assembly.end.end)
        if one.lsn >= max(last.trim, last.oldest)
    ]
    copies = [*assembly.copies, *([] if local is None else [local])]
    newest = await _first_whole(candidates, held, copies)
    if newest is None and assembly.links[0].start > 0:
        start = assembly.links[0].start
        message = f"the log before LSN {start} was trimmed, and no index snapshot that stands for it is whole"
        raise lost(start, message)
    if newest is None or newest.stored.lsn == last.oldest or not last.oldest:
        return [] if newest is None else [newest]
    oldest = await _first_whole([one for one in candidates if _lsn_of(one) == last.oldest], held, copies)
    return [newest] if oldest is None else [newest, oldest]


async def _first_whole(
    candidates: Iterable[str], held: Sequence[dict[str, CopiedObject]], copies: Sequence[Copy]
) -> StandingSnapshot | None:
    """The first of these snapshots that all members hold sealed, or that a copy has whole."""
    for name in candidates:
        sizes = {objects[name].size if name in objects and objects[name].sealed else -1 for objects in held}
        if len(sizes) == 1 and -1 not in sizes:
            return StandingSnapshot(stored=SnapshotObject(name=name, size=sizes.pop()), data=None)
        try:
            data = await whole_snapshot(copies, name)
        except DamagedJournalError:
            continue  # another one and more of the log give the same
        return StandingSnapshot(stored=SnapshotObject(name=name, size=len(data)), data=data)
    return None


def _lsn_of(name: str) -> int:
    return SnapshotObject(name=name, size=0).lsn


async def _listed(local: Copy) -> Iterable[str]:
    try:
        return await local.list()
    except JournalError:
        return ()  # a disk that cannot be read is a cache that is gone


def history_of(
    assembly: Assembly, headers: dict[str, SegmentHeader], sizes: dict[tuple[str, str], int], copies: Sequence[Copy]
) -> History:
    """What was assembled, for reading records and files of it."""
    return History(
        copies=tuple(copies),
        links=assembly.links,
        headers=headers,
        times={},
        sizes=sizes,
        acknowledged_lsn=Lsn(assembly.end.end),
        problems={},
    )


async def image_of(volume: str, assembly: Assembly, headers: dict[str, SegmentHeader], copies: Sequence[Copy]) -> Image:
    """The image at the assembled end: from the last index snapshot that lies on the chain, and what follows it."""
    sizes: dict[tuple[str, str], int] = {}
    for copy in copies:
        objects = await copy.list()
        sizes |= {(copy.label, name): stored.size for name, stored in objects.items()}
    reader = VolumeReader(volume, copies)
    reader.chain = history_of(assembly, headers, sizes, copies)
    image = await reader.image_at(Lsn(assembly.links[-1].start))
    for record in assembly.records:
        image.apply_record(record)
    return image
