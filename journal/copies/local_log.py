"""The local copy of a volume's log: a cache that its owner locks. Losing it loses nothing.

Belongs here: segments as they are written (never waited for: the members' disks are what counts), ranges fetched from
members and kept for the next reader, and making room when the disk is full. All reads are checked by whoever asked.
Does not belong here: what the bytes mean.
"""

from __future__ import annotations

import errno
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from journal.copies.copies import DirectoryCopy
from journal.disk.disk import DiskLockedError, OpenMode, open_disk
from journal.errors import JournalCode, JournalError, UnavailableError
from sos_client.nurseries import background
from sos_client.serving.running import PREDECESSOR_PAUSE_SECONDS, PREDECESSOR_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from journal.disk.disk import Disk, File
    from journal.records.log_tail import LogTail
    from sos_client.serving.event_log import EventLog

FETCHED: Final = "fetched"  # beside the segments: ranges of segments that are not here as a whole
_BATCH_BYTES: Final = 4 << 20
_GATHER_SECONDS: Final = 0.01
"""How long the writer of segments lets records gather: each write is a hop to a thread, which competes with answers."""
_FETCHED_BYTES_MAX: Final = 16 << 20
"""Fetched and not yet kept. What is beyond it is read from a member once more when it is wanted again."""
_LATER_SECONDS: Final = 1.0
"""After a start, those who waited for it come first: an index snapshot of 262,144 files takes 36 ms to make."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class LocalLog:
    """One directory for one volume. `disk` None: nothing is kept, everything is read from members."""

    def __init__(self, disk: Disk | None, log: EventLog) -> None:
        self._log = log
        self.copy = None if disk is None else DirectoryCopy(disk, label="the local copy")
        self._disk = disk
        self._writing: tuple[str, File] | None = None  # the segment that grows
        self._broken: set[str] = set()  # segments of which the disk has not taken everything
        self._fetched: deque[tuple[str, int, bytes]] = deque()
        self._fetched_bytes = 0
        self._fetching = trio.lowlevel.ParkingLot()
        self._later: tuple[str, Callable[[], Awaitable[bytes]]] | None = None  # an object to be made and kept

    async def run(self, tail: LogTail, index: int, grown: trio.lowlevel.ParkingLot) -> None:
        """Write the tail's records from position `index` on, until cancelled. Nobody waits for it."""
        async with background() as nursery:
            nursery.start_soon(self._store_later)
            nursery.start_soon(self._keep_fetched)
            await self._write_tail(tail, index, grown)

    async def _write_tail(self, tail: LogTail, index: int, grown: trio.lowlevel.ParkingLot) -> None:
        while True:
            try:
                batch, index = tail.take(index, _BATCH_BYTES)
            except LookupError:  # slower than the members: what was missed is fetched from them when it is wanted
                index = tail.next_index
                continue
            if batch is None:
                await grown.park()
                await trio.sleep(_GATHER_SECONDS)
            else:
                await self._write(str(batch.segment.name), batch.lsn - batch.segment.start, batch.data)

    async def read(self, name: str, offset: int, length: int) -> bytes:
        """What is here of a range; empty if nothing is, or nothing but zeros. Unchecked."""
        if self._disk is None:
            return b""
        for path in (name, f"{FETCHED}/{name}"):
            try:
                file = await self._disk.open(path, OpenMode.READ)
            except OSError:
                continue
            try:
                piece = await file.read(offset, length)
            except OSError:
                continue
            finally:
                file.close()
            if len(piece) == length and piece != bytes(length):  # else a hole, whose CRC a content may have, too
                return piece
        return b""

    def keep_later(self, name: str, offset: int, data: bytes) -> None:
        """Keep a range that was fetched from a member, if there is room; whoever wanted it does not wait for that."""
        if self._disk is not None and self._fetched_bytes + len(data) <= _FETCHED_BYTES_MAX:
            self._fetched.append((name, offset, data))
            self._fetched_bytes += len(data)
            self._fetching.unpark()

    async def _keep_fetched(self) -> None:
        while True:
            while self._fetched:
                name, offset, data = self._fetched.popleft()
                await self.keep(name, offset, data)
                self._fetched_bytes -= len(data)
            await self._fetching.park()

    async def keep(self, name: str, offset: int, data: bytes) -> None:
        """Keep a range, if there is room."""
        if self._disk is None:
            return
        try:
            if not await self._disk.exists(FETCHED):
                await self._disk.make_directory(FETCHED)
            await self._write_at(f"{FETCHED}/{name}", offset, data)
        except OSError as error:
            await self._make_room(error)

    async def store(self, name: str, data: bytes) -> None:
        """Keep a whole object."""
        if self._disk is None:
            return
        try:
            await self._write_at(name, 0, data)
        except OSError as error:
            await self._make_room(error)

    def store_later(self, name: str, make: Callable[[], Awaitable[bytes]]) -> None:
        """Keep a whole object that is made only when the service has served for a moment. One at most."""
        self._later = name, make

    async def _store_later(self) -> None:
        if self._later is not None and self._disk is not None:
            await trio.sleep(_LATER_SECONDS)
            name, make = self._later
            self._later = None
            await self.store(name, await make())

    async def forget(self, name: str) -> None:
        """Remove whatever is kept of an object."""
        self._broken.discard(name)
        if self._writing is not None and self._writing[0] == name:
            self.close()
        for path in (name, f"{FETCHED}/{name}"):
            if self._disk is not None:
                try:
                    await self._disk.unlink(path)
                except OSError:
                    continue  # it was not there; or it stays, and is only a cache

    async def names(self) -> list[str]:
        """Objects of which something is kept as a whole."""
        if self.copy is None:
            return []
        try:
            return sorted(await self.copy.list())
        except JournalError as error:
            self._log.warning("the local copy cannot be listed", error=str(error))
            return []

    def close(self) -> None:
        """Give the handle back."""
        if self._writing is not None:
            self._writing[1].close()
            self._writing = None

    async def _write(self, name: str, offset: int, data: bytes) -> None:
        if self._disk is None or name in self._broken:
            return
        try:
            if self._writing is None or self._writing[0] != name:
                self.close()
                self._writing = (name, await self._open(name))
            await self._writing[1].write(offset, [data])
        except OSError as error:
            self._log.warning(
                "the local copy of a segment is given up: it is read from members", object=name, error=str(error)
            )
            await self.forget(name)
            self._broken.add(name)
            await self._make_room(error)

    async def _make_room(self, error: OSError) -> None:
        """The disk is full: everything fetched goes, then the oldest segment."""
        if error.errno not in _FULL or self._disk is None:
            return
        try:
            fetched = [f"{FETCHED}/{name}" for name in await self._disk.list_directory(FETCHED)]
        except OSError:
            fetched = []
        oldest = [name for name in await self.names() if name not in self._broken][:1]
        for path in fetched or oldest:
            try:
                await self._disk.unlink(path)
            except OSError as failure:
                self._log.warning("something cannot be removed from the local copy", path=path, error=str(failure))

    async def _write_at(self, path: str, offset: int, data: bytes) -> None:
        file = await self._open(path)
        try:
            await file.write(offset, [data])
        finally:
            file.close()

    async def _open(self, path: str) -> File:
        """Open for writing; the file is made if there is none."""
        assert self._disk is not None
        try:
            return await self._disk.open(path, OpenMode.WRITE)
        except FileNotFoundError:
            return await self._disk.open(path, OpenMode.CREATE)


@asynccontextmanager
async def open_local_log(directory: Path | Disk | None, volume: str, log: EventLog) -> AsyncIterator[LocalLog]:
    """The local copy in `directory/volume`, locked; a Disk given is taken as it is. None: no local copy is kept.

    UnavailableError (LOCKED) after 15 s in which somebody else had it.
    """
    async with AsyncExitStack() as stack:
        if isinstance(directory, Path):
            disk: Disk | None = await stack.enter_async_context(open_disk(directory / volume, create=True))
        else:
            disk = directory
        if disk is not None:
            await _lock(disk, volume)
        local = LocalLog(disk, log)
        stack.callback(local.close)
        yield local


async def _lock(disk: Disk, volume: str) -> None:
    give_up_at = trio.current_time() + PREDECESSOR_SECONDS
    while True:
        try:
            await disk.lock()
        except DiskLockedError as error:
            if trio.current_time() >= give_up_at:
                message = f"another process uses the local copy of volume {volume}; one service owns it"
                raise UnavailableError(JournalCode.LOCKED, message) from error
        else:
            return
        await trio.sleep(PREDECESSOR_PAUSE_SECONDS)
