"""File content for readers of a volume: from memory, from the local copy, else fetched from a member and kept.

Every byte is checked against its extent's CRC before it is returned, wherever it came from.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio

from journal.copies.extents import is_whole, read_extent
from journal.records.paths import check_path
from journal.records.segment import parse_segment_name
from journal.volume import READ_PIECE_BYTES_MAX, OpenedFile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from journal.copies.local_log import LocalLog
    from journal.image.image import Image
    from journal.image.nodes import Extent
    from journal.owner.log import Log
    from journal.owner.replica_set import ReplicaSet


class Content:
    """Reads extents of what is shown: the acknowledged image."""

    def __init__(self, *, log: Log, shown: Image, local: LocalLog, replicas: ReplicaSet) -> None:
        self._log = log
        self._shown = shown
        self._local = local
        self._replicas = replicas
        self.joining = trio.Lock()
        """Held while a file is written again in fewer pieces: each of many who append to it would write all of it."""

    def read(self, path: str, offset: int, length: int | None) -> AsyncGenerator[bytes, None]:
        """Its bytes; it is opened when the first of them is wanted."""
        return self._pieces(lambda: self._extents(path), offset, length)

    def open_read(self, path: str, offset: int, length: int | None) -> OpenedFile:
        """A file as the acknowledged image has it now."""
        extents = self._extents(path)
        return OpenedFile(self._shown.tree.stat(path), self._pieces(lambda: extents, offset, length))

    def _extents(self, path: str) -> Sequence[Extent]:
        self._log.acknowledged.check_owner()
        return self._shown.tree.extents(check_path(path))

    async def _pieces(
        self, opened: Callable[[], Sequence[Extent]], offset: int, length: int | None
    ) -> AsyncGenerator[bytes, None]:
        end = None if length is None else offset + length
        at = 0
        for extent in opened():
            if end is not None and at >= end:
                return
            if at + extent.length > offset:
                wanted = (await self.extent(extent))[max(0, offset - at) : None if end is None else end - at]
                starts = range(0, len(wanted), READ_PIECE_BYTES_MAX)
                pieces = deque(wanted[start : start + READ_PIECE_BYTES_MAX] for start in starts)
                del wanted  # who takes a piece may be slow
                while pieces:
                    yield pieces.popleft()
            at += extent.length

    async def extent(self, extent: Extent) -> bytes:
        """The bytes. UNAVAILABLE while a member is silent that may have them, else DAMAGED (other bytes) or LOST."""
        near = self._in_memory(extent)
        if near is None:
            near = await self._local.read(extent.object, extent.offset, extent.length)
        if is_whole(extent, near):
            return near
        return await self._fetch(extent)

    def _in_memory(self, extent: Extent) -> bytes | None:
        name = parse_segment_name(extent.object)
        assert name is not None, "extents lie in segments"
        if name.epoch != self._log.epoch:
            return None
        return self._log.tail.find(name.start + extent.offset, extent.length)

    async def _fetch(self, extent: Extent) -> bytes:
        await self._replicas.wait_connected()
        copies = self._replicas.copies()
        not_asked = [str(member) for member in self._replicas.replicas if member not in copies]
        data = await read_extent(extent, copies.values(), not_asked=not_asked)
        self._local.keep_later(extent.object, extent.offset, data)
        return data
