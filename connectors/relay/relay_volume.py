"""What the file protocol shows of a relay: a volume of staged files, manifests and one status (STAGING.md).

Implements journal.volume.ServedVolume. Everything else that a volume can do is refused.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from connectors.relay.manifest import MANIFEST_BYTES_MAX, is_place, parse_manifest, staged_place
from journal.errors import JournalCode, journal_error, refused
from journal.volume import ClaimPage, FileStatus, OpenedFile, Page, pieces_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from connectors.relay.relay import Relay
    from connectors.relay.spool import SpoolWrite
    from journal.volume import Answer, Buffer, MarkValue, OperationId, PathClaim, VolumeDescription

VOLUME: Final = "relay"
STATUS: Final = "status"
_STAGED: Final = "staged"
_COMMITS: Final = "commits"


class RelayVolumes:
    """The one volume of a relay."""

    def __init__(self, volume: RelayVolume) -> None:
        self._volume = volume

    async def settle(self, name: str) -> None:
        """It is always there."""
        del name
        await trio.lowlevel.checkpoint()

    def owned(self, name: str) -> RelayVolume:
        """VOLUME_NOT_FOUND for another one."""
        if name != VOLUME:
            message = f"this is a relay, whose one volume is {VOLUME}: volume {name[:100]} is at a journal service"
            raise journal_error(JournalCode.VOLUME_NOT_FOUND, message, {"volume": name[:100]})
        return self._volume


class RelayVolume:
    """`relay` does the work."""

    name = VOLUME
    epoch = 1  # what is staged has no owner but this process, and no other one ever answers for it

    def __init__(self, relay: Relay, *, wall_ms: Callable[[], int]) -> None:
        self._relay = relay
        self._wall_ms = wall_ms
        self._status = (FileStatus(STATUS, is_directory=False, size=0, modified_ms=0), b"")

    # ── what a driver and its tasks do ────────────────────────────────────────────────────────────────────────────────

    async def put(
        self,
        path: str,
        payload: Buffer,
        *,
        overwrite: bool,
        operation: OperationId,
        claim: PathClaim | None = None,
        modified_ms: int | None = None,
    ) -> FileStatus:
        """A staged file, or a manifest; that is answered when its batch is committed."""
        write = await self.open_write(
            path, overwrite=overwrite, operation=operation, claim=claim, modified_ms=modified_ms
        )
        try:
            await write.write(payload)
        except BaseException:
            with trio.CancelScope(shield=True):
                await write.cancel()
            raise
        return await write.commit()

    async def open_write(
        self,
        path: str,
        *,
        overwrite: bool,
        operation: OperationId,
        claim: PathClaim | None = None,
        modified_ms: int | None = None,
    ) -> IncomingStaged | IncomingManifest:
        """The same, in pieces."""
        del operation, modified_ms
        await trio.lowlevel.checkpoint()
        if not overwrite:
            raise refused(JournalCode.BAD_REQUEST, f"{path}: files of a relay are written with overwrite", path=path)
        kind, *rest = path.split("/")
        components = tuple(rest)
        if kind == _STAGED:
            place, batch, _, _ = staged_place(components)
            await self._relay.admit(place, claim)
            self._relay.check_not_rewound(place, batch)
            return IncomingStaged(path, self._relay.spool.begin(components), self._wall_ms)
        if kind == _COMMITS and len(components) == 2 and is_place(components[0]) and components[1].isdecimal():
            await self._relay.admit(components[0], claim)
            assert claim is not None, "it was admitted"
            return IncomingManifest(path, self._relay, claim, self._wall_ms)
        raise refused(
            JournalCode.BAD_REQUEST,
            f"{path[:300]}: a relay takes {_STAGED}/PLACE/BATCH/RUN/PART and {_COMMITS}/PLACE/BATCH",
            path=path[:300],
        )

    async def delete(
        self, path: str, *, recursive: bool, operation: OperationId, claim: PathClaim | None = None
    ) -> bool:
        """The staged files of a run."""
        del recursive, operation
        kind, *rest = path.split("/")
        if kind != _STAGED or len(rest) != 3:
            raise refused(JournalCode.BAD_REQUEST, f"{path[:300]}: delete {_STAGED}/PLACE/BATCH/RUN", path=path[:300])
        place, batch, run, _ = staged_place((*rest, "all"))
        await self._relay.admit(place, claim)
        return await self._relay.delete_run(place, batch, run)

    # ── what anybody may see ──────────────────────────────────────────────────────────────────────────────────────────

    async def stat(self, path: str) -> FileStatus:
        await trio.lowlevel.checkpoint()
        if path == STATUS:
            return self._fresh_status()[0]
        kind, *rest = path.split("/")
        size = self._relay.spool.size(tuple(rest)) if kind == _STAGED and len(rest) == 4 else None
        if size is None:
            raise refused(JournalCode.NOT_FOUND, f"{path[:300]} is not here", path=path[:300])
        staged_place(tuple(rest))
        return FileStatus(path, is_directory=False, size=size, modified_ms=0)

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        """The status. Nobody needs to read what is staged."""
        async with aclosing((await self.open_read(path, offset, length)).pieces) as pieces:
            async for piece in pieces:
                yield piece

    async def open_read(self, path: str, offset: int = 0, length: int | None = None) -> OpenedFile:
        """The same."""
        await trio.lowlevel.checkpoint()
        if path != STATUS:
            raise refused(JournalCode.NOT_FOUND, f"{path[:300]} cannot be read", path=path[:300])
        status, content = self._fresh_status()
        return OpenedFile(status, pieces_of(content, offset, length))

    async def list(self, path: str, *, after: str = "", limit: int = 1000) -> Page:
        del limit
        status = await self.stat(STATUS)
        if path == STATUS:
            return Page(entries=(status,), more=False)
        if path:
            raise refused(JournalCode.NOT_FOUND, f"{path[:300]} is not listed", path=path[:300])
        return Page(entries=(status,) if after < STATUS else (), more=False)

    def _fresh_status(self) -> tuple[FileStatus, bytes]:
        """At most a second old, so that it stays the same while it is read."""
        now = self._wall_ms()
        if now - self._status[0].modified_ms >= 1000 or not self._status[1]:
            content = json.dumps(self._relay.described(), indent=1).encode() + b"\n"
            self._status = FileStatus(STATUS, is_directory=False, size=len(content), modified_ms=now), content
        return self._status

    # ── the gateway's ─────────────────────────────────────────────────────────────────────────────────────────────────

    def admit(self, operation: OperationId, whose: bytes) -> None:
        """No change is remembered, so none takes room: each may be made again and does the same."""

    @property
    def is_full(self) -> bool:
        return False

    async def join(self, path: str) -> bool:
        """There are no appends."""
        return False

    async def is_still_owned(self) -> bool:
        """Nobody else can have what is in this process's directory."""
        return True

    async def wait_room(self) -> None:
        """There is room: what is staged waits for its disk."""

    def put_soon(
        self,
        path: str,
        payload: bytes,
        *,
        payload_crc: int,
        overwrite: bool,
        operation: OperationId,
        claim: PathClaim | None,
        modified_ms: int | None,
        answered: Callable[[Answer], None],
    ) -> bool:
        """Never: everything here waits for a disk, or for sinks."""
        del path, payload, payload_crc, overwrite, operation, claim, modified_ms, answered
        return False

    # ── what there is not ─────────────────────────────────────────────────────────────────────────────────────────────

    async def append(
        self,
        path: str,
        data: Buffer,
        *,
        size: int,
        modified_ms: int,
        operation: OperationId,
        claim: PathClaim | None = None,
    ) -> FileStatus:
        del data, size, modified_ms, operation, claim
        return await _not_here("APPEND", path)

    async def mkdirs(self, path: str, *, operation: OperationId, claim: PathClaim | None = None) -> None:
        del operation, claim
        await _not_here("MKDIRS", path)

    async def rename(
        self, source: str, target: str, *, overwrite: bool, operation: OperationId, claim: PathClaim | None = None
    ) -> None:
        del target, overwrite, operation, claim
        await _not_here("RENAME", source)

    async def claim(self, path: str, claim: PathClaim, *, operation: OperationId, whose: str = "") -> None:
        del claim, operation, whose
        await _not_here("CLAIM", path)

    async def claims(self, *, after: str | None = None, limit: int = 1000) -> ClaimPage:
        del after, limit
        await trio.lowlevel.checkpoint()
        return ClaimPage(claims=(), more=False)

    async def release(self, path: str, claim: PathClaim, *, operation: OperationId) -> bool:
        del claim, operation
        return await _not_here("RELEASE", path)

    async def pin(self, name: str, *, lsn: int, seconds: int, operation: OperationId, whose: str = "") -> None:
        del lsn, seconds, operation, whose
        await _not_here("PIN", name)

    async def mark(self, values: Mapping[str, MarkValue], *, operation: OperationId) -> None:
        del values, operation
        await _not_here("MARK", "")

    async def describe(self) -> VolumeDescription:
        return await _not_here("DESCRIBE", "")


