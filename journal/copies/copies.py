"""Copies of a volume's objects, wherever they are: on an SOS server, or in a local directory.

Belongs here: listing and reading ranges, nothing about their meaning. Errors are translated here into UnavailableError
(this copy cannot be asked now) and DamagedJournalError (it says itself that its bytes are damaged).
"""

from __future__ import annotations

import errno
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from journal.disk.disk import DiskLockedError, OpenMode, open_disk
from journal.errors import JournalCode, JournalError, UnavailableError, damaged, journal_error, refused
from journal.image.index_snapshot import parse_snapshot_name
from journal.member_errors import member_errors
from journal.records.segment import parse_segment_name
from journal.records.stored_objects import CopiedObject, next_name, standing_objects
from sos_client.attempts import Deadlines
from sos_client.client import NamespaceInfo, SosClient, open_client
from sos_client.wire.errors import ErrorCode, RefusedError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from journal.disk.disk import Disk
    from journal.member_errors import Meanings


# Others have the same bytes: a server that is slow to answer is not worth waiting for.
_DEADLINES: Final = Deadlines(connect_seconds=3.0, answer_seconds=10.0, retry_seconds=3.0)


class Copy(Protocol):
    """One place that may have objects of the volume."""

    label: str

    async def list(self) -> dict[str, CopiedObject]:
        """Every segment and index snapshot that it has.

        RefusedByVolumeError (VOLUME_NOT_FOUND) if it has no such volume.
        """

    async def read(self, name: str, offset: int, length: int) -> bytes:
        """Bytes of an object, fewer where it ends or is damaged; none if it does not exist.

        DamagedJournalError if the first of them cannot be had.
        """

    async def read_at_once(self, name: str, offset: int, length: int) -> bytes:
        """The same, without listing anything first: perhaps of a damaged object that another one stands for by now.

        For those who can tell whether the bytes are right, and then ask `read`.
        """


class DirectoryCopy:
    """The local copy that a journal service keeps, or a backup. Reading takes no lock: its owner may be running."""

    def __init__(self, disk: Disk, *, label: str) -> None:
        self.label = label
        self._disk = disk
        self._locked = False

    async def list(self) -> dict[str, CopiedObject]:
        with _disk_errors(self.label):
            sizes = await self._disk.file_sizes("")
        return {name: CopiedObject(name=name, size=size) for name, size in sizes.items() if _is_ours(name)}

    async def read(self, name: str, offset: int, length: int) -> bytes:
        with _disk_errors(self.label):
            try:
                file = await self._disk.open(name, OpenMode.READ)
            except FileNotFoundError:
                return b""
            try:
                return await file.read(offset, length)
            finally:
                file.close()

    async def read_at_once(self, name: str, offset: int, length: int) -> bytes:
        return await self.read(name, offset, length)

    async def lock(self) -> None:
        """Let nobody else write there until it is closed. UnavailableError (LOCKED): a service, or somebody, does."""
        if not self._locked:
            with _disk_errors(self.label):
                await self._disk.lock()
            self._locked = True

    async def replace(self, name: str, data: bytes, *, present: bool) -> None:
        """Put a whole object in the place of what there is. UnavailableError (LOCKED) while the directory is in use."""
        await self.lock()
        with _disk_errors(self.label):
            partial = f"{name}.partial"
            if await self._disk.exists(partial):
                await self._disk.unlink(partial)
            file = await self._disk.open(partial, OpenMode.CREATE)
            try:
                await file.write(0, [data])
                await file.sync()
            finally:
                file.close()
            await self._disk.rename(partial, name)
            await self._disk.sync_directory("")


@asynccontextmanager
async def open_directory_copy(root: Path, volume: str) -> AsyncIterator[DirectoryCopy]:
    """The volume's objects in `root/volume`, or in `root` itself. UnavailableError if there is no such directory."""
    async with AsyncExitStack() as stack:
        with _disk_errors(str(root)):
            outer = await stack.enter_async_context(open_disk(root))
            place = root / volume if await outer.exists(volume) else root
            disk = await stack.enter_async_context(open_disk(place))  # the lock of a service is in there
        yield DirectoryCopy(disk, label=str(place))


