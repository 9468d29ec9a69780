"""Reading a volume without owning it, from any copies: local directory, SOS servers, or both.

Belongs here: choosing the chain, reading records one after another with another copy stepping in where one is damaged
or ends, images of any moment in retention, and file content by extents. What is read is checked, always: damage is
never returned. Whoever is not the owner believes nothing after the highest acknowledged LSN found in records.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from journal.checkpoint.layout import batch_of
from journal.copies.copies import MemberCopy
from journal.copies.extents import read_extent, read_group
from journal.copies.history import History, read_chain
from journal.copies.moved_batches import lsn_of_moved_batch
from journal.errors import JournalCode, JournalError, UnavailableError, refused
from journal.image.image import Image
from journal.image.index_snapshot import checked_snapshot, snapshots_on_chain
from journal.image.nodes import Extent
from journal.records.chain_rules import lost
from journal.records.change import CONTENT_KINDS, content_path, decode_change
from journal.records.moments import AtBatch, AtLsn, AtTime
from journal.records.record import PAYLOAD_BYTES_MAX, Lsn
from journal.records.shards import HOME, parse_shard
from sos_client.serving.interpreter import without_collecting

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from journal.copies.copies import Copy
    from journal.records.chain_rules import ChainLink
    from journal.records.moments import Moment
    from journal.records.record import ChainHash as ChainValue
    from journal.records.record import Record, RecordHeader
    from journal.records.segment import SegmentHeader

_WHOLE_PIECE_BYTES: Final = 64 << 20  # of what is wanted in memory as a whole: joining costs as much as reading


class VolumeReader:
    """A volume as it was when it was opened; `refresh` looks again. Errors are JournalError."""

    def __init__(self, volume: str, copies: Sequence[Copy], *, unopened: Sequence[str] = ()) -> None:
        """`unopened`: names of other copies that were meant to be read, and could not be opened."""
        self.volume = volume
        self.copies = tuple(copies)
        self.unopened = tuple(unopened)
        self.chain: History
        self._known: History | None = None
        self.problems: dict[str, JournalError] = {}  # copies that could not be read, by label

    async def refresh(self) -> None:
        """Choose the chain from what the copies have now. VOLUME_NOT_FOUND, UNAVAILABLE, LOST, DAMAGED, TOO_NEW."""
        self.chain = self._known = await read_chain(self.volume, self.copies, known=self._known, unopened=self.unopened)
        self.problems = self.chain.problems

    @property
    def journals(self) -> Sequence[VolumeReader]:
        """Readers of each journal that this one reads: of its shards, if the volume is spread."""
        return (self,)

    @property
    def header(self) -> SegmentHeader:
        """The newest header."""
        return self.chain.headers[self.chain.links[-1].segment]

    def members_without_copy(self) -> list[str]:
        """Addresses of the members that no copy here is of."""
        read = {copy.client.server_identity for copy in self.copies if isinstance(copy, MemberCopy)}
        labels = {copy.label for copy in self.copies}  # a server that was wiped answers there, and says so itself
        members = self.header.membership.members
        return [one.address for one in members if one.identity not in read and one.address not in labels]

    def _not_asked(self) -> list[str]:
        """Who else may have what these copies have not. A directory that is looked into by itself is all there is."""
        if not self.unopened and not any(isinstance(copy, MemberCopy) for copy in self.copies):
            return []
        return list(dict.fromkeys([*self.unopened, *self.members_without_copy()]))

    @property
    def acknowledged_lsn(self) -> Lsn:
        """Up to here every record is known to be acknowledged."""
        return self.chain.acknowledged_lsn

    @property
    def oldest_lsn(self) -> Lsn:
        """The oldest moment that can be read: the first index snapshot that the trim has left, or the beginning."""
        first = self.chain.links[0].start
        if first == 0:
            return Lsn(0)
        usable = snapshots_on_chain(self.chain.names, self.chain.boundaries, lsn=self.acknowledged_lsn)
        return min((one.lsn for one in usable if one.lsn >= self.header.oldest), default=self.acknowledged_lsn)

    def lengths(self) -> dict[int, int]:
        """Where each retained segment begins, and how long the acknowledged part of it is."""
        now = self.acknowledged_lsn
        ends = ((link.start, now if link.end is None else min(link.end, now)) for link in self.chain.links)
        return {start: max(0, end - start) for start, end in ends}

    async def chain_at(self, lsn: int) -> ChainValue | None:
        """The chain value where a record ends; None if none ends there, or it is not kept."""
        if lsn < self.chain.links[0].start:
            return None
        link = self.chain.object_at(lsn)
        if lsn == link.start:
            return self.chain.headers[link.segment].chain_before
        found: RecordHeader | None = None
        async with aclosing(self.chain.segment_records(link, lsn, payloads=False)) as records:
            async for record in records:
                found = record.header
        return found.chain if found is not None and found.end_lsn == lsn else None

    def records(
        self, start: int = 0, end: int | None = None, *, payloads: bool = False
    ) -> AsyncGenerator[Record, None]:
        """Acknowledged records of the retained chain that begin in [start, end).

        Without payloads, those are not read.
        """
        return self.chain.records(start, self.acknowledged_lsn if end is None else end, payloads=payloads)

    async def image(self, moment: Moment, *, path: str = "") -> Image:
        """The volume as of a moment. For `batch:N`, `path` says which query. OUT_OF_RETENTION, NOT_FOUND, DAMAGED."""
        return await self.image_at(await self.lsn_of(moment, path=path))

    async def image_at(self, lsn: Lsn) -> Image:
        """The image after the last acknowledged record that ends at or before `lsn`."""
        lsn = min(lsn, self.acknowledged_lsn)
        image = await self._nearest_image(lsn)
        async with aclosing(self.records(image.lsn, lsn)) as records:
            async for record in records:
                if record.header.end_lsn > lsn:
                    break
                image.apply_record(record)
        return image

    async def _nearest_image(self, lsn: Lsn) -> Image:
        failures = []
        for name in snapshots_on_chain(self.chain.names, self.chain.boundaries, lsn=lsn):
            if name.lsn < self.header.oldest:
                break  # a member that was away has it still; what its image refers to may be gone
            for copy in self.copies:
                size = self.chain.sizes.get((copy.label, str(name)))
                if size is None:
                    continue
                try:
                    data = await read_whole(copy, str(name), size)
                    with without_collecting():
                        return checked_snapshot(str(name), data)
                except JournalError as error:
                    failures.append(error)  # another copy, or an older snapshot and more of the log, gives the same
        if self.chain.links[0].start == 0:
            return Image()
        if failures:
            raise failures[0]
        what = f"the oldest moment that can be read is LSN {self.oldest_lsn}"
        if lsn >= self.oldest_lsn:
            what = f"the log before LSN {self.chain.links[0].start} is missing, and no index snapshot stands for it"
        if self.chain.unheard and lsn >= self.header.oldest:  # which is kept, somewhere
            who = ", ".join(self.chain.unheard)
            raise UnavailableError(JournalCode.UNAVAILABLE, f"LSN {lsn} cannot be read: {what}; no answer from: {who}")
        message = f"LSN {lsn} is older than what is kept {self._where}: {what}"
        raise refused(JournalCode.OUT_OF_RETENTION, message, oldest=self.oldest_lsn)

    @property
    def _where(self) -> str:
        """A service's directory is a cache, and may have less than the members."""
        return "here (name the servers, too)" if self.chain.is_part else "anywhere"

    # ---- moments

    async def lsn_of(self, moment: Moment, *, path: str = "") -> Lsn:
        """Where a moment is in the log. OUT_OF_RETENTION, NOT_FOUND (no such batch)."""
        if isinstance(moment, AtLsn):
            if moment.lsn > self.acknowledged_lsn:
                raise refused(
                    JournalCode.NOT_FOUND, f"LSN {moment.lsn} is not reached yet: now is {self.acknowledged_lsn}"
                )
            return moment.lsn
        if isinstance(moment, AtTime):
            return await self._lsn_at_time(moment.time_ms)
        if isinstance(moment, AtBatch):
            return await self._lsn_of_batch(moment.batch, path)
        return self.acknowledged_lsn

    async def _lsn_at_time(self, time_ms: int) -> Lsn:
        starts = [link.start for link in self.chain.links]
        first = 0
        for index, link in enumerate(self.chain.links):  # whole segments that begin later need not be read
            if self.chain.times[link.segment] <= time_ms:
                first = index
        found: Lsn | None = None
        async with aclosing(self.records(starts[first])) as records:
            async for record in records:
                if record.header.time_ms > time_ms:
                    break
                found = record.header.end_lsn
        if found is None:
            raise refused(JournalCode.OUT_OF_RETENTION, "nothing that is kept is as old as that")
        return found

    async def _lsn_of_batch(self, batch: int, path: str) -> Lsn:
        """The end of the last record that made `commits/N` of the query that `path` lies in."""
        mine: dict[str, Lsn] = {}
        committed = set() if path else _queries_beyond(await self.image_at(self.acknowledged_lsn), batch)
        for link in reversed(self.chain.links):  # newest first: recent batches are what is mostly asked for
            found = await self._commits_of(batch, link)
            within = {query: lsn for query, lsn in found.items() if f"{path}/".startswith(f"{query}/") or not query}
            below = {query: lsn for query, lsn in found.items() if not path or f"{query}/".startswith(f"{path}/")}
            mine = (within or below) | mine
            if mine and committed <= mine.keys():
                break
        if len(mine) == 1:
            return next(iter(mine.values()))
        if not mine and (moved := await lsn_of_moved_batch(self, batch, path)) is not None:
            return moved
        if not mine:
            where = f"{path}, above it or below it," if path else "/"
            message = f"no query at {where} has committed batch {batch} in the time that is kept"
            shard = parse_shard(self.volume)
            if shard is not None and shard.index != HOME:
                message += f"; this shard never has commits: say {shard.volume}, which knows batches, or an LSN or time"
            raise refused(JournalCode.NOT_FOUND, message)
        queries = ", ".join(sorted(mine))
        raise refused(JournalCode.BAD_REQUEST, f"several queries have a batch {batch}: say which of {queries}")

    async def _commits_of(self, batch: int, link: ChainLink) -> dict[str, Lsn]:
        """Where this segment has the commit of a batch, query by query."""
        found: dict[str, Lsn] = {}
        end = self.acknowledged_lsn if link.end is None else min(link.end, self.acknowledged_lsn)
        async for record in self.records(link.start, end):
            committed = batch_of(_target_of(record) or "")
            if committed is not None and committed[1:] == ("commits", batch):
                found[committed[0]] = record.header.end_lsn
        return found

    # ---- content

    async def read_file(
        self, image: Image, path: str, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Bytes of a file as the image has it, each extent checked. NOT_FOUND, IS_DIRECTORY, DAMAGED, LOST."""
        end = None if length is None else offset + length
        at = 0
        for extent in image.tree.extents(path):
            if at + extent.length > offset and (end is None or at < end):
                piece = await self.read_extent(extent)
                yield piece[max(0, offset - at) : None if end is None else end - at]
            at += extent.length

    async def read_payload(self, header: RecordHeader) -> bytes:
        """The payload of a record of the chain, checked."""
        link = self.chain.object_at(header.lsn)
        offset = header.payload_lsn - link.start
        extent = Extent(object=link.segment, offset=offset, length=header.payload_bytes, crc=header.payload_crc)
        return await self.read_extent(extent)

    async def read_extent(self, extent: Extent) -> bytes:
        """The extent's bytes from whichever copy has them whole. UNAVAILABLE, DAMAGED, LOST."""
        assert extent.length <= PAYLOAD_BYTES_MAX
        return await read_extent(extent, self.copies, not_asked=self._not_asked())

    async def read_group(self, extents: list[Extent]) -> list[bytes]:
        """The same for extents of one group (extents.py), read as one range."""
        return await read_group(self.copies, extents, not_asked=self._not_asked())

    def moments_of(self, image: Image) -> Mapping[str, int]:
        """The LSN that an image is of, by the volume: several, where that is spread over shards."""
        return {self.volume: image.lsn}


async def open_reader(volume: str, copies: Sequence[Copy], *, unopened: Sequence[str] = ()) -> VolumeReader:
    """A reader of what these copies have now."""
    reader = VolumeReader(volume, copies, unopened=unopened)
    await reader.refresh()
    return reader


async def read_whole(copy: Copy, name: str, size: int) -> bytes:
    """A whole object, in pieces of a bounded size."""
    pieces, at = [], 0
    while at < size:
        piece = await copy.read(name, at, min(_WHOLE_PIECE_BYTES, size - at))
        if not piece:
            break
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


async def whole_snapshot(copies: Sequence[Copy], name: str) -> bytes:
    """An index snapshot's bytes, checked, from the first copy that has it whole. LOST if none that answers has."""
    for copy in copies:
        try:
            stored = (await copy.list()).get(name)
            if stored is None:
                continue
            data = await read_whole(copy, name, stored.size)
            with without_collecting():
                checked_snapshot(name, data)
        except JournalError:
            continue
        return data
    raise lost(0, f"no copy that answers has the index snapshot {name} whole")


def _queries_beyond(image: Image, batch: int) -> set[str]:
    """The queries in the tree that have committed this batch or a later one."""
    found = (batch_of(status.path) for status in image.tree.walk() if not status.is_directory)
    return {query for query, log, number in filter(None, found) if log == "commits" and number >= batch}


def _target_of(record: Record) -> str | None:
    """The path to which a record gives content."""
    if record.header.kind not in CONTENT_KINDS:
        return None
    return content_path(decode_change(record.header, record.meta))
