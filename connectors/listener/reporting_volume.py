"""The ingest volume as its files are served: with one more file, which is written whenever somebody reads it.

What only the running listener knows (connections, credits, who waits) is there for whoever may read the volume, by the
file protocol as it is. It is in no listing and in no log, and nobody can write where it stands.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import trio

from connectors.ingest import places
from journal.volume import FileStatus, OpenedFile, pieces_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from journal.service.keeper import OwnedVolume

WRITTEN_AGAIN_SECONDS: Final = 1.0
"""A report is of this moment or the second before: who reads a long one in pieces gets pieces of one."""


class ReportingVolume:
    """An owned volume, all of it, and the file `places.STATUS`."""

    def __init__(self, volume: OwnedVolume, report: Callable[[], dict[str, Any]]) -> None:
        self._volume = volume
        self._report = report
        self._content = b""
        self._written_at = -WRITTEN_AGAIN_SECONDS
        self._modified_ms = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._volume, name)

    async def stat(self, path: str) -> FileStatus:
        """As the volume's."""
        if path != places.STATUS:
            return await self._volume.stat(path)
        await trio.lowlevel.checkpoint()
        now = trio.current_time()
        if now >= self._written_at + WRITTEN_AGAIN_SECONDS:
            report = self._report()
            self._modified_ms = max(self._modified_ms + 1, report["time_ms"])
            self._content = json.dumps(report, ensure_ascii=False, separators=(",", ":")).encode()
            self._written_at = now
        return FileStatus(places.STATUS, is_directory=False, size=len(self._content), modified_ms=self._modified_ms)

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        """As the volume's."""
        async with aclosing((await self.open_read(path, offset, length)).pieces) as pieces:
            async for piece in pieces:
                yield piece

    async def open_read(self, path: str, offset: int = 0, length: int | None = None) -> OpenedFile:
        """As the volume's."""
        if path != places.STATUS:
            return await self._volume.open_read(path, offset, length)
        return OpenedFile(await self.stat(path), pieces_of(self._content, offset, length))
