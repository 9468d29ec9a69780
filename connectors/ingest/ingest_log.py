"""Writes an ingest volume: recovers what it says, gives sequence numbers, commits what came in, many frames at once.

Senders are told only what the volume has on k of its members. One block is written at a time; what comes meanwhile is
the next one. The volume's owner is this process: a takeover elsewhere ends this log with NOT_OWNER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from connectors.ingest import places
from connectors.ingest.block import HEAD_BYTES, block_head
from connectors.ingest.intake import Intake
from connectors.ingest.known_streams import KnownStreams, encode_streams
from connectors.ingest.persistent_changes import PersistentChanges
from connectors.ingest.recovery import VolumeFiles, check_format, content_of, not_ingest, stored_log
from connectors.ingest.retention import MessageFile
from connectors.wire.limits import MESSAGE_FRAME_BYTES_MAX
from journal.errors import JournalCode, JournalError, SupersededError
from journal.gateway.metrics import Histogram
from journal.volume import PUT_BYTES_MAX, PathClaim
from sos_client.wire.limits import LENGTH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from journal.volume import FileStatus, OperationId, Volume

LOG_FILE_BYTES_MAX: Final = 16 << 20
"""A new listener replays at most a few times this much, and retention frees room in such pieces."""
LOG_FILE_BLOCKS_MAX: Final = 8192
"""Each block is an extent of its file, copied with all before it by the next one."""
EXTENTS_MAX: Final = 256
"""A file that is left with more blocks is written once more, as a whole: an extent takes some 50 bytes of memory for as
long as the file is kept, and a week of small blocks is a hundred million of them."""
BLOCK_FRAMES_BYTES_MAX: Final = PUT_BYTES_MAX - HEAD_BYTES
assert LENGTH_BYTES + MESSAGE_FRAME_BYTES_MAX == BLOCK_FRAMES_BYTES_MAX
INTAKE_BYTES_MAX: Final = 16 << 20
"""What may wait to be written before senders are no longer read."""
STREAMS_EVERY: Final = 4
"""The log grows by this many times the size of a file of streams before the next one: they are a fifth of all bytes."""
SLOW_SECONDS: Final = 2.0
"""A commit that takes longer waits for somebody."""
APPLICATION: Final = "sos-connector listen"


class IngestLog:
    """The one writer of an ingest volume: `open` it once, `run` it in a nursery.

    `accepted` are all streams with what has come of them, `durable` what the volume has.
    """

    def __init__(self, volume: Volume, *, wall_ms: Callable[[], int]) -> None:
        self.accepted = KnownStreams()
        self.durable = KnownStreams()
        self.intake = Intake()
        self.next_sequence = 0
        self.bytes_written = 0
        self.commit_seconds = Histogram()
        self.held_back = ""
        """Why sources get no more credits for now, if they get none: for a reader that is too far behind."""
        self._volume = volume
        self._wall_ms = wall_ms
        self._changes = PersistentChanges()
        self._upkeep = PersistentChanges()  # beside the others
        self._files: dict[int, MessageFile] = {}  # in order
        self._streams_files: list[int] = []
        self._crowded: list[int] = []  # files that were left with more than EXTENTS_MAX blocks
        self._claim = PathClaim(start_time=0, application=APPLICATION)
        self._file: FileStatus | None = None  # that blocks are added to
        self._file_first = 0
        self._file_blocks = 0
        self._since_streams_bytes = 0
        self._streams_bytes = 0
        self._wanted = trio.Event()
        self._room = trio.Event()
        self._writing = False
        self._writing_since = 0.0
        self._settled = trio.Event()

    @property
    def stopped_by(self) -> str:
        """Why sources get no more credits for now; empty: they do."""
        return self._changes.waits_for or self.held_back

    @property
    def waits_for(self) -> str:
        """Why what has come is not durable yet; empty: it will be in a moment."""
        seconds = trio.current_time() - self._writing_since
        if self._changes.waits_for or not self._writing or seconds < SLOW_SECONDS:
            return self._changes.waits_for
        return f"they have not acknowledged anything for {seconds:.0f} s"

    @property
    def upkeep_waits_for(self) -> str:
        """Why what nobody needs cannot be deleted now, and files be tidied; empty: they can."""
        return self._upkeep.waits_for

    @property
    def files(self) -> list[MessageFile]:
        """Of the log, in order."""
        return list(self._files.values())

    @property
    def streams_from(self) -> int:
        """Where a new listener begins to read: the number of the newest file of the streams."""
        return self._streams_files[-1] if self._streams_files else 0

    # ── recovery ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        """Make the volume this log's, and read what it says. BAD_REQUEST for a volume of something else, DAMAGED."""
        await self._check_format()
        await self._claim_log()
        stored = await stored_log(VolumeFiles(self._volume))
        self.durable, self.accepted = stored.streams, stored.streams.copy()
        self.next_sequence = stored.next_sequence
        self._files, self._streams_files = stored.files, stored.streams_files
        self._file, self._file_first, self._file_blocks = stored.last, stored.last_first, stored.last_blocks
        self._streams_bytes, self._since_streams_bytes = stored.streams_bytes, stored.since_streams_bytes
        self._crowded = stored.crowded(EXTENTS_MAX)

    async def _check_format(self) -> None:
        try:
            await check_format(VolumeFiles(self._volume), self._volume.name)
        except JournalError as error:
            if error.code is not JournalCode.NOT_FOUND:
                raise
            if (await self._volume.list("", limit=1)).entries:
                raise not_ingest(self._volume.name) from None
            await self._put(places.FORMAT_FILE, places.FORMAT_TEXT)

    async def _claim_log(self) -> None:
        """Nobody else writes where this log writes, whatever rights they have on the volume.

        Listeners are kept apart by owning the volume, so they need no times of their own, which the clock might deny.
        """
        for path in (places.LOG, places.STREAMS, places.LISTENER):
            try:
                await self._volume.claim(path, self._claim, operation=self._changes.next_operation())
            except SupersededError as error:
                if error.code is not JournalCode.FENCED:
                    raise
                before = error.fields["start_time"]
                assert isinstance(before, int)
                self._claim = PathClaim(start_time=before + 1, application=APPLICATION)
                await self._volume.claim(path, self._claim, operation=self._changes.next_operation())

    # ── what comes in ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Commit what comes in until cancelled. Raises what ends the ownership of the volume."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            while self.intake:
                await self._commit()

    def wake(self) -> None:
        """Something was added to `intake`."""
        self._wanted.set()

    async def room(self) -> None:
        """Return when there is room for more: a sender is not read on before."""
        while self.intake.frames_bytes > INTAKE_BYTES_MAX:
            await self._room.wait()

    async def settled(self) -> None:
        """Return when nothing waits to become durable: for when no more is taken."""
        while self.intake or self._writing:
            await self._settled.wait()

    async def _commit(self) -> None:
        intake, self.intake = self.intake, Intake()
        self._room.set()
        self._room = trio.Event()
        self._writing, self._writing_since = True, trio.current_time()
        await self._roll()
        for frames, rows in intake.blocks(BLOCK_FRAMES_BYTES_MAX):
            await self._write(frames, rows)
        intake.settle(self.durable)
        self.commit_seconds.observe(trio.current_time() - self._writing_since)
        self._writing = False
        self._settled.set()
        self._settled = trio.Event()

    async def _roll(self) -> None:
        """Leave the log's file if it is full; keep the streams now and then. Between two intakes: `durable` is all.

        A file is named after its first row. One without rows says nothing that the streams do not, so the next block is
        written in its place.
        """
        file = self._file
        if file is None or (file.size < LOG_FILE_BYTES_MAX and self._file_blocks < LOG_FILE_BLOCKS_MAX):
            return
        has_rows = self.next_sequence > self._file_first
        if not has_rows or self._since_streams_bytes >= STREAMS_EVERY * self._streams_bytes:
            data = encode_streams(self.durable)
            await self._put(places.streams_file(self.next_sequence), data)
            if self.next_sequence not in self._streams_files:
                self._streams_files.append(self.next_sequence)
            self._streams_bytes, self._since_streams_bytes = len(data), 0
        if has_rows and self._file_blocks > EXTENTS_MAX:
            self._crowded.append(self._file_first)
        self._file = None

    async def _write(self, frames: list[bytes], rows: int) -> None:
        head = block_head(
            first_sequence=self.next_sequence,
            rows=rows,
            received_ms=self._wall_ms(),
            frames_bytes=sum(map(len, frames)),
        )
        block = b"".join((head, *frames))
        if self._file is None:
            self._file = await self._put(places.log_file(self.next_sequence), block)
            self._file_first, self._file_blocks = self.next_sequence, 0
        else:
            self._file = await self._append(self._file, block)
        self._files[self._file_first] = MessageFile(self._file_first, self._file.size, self._file.modified_ms)
        self._file_blocks += 1
        self._since_streams_bytes += len(block)
        self.bytes_written += len(block)
        self.next_sequence += rows

    async def _put(self, path: str, data: bytes) -> FileStatus:
        if len(data) > PUT_BYTES_MAX:
            return await self._stream(path, data, self._changes)

        async def ask(operation: OperationId) -> FileStatus:
            return await self._volume.put(path, data, overwrite=True, operation=operation, claim=self._claim)

        return await self._changes.make(ask)

    async def _stream(
        self, path: str, data: bytes, changes: PersistentChanges, *, modified_ms: int | None = None
    ) -> FileStatus:
        async def ask(operation: OperationId) -> FileStatus:
            write = await self._volume.open_write(
                path, overwrite=True, operation=operation, claim=self._claim, modified_ms=modified_ms
            )
            try:
                for start in range(0, len(data), PUT_BYTES_MAX):
                    await write.write(data[start : start + PUT_BYTES_MAX])
                return await write.commit()
            finally:
                await write.cancel()  # harmless after the commit

        return await changes.make(ask)

    async def _append(self, file: FileStatus, block: bytes) -> FileStatus:
        async def ask(operation: OperationId) -> FileStatus:
            return await self._volume.append(
                file.path,
                block,
                size=file.size,
                modified_ms=file.modified_ms,
                operation=operation,
                claim=self._claim,
            )

        return await self._changes.make(ask)

    # ── what nobody needs any more ────────────────────────────────────────────────────────────────────────────────────

    async def delete_files(self, oldest: Sequence[MessageFile]) -> None:
        """Delete the oldest files of the log, and all files of the streams but the newest."""
        for file in oldest:
            await self._delete(places.log_file(file.first))
            del self._files[file.first]
        while len(self._streams_files) > 1:
            await self._delete(places.streams_file(self._streams_files[0]))
            del self._streams_files[0]

    async def gather_blocks(self) -> None:
        """Write files that were left with many small blocks once more, the same bytes in few extents, no younger."""
        while self._crowded:
            first = self._crowded[0]
            if first in self._files:
                path = places.log_file(first)
                data = await content_of(VolumeFiles(self._volume), path)
                await self._stream(path, data, self._upkeep, modified_ms=self._files[first].modified_ms)
            self._crowded.pop(0)

    async def _delete(self, path: str) -> None:
        async def ask(operation: OperationId) -> bool:
            return await self._volume.delete(path, recursive=False, operation=operation, claim=self._claim)

        await self._upkeep.make(ask)