class MemberCopy:
    """The copy on an SOS server."""

    def __init__(self, client: SosClient, *, label: str, volume: str) -> None:
        self.label = label
        self.client = client
        self._volume = volume
        self._stored_as: dict[str, str] | None = None  # as listed last, of what was written again

    async def list(self) -> dict[str, CopiedObject]:
        with _server_errors(self.label, self._volume):
            standing = standing_objects(
                [
                    CopiedObject(name=info.name, size=info.size, sealed=info.sealed, damaged=info.damaged)
                    async for info in self.client.list_all(self._volume)
                ]
            )
        self._stored_as = {name: one.stored_as for name, one in standing.items() if one.stored_as}
        return {name: one for name, one in standing.items() if _is_ours(name)}

    async def read(self, name: str, offset: int, length: int) -> bytes:
        if self._stored_as is None:
            await self.list()
        return await self.read_at_once(name, offset, length)

    async def read_at_once(self, name: str, offset: int, length: int) -> bytes:
        stored_as = (self._stored_as or {}).get(name, name)
        with _server_errors(self.label, self._volume):
            try:
                return await self.client.get(self._volume, stored_as, offset, length)
            except RefusedError as error:
                if error.code == ErrorCode.NOT_FOUND:
                    self._stored_as = None  # it may have been written again since
                    return b""
                whole = error.fields.get("offset")
                if error.code == ErrorCode.DAMAGED and isinstance(whole, int) and whole > offset:
                    return await self.client.get(self._volume, stored_as, offset, whole - offset)
                if error.code != ErrorCode.RANGE:
                    raise
            size = (await self.client.stat(self._volume, stored_as)).size
            return await self.client.get(self._volume, stored_as, offset, size - offset) if size > offset else b""

    async def replace(self, name: str, data: bytes, *, present: bool) -> None:
        """Write a whole object in the place of none, or beside a damaged one (`present`), for which it will stand.

        Under the volume's present claim. DENIED without the right `append`.
        """
        there = (await self.list()).get(name) if present else None
        if present and there is None:
            raise UnavailableError(
                JournalCode.UNAVAILABLE, f"{self.label} has {name} no more: it was trimmed meanwhile"
            )
        with _server_errors(self.label, self._volume):
            info = await self.client.use(self._volume)
            written = name if there is None else next_name(there)
            async with self.client.append(
                self._volume, written, size=0, epoch=info.epoch, holder=info.holder
            ) as stream:
                await stream.send(data)
            if there is not None or parse_snapshot_name(name) is not None:
                await self.client.seal(self._volume, written, size=len(data), epoch=info.epoch, holder=info.holder)
        self._stored_as = None

    async def claim(self) -> NamespaceInfo:
        """Who holds the namespace, and which incarnation of it this is."""
        with _server_errors(self.label, self._volume):
            return await self.client.use(self._volume)


@asynccontextmanager
async def open_member_copy(
    address: str,
    volume: str,
    *,
    token: bytes | None = None,
    tls: ssl.SSLContext | None = None,
    insecure: bool = False,
    timeout: float | None = None,
) -> AsyncIterator[MemberCopy]:
    """The volume's namespace on the server at this address. UnavailableError if it cannot be reached."""
    async with AsyncExitStack() as stack:
        with _server_errors(address, volume):
            opening = open_client(
                address,
                token=token,
                tls=tls,
                insecure=insecure,
                client_name="sos-journal",
                deadlines=_DEADLINES.within(timeout),
            )
            client = await stack.enter_async_context(opening)
        yield MemberCopy(client, label=address, volume=volume)


@contextmanager
def _disk_errors(label: str) -> Iterator[None]:
    try:
        yield
    except DiskLockedError as error:
        message = f"{label} is in use: by a service, whose directory it is then, or by another command"
        raise UnavailableError(JournalCode.LOCKED, message) from error
    except OSError as error:
        if error.errno == errno.EIO:
            raise damaged(f"{label} cannot be read: {error.strerror}") from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise journal_error(JournalCode.NO_SPACE, f"{label} cannot be written: {error.strerror}") from error
        raise UnavailableError(JournalCode.UNAVAILABLE, f"{label} cannot be read: {error.strerror}") from error


def _server_errors(label: str, volume: str) -> AbstractContextManager[None]:
    def not_there(_: str) -> JournalError:
        return refused(JournalCode.VOLUME_NOT_FOUND, f"{label} has no volume {volume}", volume=volume)

    meanings: Meanings = {ErrorCode.NOT_FOUND: not_there, ErrorCode.DAMAGED: damaged, ErrorCode.IO_ERROR: damaged}
    return member_errors(label, meanings)


def _is_ours(name: str) -> bool:
    return parse_segment_name(name) is not None or parse_snapshot_name(name) is not None