class IncomingStaged:
    """A staged file on its way (journal.volume.StreamedWrite)."""

    def __init__(self, path: str, write: SpoolWrite, wall_ms: Callable[[], int]) -> None:
        self._path = path
        self._write = write
        self._wall_ms = wall_ms

    async def write(self, data: Buffer) -> None:
        await self._write.write(bytes(data))

    async def commit(self) -> FileStatus:
        size = await self._write.commit()
        return FileStatus(self._path, is_directory=False, size=size, modified_ms=self._wall_ms())

    async def cancel(self) -> None:
        await self._write.cancel()


class IncomingManifest:
    """A manifest on its way, and then the commit that it asks for."""

    def __init__(self, path: str, relay: Relay, claim: PathClaim, wall_ms: Callable[[], int]) -> None:
        self._path = path
        self._relay = relay
        self._claim = claim
        self._wall_ms = wall_ms
        self._content = bytearray()

    async def write(self, data: Buffer) -> None:
        await trio.lowlevel.checkpoint()
        if len(self._content) + len(data) > MANIFEST_BYTES_MAX:
            raise refused(JournalCode.TOO_LARGE, f"a manifest of more than {MANIFEST_BYTES_MAX:,} bytes")
        self._content += data

    async def commit(self) -> FileStatus:
        _, place, batch = self._path.split("/")
        manifest = parse_manifest(bytes(self._content), place=place, batch=int(batch))
        await self._relay.commit(manifest, self._claim)
        return FileStatus(self._path, is_directory=False, size=len(self._content), modified_ms=self._wall_ms())

    async def cancel(self) -> None:
        await trio.lowlevel.checkpoint()
        self._content.clear()


async def _not_here(what: str, path: str) -> NoReturn:
    await trio.lowlevel.checkpoint()
    raise journal_error(JournalCode.UNSUPPORTED, f"{what} of {path[:200]}: a relay has no such thing", {"type": what})
