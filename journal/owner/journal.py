"""The writer: one process that orders all changes of a volume, and answers when k members have synced them.

Belongs here: the interface of a volume (journal/volume.py) on top of a log. An operation is checked against the
*pending* image, becomes a record, and is answered, refusals too, when that is acknowledged: others see that image only.

    put ─ check (preconditions.py) ─ record (log.py) ─┬─ members (replica.py) ─ acknowledged ─ answer
                                                      └─ local copy (local_log.py), never waited for
"""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, cast

from journal.errors import JournalCode, JournalError, refused
from journal.image import preconditions
from journal.image.operation_window import NOT_ASKED
from journal.owner import in_place, streamed_write
from journal.owner.content import Content
from journal.owner.housekeeping import Housekeeping
from journal.owner.log import NOBODYS, Log
from journal.owner.query_facts import last_commits
from journal.owner.quick_puts import QuickPuts
from journal.owner.replica_progress import ReplicaProgress
from journal.owner.replica_set import ReplicaSet
from journal.owner.shown_image import ShownImage
from journal.records.change import (
    AbandonChange,
    Change,
    ClaimChange,
    DeleteChange,
    MakeDirectoryChange,
    MarkChange,
    PutChange,
    ReleaseChange,
    RenameChange,
    encode_change,
)
from journal.records.paths import check_path
from journal.records.settings import monotonic_ms
from journal.statistics import VolumeStatistics
from journal.volume import PAGE_ENTRIES_MAX, PUT_BYTES_MAX, FileStatus, OperationId

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from journal.copies.local_log import LocalLog
    from journal.owner.streamed_write import JournalWrite
    from journal.records.change import PinChange
    from journal.records.record import Kind, Lsn, RecordHeader
    from journal.records.settings import JournalSettings, Surroundings
    from journal.takeover.driver import TakenOver
    from journal.volume import Answer, Buffer, ClaimPage, MarkValue, OpenedFile, Page, PathClaim, VolumeDescription


