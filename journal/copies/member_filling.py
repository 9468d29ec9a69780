"""Bringing a member up to where the log is: plain appends of whole segments and of the missing end of a segment.

Belongs here: what a member lacks, verified bytes of the log from any copy, the appends. Used by a takeover and, while
serving, by replication. A member's copy that reaches beyond a back-link is not wrong and is left as it is.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, TypeAlias

from journal.copies.copies import MemberCopy
from journal.copies.segment_walk import Position, SegmentWalk, completing
from journal.copies.volume_reader import read_whole
from journal.errors import DamagedJournalError
from journal.records.record import Lsn
from journal.records.stored_objects import CopiedObject, next_name, standing_objects
from sos_client.wire.errors import ErrorCode, RefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from journal.copies.copies import Copy
    from journal.records.chain_rules import ChainLink
    from journal.records.record import ChainHash
    from sos_client.client import SosClient

Known: TypeAlias = "tuple[Lsn, ChainHash]"
"""A place where a record begins, and the chain value before it."""


async def verified_bytes(
    copies: Sequence[Copy], link: ChainLink, *, start: int, end: int, known: Known | None = None
) -> AsyncGenerator[bytes, None]:
    """The segment's bytes in LSNs [start, end), each record checked; another copy steps in where one is not whole.

    Reading begins where the chain value is `known`, else at the segment's start: only that shows that what follows is
    the history it should be.
    """
    at = Position(*known) if known else Position(Lsn(link.start))
    async with aclosing(completing(copies, link, at, end, lambda copy: _checked(copy, link, at, end))) as pieces:
        async for lsn, piece in pieces:
            if lsn + len(piece) > start:
                yield piece[max(0, start - lsn) :]


async def _checked(copy: Copy, link: ChainLink, at: Position, end: int) -> AsyncGenerator[tuple[Lsn, bytes], None]:
    """(LSN, bytes of whole records from there) as long as this copy has them; moves `at` along."""
    walk = SegmentWalk(copy, link, at, stop=end)
    held = bytearray()
    while at.lsn < end and (piece := await walk.feed()):
        held += piece
        before, failure = at.lsn, None
        try:
            while walk.next_record() is not None:
                at.lsn, at.chain = walk.reader.lsn, walk.reader.chain
        except DamagedJournalError as error:
            failure = error  # what lies before it is whole all the same: another copy need only have the rest
        if at.lsn > before:
            whole = bytes(held[: at.lsn - before])
            del held[: len(whole)]
            yield before, whole
        if failure is not None:
            raise failure


class Filling:
    """One member being filled by the owner (epoch, holder)."""

    def __init__(self, client: SosClient, volume: str, *, epoch: int, holder: bytes) -> None:
        self._client = client
        self._volume = volume
        self._epoch = epoch
        self._holder = holder
        self._objects: dict[str, CopiedObject] = {}  # as listed last

    async def sizes(self) -> dict[str, tuple[int, bool]]:
        """(size, sealed) of each object that the member has."""
        self._objects = standing_objects(
            [
                CopiedObject(name=info.name, size=info.size, sealed=info.sealed)
                async for info in self._client.list_all(self._volume)
            ]
        )
        return {name: (one.size, one.sealed) for name, one in self._objects.items()}

    async def segment(
        self, link: ChainLink, *, size: int, end: int, copies: Sequence[Copy], known: Known | None = None
    ) -> None:
        """Append what the member lacks of a segment, of which it has `size` bytes, up to LSN `end`."""
        if link.start + size >= end:
            return
        async with self._client.append(
            self._volume, link.segment, size=size, epoch=self._epoch, holder=self._holder, resume=False
        ) as stream:
            async for piece in verified_bytes(copies, link, start=link.start + size, end=end, known=known):
                await stream.send(piece)

    async def write_again(self, link: ChainLink, *, end: int, copies: Sequence[Copy]) -> None:
        """Write a segment once more, up to LSN `end`: what the member has of it is damaged, or sealed too early.

        LOST if the copies together, the member's own included, have it not whole.
        """
        await self.sizes()
        name = next_name(self._objects[link.segment])
        async with self._client.append(
            self._volume, name, size=0, epoch=self._epoch, holder=self._holder, resume=False
        ) as stream:
            async for piece in verified_bytes(copies, link, start=link.start, end=end):
                await stream.send(piece)
        await self.seal(name, size=end - link.start)

    async def whole(self, name: str, data: bytes, *, size: int = 0) -> None:
        """Make the member have an object of exactly these bytes, of which it has the first `size`."""
        if size < len(data) or not data:
            async with self._client.append(
                self._volume, name, size=size, epoch=self._epoch, holder=self._holder, resume=False
            ) as stream:
                await stream.send(memoryview(data)[size:])

    async def snapshot(self, name: str, data: bytes) -> None:
        """Make the member have this index snapshot, sealed: what is not sealed may be cut short, and counts nowhere."""
        there = (await self.sizes()).get(name)
        if there == (len(data), True):
            return
        stored_as, size = name, 0
        if there is not None and await self._begins(name, data):
            size, _ = there
        elif there is not None:
            stored_as = next_name(self._objects[name])
        await self.whole(stored_as, data, size=size)
        await self.seal(stored_as, size=len(data))

    async def _begins(self, name: str, data: bytes) -> bool:
        """Whether what the member has of an object is the beginning of `data`, and can be gone on with."""
        one = self._objects[name]
        if one.sealed or one.size > len(data):
            return False
        try:
            present = await read_whole(MemberCopy(self._client, label="", volume=self._volume), name, one.size)
        except DamagedJournalError:
            return False
        return present == data[: one.size]

    async def delete(self, name: str) -> None:
        """Seal and delete an object that was listed. RefusedError (RETAINED) while the server keeps it."""
        one = self._objects[name]
        for form in (*one.others, one):  # what stands for the others goes last
            stored_as = form.stored_as or form.name
            if not form.sealed:
                await self.seal(stored_as, size=form.size)
            await self._client.delete(self._volume, stored_as, epoch=self._epoch, holder=self._holder)

    async def seal(self, name: str, *, size: int) -> None:
        """Nothing more will be appended to this object. A member that cannot seal it now will be asked again."""
        try:
            await self._client.seal(self._volume, name, size=size, epoch=self._epoch, holder=self._holder)
        except RefusedError as error:
            if error.code is not ErrorCode.SEALED:
                raise
