"""A volume that is spread over several journals, as one: each request goes to the shard that has the path.

Which shard has a path, journal/records/shards.py says. The shard HOME decides what there is: a partition's directory
exists if the directory above it exists there, so each client makes that first. What concerns whole checkpoints is done
in every shard, in HOME last, so that whoever was cut short sees the path still, and does it again:

- a claim: in HOME first, which decides between two drivers, and then in all others, each of which then checks it;
- a recursive delete, and the rename of a directory: with a mark before it in every shard (`SpreadChange`), which says
  to readers of the logs what belongs together.

A file or directory that would have to leave its shard is not renamed (BAD_REQUEST): Spark never does that.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from journal.errors import JournalCode, JournalError, refused
from journal.records.paths import is_within
from journal.records.shards import (
    HOME,
    Shard,
    SpreadChange,
    has_partitions_of_all,
    is_in_partition,
    moves_within_shards,
    operator_directory,
    shard_of,
)
from journal.volume import PAGE_ENTRIES_MAX, ClaimPage, Page
from sos_client.nurseries import together

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence

    from journal.gateway.client.operation_ids import OperationIds
    from journal.volume import (
        Buffer,
        ClaimedPath,
        FileStatus,
        MarkValue,
        OpenedFile,
        OperationId,
        PathClaim,
        StreamedWrite,
        Volume,
        VolumeDescription,
    )

Entry = TypeVar("Entry", "FileStatus", "ClaimedPath")

_DIRECTORIES_MAX: Final = 10_000
"""Of operators, known to be in HOME; beyond it they are made once more."""
_IN_THE_WAY: Final = frozenset({JournalCode.ALREADY_EXISTS, JournalCode.IS_DIRECTORY, JournalCode.NOT_EMPTY})


class ShardedVolume:
    """Implements journal.volume.Volume; many tasks may use it at once. Errors are those of the shard that was asked."""

    def __init__(self, shards: Sequence[Shard], volumes: Sequence[Volume], *, operations: OperationIds) -> None:
        """`operations`: the same that the volumes use, if they are behind services."""
        self.name = shards[HOME].volume
        self.shards = tuple(shards)
        self.volumes = tuple(volumes)
        self.operations = operations
        self._home = volumes[HOME]
        self._others = tuple(volumes[HOME + 1 :])
        self._made: set[str] = set()  # directories of operators that are in HOME

    @property
    def epoch(self) -> int:
        """Of HOME; each shard has its own."""
        return self._home.epoch

    def new_operation(self) -> OperationId:
        """An id for the next change. Use it again only to repeat exactly that change."""
        return self.operations.lend()

    def _at(self, path: str) -> Volume:
        return self.volumes[shard_of(path, len(self.volumes))]

    async def _to_write(self, path: str, claim: PathClaim | None) -> Volume:
        """The shard of a path, when HOME has the directory that leads there."""
        volume = self._at(path)
        if volume is not self._home:
            directory = operator_directory(path)
            if directory not in self._made:
                await self._home.mkdirs(directory, operation=self.new_operation(), claim=claim)
                if len(self._made) >= _DIRECTORIES_MAX:
                    self._made.clear()
                self._made.add(directory)
        return volume

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
        volume = await self._to_write(path, claim)
        return await volume.put(
            path, payload, overwrite=overwrite, operation=operation, claim=claim, modified_ms=modified_ms
        )

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
        return await self._at(path).append(
            path, data, size=size, modified_ms=modified_ms, operation=operation, claim=claim
        )

    async def open_write(
        self,
        path: str,
        *,
        overwrite: bool,
        operation: OperationId,
        claim: PathClaim | None = None,
        modified_ms: int | None = None,
    ) -> StreamedWrite:
        volume = await self._to_write(path, claim)
        return await volume.open_write(
            path, overwrite=overwrite, operation=operation, claim=claim, modified_ms=modified_ms
        )

    async def open_read(self, path: str, offset: int = 0, length: int | None = None) -> OpenedFile:
        return await self._at(path).open_read(path, offset, length)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        return self._at(path).read(path, offset, length)

    async def stat(self, path: str) -> FileStatus:
        return await self._at(path).stat(path)

    async def list(self, path: str, *, after: str = "", limit: int = PAGE_ENTRIES_MAX) -> Page:
        page = await self._at(path).list(path, after=after, limit=limit)
        if not has_partitions_of_all(path):
            return page
        pages = {HOME: page}
        for number, volume in enumerate(self._others, start=1):
            with _absence_allowed():
                pages[number] = await volume.list(path, after=after, limit=limit)
        entries = [
            entry
            for number, page in pages.items()
            for entry in page.entries
            if shard_of(entry.path, len(self.volumes)) == number
        ]
        ends = [page.entries[-1].path for page in pages.values() if page.more]
        shown, more = _first_of(entries, ends, limit)
        return Page(entries=tuple(shown), more=more)

    async def mkdirs(self, path: str, *, operation: OperationId, claim: PathClaim | None = None) -> None:
        volume = await self._to_write(path, claim)
        await volume.mkdirs(path, operation=operation, claim=claim)

    # ── what may concern several shards ───────────────────────────────────────────────────────────────────────────

    async def delete(
        self, path: str, *, recursive: bool, operation: OperationId, claim: PathClaim | None = None
    ) -> bool:
        if is_in_partition(path):
            return await self._at(path).delete(path, recursive=recursive, operation=operation, claim=claim)
        there = await self._found(self._home, path)
        if there is None and recursive:
            deleted = await self._home.delete(path, recursive=True, operation=operation, claim=claim)  # if it may
            return await self._delete_left(path, claim) or deleted
        if there is not None and there.is_directory:
            self._made.clear()
            if recursive:
                await self._delete_in_others(path, claim)
            elif has_partitions_of_all(path) and (await self.list(path, limit=1)).entries:
                raise refused(JournalCode.NOT_EMPTY, f"{path} is not empty", path=path)
        return await self._home.delete(path, recursive=recursive, operation=operation, claim=claim)

    async def _delete_in_others(self, path: str, claim: PathClaim | None) -> None:
        await self._mark(path)
        await self._in_others(
            lambda volume: volume.delete(path, recursive=True, operation=self.new_operation(), claim=claim)
        )

    async def _delete_left(self, path: str, claim: PathClaim | None) -> bool:
        """What HOME does not have, and so nobody sees, but is in the way: of a rename that was cut short."""
        left = [volume for volume in self._others if await self._found(volume, path) is not None]
        if left:
            await self._delete_in_others(path, claim)
        return bool(left)

    async def rename(
        self, source: str, target: str, *, overwrite: bool, operation: OperationId, claim: PathClaim | None = None
    ) -> None:
        stays = moves_within_shards(source, target, len(self.volumes))
        if not (stays and is_in_partition(source)):
            there = await self._found(self._at(source), source)
            if there is not None and there.is_directory:
                if not stays:
                    raise _leaves_its_shard(source, target)
                if not is_within(target, source) and await self._found(self._home, target) is None:
                    await self._rename_directory(source, target, operation, claim)
                    return
            elif self._at(source) is not self._at(target):
                raise _leaves_its_shard(source, target)
        elif operator_directory(source) != operator_directory(target) and await self._found(self._at(source), source):
            await self._to_write(target, claim)
        await self._at(source).rename(source, target, overwrite=overwrite, operation=operation, claim=claim)

    async def _rename_directory(
        self, source: str, target: str, operation: OperationId, claim: PathClaim | None
    ) -> None:
        """One that is above partitions, to where HOME has nothing. If a shard refuses, it stays where it was in all."""
        self._made.clear()
        await self._mark(source, target)
        moved: list[Volume] = []
        try:
            for volume in self._others:
                if await self._found(volume, source) is not None:
                    await self._move(volume, source, target, claim)
                    moved.append(volume)
            await self._home.rename(source, target, overwrite=False, operation=operation, claim=claim)
        except JournalError as error:
            if error.code is not JournalCode.OUTCOME_UNKNOWN:
                for volume in moved:
                    with suppress(JournalError):
                        await self._move(volume, target, source, claim)
            raise

    async def _move(self, volume: Volume, source: str, target: str, claim: PathClaim | None) -> None:
        """What lies at the target in a shard, and not in HOME, are directories that were left when they were empty."""
        try:
            await volume.rename(source, target, overwrite=False, operation=self.new_operation(), claim=claim)
        except JournalError as error:
            if error.code not in _IN_THE_WAY:
                raise
            await self._clear(volume, target, claim)
            await volume.rename(source, target, overwrite=False, operation=self.new_operation(), claim=claim)

    async def _clear(self, volume: Volume, path: str, claim: PathClaim | None) -> None:
        more = True
        while more:
            page = await volume.list(path)
            for entry in page.entries:
                if not entry.is_directory:
                    raise _left_over(volume, entry.path)
                await self._clear(volume, entry.path, claim)
            more = page.more
        await volume.delete(path, recursive=False, operation=self.new_operation(), claim=claim)

    async def claim(self, path: str, claim: PathClaim, *, operation: OperationId) -> None:
        """The other shards have the directory afterwards: so the claim ends there, too, when it is deleted or moved."""

        async def claim_in(volume: Volume) -> None:
            await volume.claim(path, claim, operation=self.new_operation())
            await volume.mkdirs(path, operation=self.new_operation(), claim=claim)

        await self._at(path).claim(path, claim, operation=operation)
        if not is_in_partition(path):
            there = await self._found(self._home, path)
            if there is None or there.is_directory:
                await self._in_others(claim_in)

    async def claims(self, *, after: str | None = None, limit: int = PAGE_ENTRIES_MAX) -> ClaimPage:
        """A path that all shards have a claim on is shown once, with HOME's."""
        pages = [await volume.claims(after=after, limit=limit) for volume in self.volumes]
        found: dict[str, ClaimedPath] = {}
        for page in pages:
            for one in page.claims:
                found.setdefault(one.path, one)
        shown, more = _first_of(list(found.values()), [page.claims[-1].path for page in pages if page.more], limit)
        return ClaimPage(claims=tuple(shown), more=more)

    async def release(self, path: str, claim: PathClaim, *, operation: OperationId) -> bool:
        if not is_in_partition(path):
            await self._in_others(lambda volume: volume.release(path, claim, operation=self.new_operation()))
        return await self._at(path).release(path, claim, operation=operation)

    async def pin(self, name: str, *, lsn: int, seconds: int, operation: OperationId) -> None:
        """BAD_REQUEST: an LSN is of one journal. Pin what is needed in each shard."""
        del lsn, seconds, operation
        await trio.lowlevel.checkpoint()
        message = f"{name}: an LSN is of one journal, {self.name} has {len(self.volumes)}: pin each shard by its name"
        raise refused(JournalCode.BAD_REQUEST, message)

    async def mark(self, values: Mapping[str, MarkValue], *, operation: OperationId) -> None:
        """In every shard, in HOME last."""
        await self._in_others(lambda volume: volume.mark(values, operation=self.new_operation()))
        await self._home.mark(values, operation=operation)

    async def describe(self) -> VolumeDescription:
        """HOME's: shards are made with the same servers and retention."""
        return await self._home.describe()

    async def _mark(self, *paths: str) -> None:
        operation = self.new_operation()
        token = f"{operation.client.hex()}-{operation.sequence}"
        await self.mark(SpreadChange(token=token, paths=paths).values(), operation=operation)

    async def _in_others(self, change: Callable[[Volume], Awaitable[object]]) -> None:
        """The same in all shards but HOME, at once."""

        async def one(volume: Volume) -> None:
            await change(volume)

        async with together() as nursery:
            for volume in self._others:
                nursery.start_soon(one, volume)

    async def _found(self, volume: Volume, path: str) -> FileStatus | None:
        try:
            return await volume.stat(path)
        except JournalError as error:
            if error.code is not JournalCode.NOT_FOUND:
                raise
        return None


@contextmanager
def _absence_allowed() -> Iterator[None]:
    try:
        yield
    except JournalError as error:
        if error.code is not JournalCode.NOT_FOUND:
            raise


def _first_of(entries: list[Entry], ends: list[str], limit: int) -> tuple[list[Entry], bool]:
    """Up to `limit` of the entries in order, and whether to ask again.

    `ends`: the last path of each page that goes on, after which not all are here.
    """
    known = min(ends) if ends else None
    shown = sorted((one for one in entries if known is None or one.path <= known), key=lambda one: one.path)
    return shown[:limit], bool(ends) or len(shown) > limit


def _left_over(volume: Volume, path: str) -> JournalError:
    message = f"{volume.name} has something at {path} that no listing shows: a fork, import or rename was cut short "
    message += "there; `sos-journal rm -r` of the path that was to be made deletes it"
    return refused(JournalCode.ALREADY_EXISTS, message, path=path)


def _leaves_its_shard(source: str, target: str) -> JournalError:
    message = f"{source or '/'} cannot be moved to {target or '/'}: it would have to go to other shards. Copy it"
    return refused(JournalCode.BAD_REQUEST, message)