class Journal:
    """A volume and its one writer; opening.py makes it. Implements journal/volume.py: see there for promises."""

    def __init__(
        self, name: str, opened: TakenOver, local: LocalLog, *, settings: JournalSettings, surroundings: Surroundings
    ) -> None:
        self.name = name
        self.settings = settings
        self.local = local
        progress = ReplicaProgress(opened.end.segment.membership, trim=opened.end.segment.trim)
        progress.acknowledged = opened.end.lsn
        self.log = Log(
            opened.end,
            progress,
            settings=settings,
            timekeeper=opened.timekeeper,
            wall_ms=surroundings.wall_ms,
            acknowledge=self._acknowledge,
        )
        for snapshot in opened.snapshots:
            progress.keep(snapshot, ())
        self.pending = opened.image
        self.pending.operations.run_by(monotonic_ms)
        self.pending.tree_bytes_max = settings.tree_bytes_max
        self.admit, self.wait_room = self.pending.operations.admit, self.log.wait_room
        self._shown = ShownImage(self.pending)
        self.acknowledged = self._shown.image
        self.replicas = ReplicaSet(
            name, self.log, local, settings=settings, surroundings=surroundings, damaged=opened.damaged
        )
        self.content = Content(log=self.log, shown=self.acknowledged, local=local, replicas=self.replicas)
        self.housekeeping = Housekeeping(
            name,
            log=self.log,
            pending=self.pending,
            shown=self.acknowledged,
            local=local,
            replicas=self.replicas,
            content=self.content,
            settings=settings,
            events=surroundings.log,
            write=self.write,
            roll=self.roll,
        )
        self._quick_puts = QuickPuts(
            self.log, self.pending, self._shown, self.housekeeping, encode=self._encode, roll=self.roll
        )
        self.is_still_owned = self.replicas.still_have_the_claim
        self._client, self._sequence, self._uploads = surroundings.chance.randbytes(16), 0, 0

    @property
    def epoch(self) -> int:
        return self.log.epoch

    @property
    def holder(self) -> bytes:
        return self.log.holder

    @property
    def acknowledged_lsn(self) -> int:
        return self.log.acknowledged.lsn

    async def wait_lost(self) -> JournalError:
        """Return, with the reason, when a newer owner has taken the volume."""
        await self.replicas.stopped.wait()
        return self.replicas.why_stopped()

    def now_ms(self) -> int:
        return self.log.now_ms()

    def statistics(self) -> VolumeStatistics:
        """How it stands, for metrics."""
        shown = self.acknowledged
        return VolumeStatistics(
            epoch=self.epoch,
            written_lsn=self.log.end,
            acknowledged_lsn=self.acknowledged_lsn,
            oldest_lsn=shown.trim,
            files=shown.tree.file_count,
            tree_bytes=shown.tree_bytes,
            may_lose=self.log.progress.spare(),
            members=self.replicas.statistics(self.housekeeping.uncleaned_members),
        )

    def query_commits(self) -> dict[str, int]:
        """When each query has committed its last batch, in milliseconds since 1970. For metrics."""
        return last_commits(self.acknowledged.tree)

    # ---- changes

    async def put(
        self,
        path: str,
        payload: Buffer,
        *,
        overwrite: bool = False,
        operation: OperationId | None = None,
        claim: PathClaim | None = None,
        modified_ms: int | None = None,
    ) -> FileStatus:
        if len(payload) > PUT_BYTES_MAX:
            raise refused(JournalCode.TOO_LARGE, f"a put has at most {PUT_BYTES_MAX} bytes; stream what is larger")

        def check() -> PutChange:
            preconditions.check_write(self.pending, path, overwrite=overwrite, claim=claim)
            return PutChange(path=path, modified_ms=modified_ms)

        return cast("FileStatus", await self.change(check, operation, payload, answers=FileStatus))

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
        return self._quick_puts.put_soon(path, payload, payload_crc, overwrite, operation, claim, modified_ms, answered)

    async def open_write(
        self,
        path: str,
        *,
        overwrite: bool = False,
        operation: OperationId | None = None,
        claim: PathClaim | None = None,
        modified_ms: int | None = None,
    ) -> JournalWrite:
        return streamed_write.open_write(
            self, path, overwrite=overwrite, operation=operation, claim=claim, modified_ms=modified_ms
        )

    async def append(
        self,
        path: str,
        data: Buffer,
        *,
        size: int | None = None,
        modified_ms: int | None = None,
        operation: OperationId | None = None,
        claim: PathClaim | None = None,
    ) -> FileStatus:
        """As the volume's; `size` and `modified_ms` None: whatever the file is now."""
        return await in_place.append(
            self, path, data, size=size, modified_ms=modified_ms, operation=operation, claim=claim
        )

    async def join(self, path: str) -> bool:
        return await in_place.join(self, path)

    async def truncate(
        self, path: str, size: int, *, operation: OperationId | None = None, claim: PathClaim | None = None
    ) -> FileStatus:
        return await in_place.truncate(self, path, size, operation=operation, claim=claim)

    async def mkdirs(self, path: str, *, operation: OperationId | None = None, claim: PathClaim | None = None) -> None:
        def check() -> MakeDirectoryChange | None:
            wanted = preconditions.check_make_directories(self.pending, path, claim=claim)
            return MakeDirectoryChange(path=path) if wanted else None

        await self.change(check, operation)

    async def delete(
        self,
        path: str,
        *,
        recursive: bool = False,
        operation: OperationId | None = None,
        claim: PathClaim | None = None,
    ) -> bool:
        def check() -> DeleteChange | None:
            wanted = preconditions.check_delete(self.pending, path, recursive=recursive, claim=claim)
            return DeleteChange(path=path) if wanted else None

        return bool(await self.change(check, operation, nothing=False, answers=bool))

    async def rename(
        self,
        source: str,
        target: str,
        *,
        overwrite: bool = False,
        operation: OperationId | None = None,
        claim: PathClaim | None = None,
    ) -> None:
        def check() -> RenameChange | None:
            wanted = preconditions.check_rename(self.pending, source, target, overwrite=overwrite, claim=claim)
            return RenameChange(source=source, target=target) if wanted else None

        await self.change(check, operation)

    async def claim(
        self, path: str, claim: PathClaim, *, operation: OperationId | None = None, whose: str = ""
    ) -> None:
        def check() -> ClaimChange | None:
            new = preconditions.check_claim(self.pending, path, claim, now_ms=self.log.now_ms(), whose=whose)
            return ClaimChange(path=path, application=claim.application, start_time=claim.start_time) if new else None

        await self.change(check, operation)

    async def release(self, path: str, claim: PathClaim, *, operation: OperationId | None = None) -> bool:
        def check() -> ReleaseChange | None:
            return ReleaseChange(path=path) if preconditions.check_release(self.pending, path, claim) else None

        return bool(await self.change(check, operation, nothing=False, answers=bool))

    async def mark(self, values: Mapping[str, MarkValue], *, operation: OperationId | None = None) -> None:
        await self.change(lambda: MarkChange(values=dict(values)), operation)

    async def pin(
        self, name: str, *, lsn: int, seconds: float, operation: OperationId | None = None, whose: str = ""
    ) -> None:
        """Keep readable what the image at `lsn` refers to, for this long; 0: no longer."""

        def check() -> PinChange:
            log, segment = self.log, self.log.segment
            kept = range(max(segment.trim, segment.oldest), self.acknowledged_lsn + 1)
            now_ms, written_ms = max(log.now_ms(), log.lived_ms() + segment.paused_ms), log.written_ms()
            return preconditions.check_pin(
                self.pending, name, lsn, seconds, kept=kept, now_ms=now_ms, written_ms=written_ms, whose=whose
            )

        await self.change(check, operation)

    # ---- what is shown: the acknowledged image

    async def open_read(self, path: str, offset: int = 0, length: int | None = None) -> OpenedFile:
        return self.content.open_read(path, offset, length)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        return self.content.read(path, offset, length)

    async def stat(self, path: str) -> FileStatus:
        self.log.acknowledged.check_owner()
        return self.acknowledged.tree.stat(check_path(path))

    async def list(self, path: str, *, after: str = "", limit: int = PAGE_ENTRIES_MAX) -> Page:
        self.log.acknowledged.check_owner()
        return self.acknowledged.tree.list_page(check_path(path), after=after, limit=limit)

    async def claims(self, *, after: str | None = None, limit: int = PAGE_ENTRIES_MAX) -> ClaimPage:
        self.log.acknowledged.check_owner()
        return self.acknowledged.claims.page(after=after, limit=limit)

    async def describe(self) -> VolumeDescription:
        return self.housekeeping.description()

    # ---- how a change is made

    @property
    def is_full(self) -> bool:
        return self.log.is_full

    async def change(
        self,
        check: Callable[[], Change | None],
        operation: OperationId | None,
        payload: Buffer = b"",
        *,
        nothing: Answer = None,
        answers: type = NoneType,
    ) -> Answer:
        """Check, write and wait. `check` raises the refusal, or says what to write; None answers `nothing`.

        `answers`: the kind of answer; an operation id of another kind is a BAD_REQUEST. Up to the wait all happens at
        once, so that no change comes between check and record. Cancelled while waiting: the record is written.
        """
        self.log.acknowledged.check_owner()
        await self.log.wait_room()
        operation = operation or self._next_operation()
        answer = self._decide(check, operation, payload, nothing=nothing, answers=answers)
        if self.log.acknowledged.lsn < self.log.end:
            await self.log.acknowledged.wait(self.log.end)
        if isinstance(answer, JournalError):
            try:
                raise answer
            finally:
                del answer  # else it and this frame hold each other, and the payload, until garbage is looked for
        return answer

    def _decide(
        self,
        check: Callable[[], Change | None],
        operation: OperationId,
        payload: Buffer,
        *,
        nothing: Answer = None,
        answers: type,
    ) -> Answer:
        operations = self.pending.operations
        first = operations.first_answer(operation, answers)
        if first is not NOT_ASKED:
            return cast("Answer", first)
        try:
            change = check()
        except JournalError as refusal:
            return operations.keep_refusal(operation, refusal, time_ms=self.pending.time_ms)
        if change is None:
            operations.keep(operation, nothing, time_ms=self.pending.time_ms, recorded=False)
            return nothing
        return self.write(change, payload, operation=operation)

    def write(self, change: Change, payload: Buffer = b"", *, operation: OperationId | None = None) -> Answer:
        """Write a record and apply it to the pending image. What it answers counts once it is acknowledged."""
        self.log.acknowledged.check_owner()  # it may have stopped while somebody waited for room
        head, header = self._encode(change.kind, encode_change(change), payload, None, operation or NOBODYS)
        answer = self.pending.apply_own(header, change)  # first: a record that fits no tree must not be in the log
        self.log.add(header, head, payload)
        self._shown.written(header, change)
        if self.log.segment_bytes >= self.housekeeping.segment_bytes_max:
            self.roll()
        return answer

    def _encode(
        self, kind: Kind, meta: bytes, payload: Buffer, payload_crc: int | None, operation: OperationId
    ) -> tuple[bytes, RecordHeader]:
        """The next record, in the segment at hand or, after a sleep, in one that begins with the right time."""
        encoded = self.log.encode(kind, meta, payload, payload_crc, operation)
        if self.log.has_slept:
            self.roll()
            encoded = self.log.encode(kind, meta, payload, payload_crc, operation)
        return encoded

    def roll(self) -> None:
        """Begin the next segment."""
        header, segment = self.log.open_segment(**self.housekeeping.settled())
        self.pending.apply_own(header, segment)
        self._shown.written(header, segment)

    def _acknowledge(self, lsn: Lsn) -> None:
        """The last step of a change: k members have everything before `lsn`, so show it, then answer who waits."""
        self.log.acknowledged.advance(lsn)
        self.log.tail.release(lsn)
        self.log.waiting_records = self._shown.acknowledged(lsn, segment_opened=self.housekeeping.segment_opened)
        self.log.acknowledged.wake()

    def _next_operation(self) -> OperationId:
        self._sequence += 1
        return OperationId(client=self._client, sequence=self._sequence)

    # ---- for a streamed write

    def new_upload(self) -> int:
        """The number of another file that comes in pieces."""
        self._uploads += 1
        return self._uploads

    def abandon(self, upload: int) -> None:
        """The pieces of a file that will not be."""
        if upload in self.pending.uploads and not self.log.acknowledged.stopped:
            self.write(AbandonChange(upload=upload))
