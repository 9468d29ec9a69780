"""Writes an ingest volume: recovers what it says, gives sequence numbers, commits what came in, many frames at once.

Senders are told only what the volume has on k of its members. One block is written at a time; what comes meanwhile is
the next one. The volume's owner is this process: a takeover elsewhere ends this log with NOT_OWNER.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import trio

from connectors.ingest import places
from connectors.ingest.block import HEAD_BYTES, block_head, blocks, replay
from connectors.ingest.intake import Intake
from connectors.ingest.known_streams import KnownStreams, decode_streams, encode_streams
from connectors.wire.limits import MESSAGE_FRAME_BYTES_MAX
from journal.errors import JournalCode, JournalError, UnavailableError, damaged, journal_error, refused
from journal.volume import PUT_BYTES_MAX, OperationId, PathClaim
from sos_client.wire.limits import LENGTH_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from journal.volume import FileStatus, Volume

LOG_FILE_BYTES_MAX: Final = 16 << 20
"""A new listener replays at most a few times so much, and retention frees room in such pieces."""
LOG_FILE_BLOCKS_MAX: Final = 8192
"""Each block is an extent of its file, copied with all before it by the next one."""
BLOCK_FRAMES_BYTES_MAX: Final = PUT_BYTES_MAX - HEAD_BYTES
assert LENGTH_BYTES + MESSAGE_FRAME_BYTES_MAX == BLOCK_FRAMES_BYTES_MAX
INTAKE_BYTES_MAX: Final = 16 << 20
"""What may wait to be written before senders are no longer read."""
STREAMS_EVERY: Final = 4
"""The log grows by so many times the size of a file of streams before the next one: they are a fifth of all bytes."""
APPLICATION: Final = "sos-connector listen"
PAUSE_SECONDS: Final = 0.5
"""Before what the volume could not do is asked for again. Senders wait, for want of credits."""


class IngestLog:
    """The one writer of an ingest volume: `open` it once, `run` it in a nursery.

    `accepted` are all streams with what has come of them, `durable` what the volume has.
    """

    def __init__(self, volume: Volume, *, wall_ms: Callable[[], int]) -> None:
        self.accepted = KnownStreams()
        self.durable = KnownStreams()
        self.intake = Intake()
        self.next_sequence = 0
        self.waits_for = ""
        self._volume = volume
        self._wall_ms = wall_ms
        self._client = secrets.token_bytes(16)
        self._operations = 0
        self._claim: PathClaim | None = None
        self._file: FileStatus | None = None  # that blocks are added to
        self._file_first = 0
        self._file_blocks = 0
        self._since_streams_bytes = 0
        self._streams_bytes = 0
        self._wanted = trio.Event()
        self._room = trio.Event()
        self._writing = False
        self._settled = trio.Event()

    # ── recovery ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        """Make the volume this log's, and read what it says. BAD_REQUEST for a volume of something else, DAMAGED."""
        await self._check_format()
        await self._claim_log()
        files = await self._numbered(places.LOG)
        snapshots = await self._numbered(places.STREAMS)
        if snapshots:
            self.next_sequence, file = snapshots[-1]
            data = await self._read(file.path)
            self._streams_bytes = len(data)
            self.durable = decode_streams(data)
        elif files:
            self.next_sequence = files[0][0]
        for first, file in files:
            if first >= self.next_sequence:
                await self._replay(first, file)
        self.accepted = self.durable.copy()

    async def _check_format(self) -> None:
        try:
            text = await self._read(places.FORMAT_FILE)
        except JournalError as error:
            if error.code is not JournalCode.NOT_FOUND:
                raise
            name = self._volume.name
            if (await self._volume.list("", limit=1)).entries:
                raise refused(
                    JournalCode.BAD_REQUEST,
                    f"volume {name} is not an ingest volume, and is not empty: make one with `sos-journal create`",
                ) from None
            await self._put(places.FORMAT_FILE, places.FORMAT_TEXT)
            return
        if text != places.FORMAT_TEXT:
            message = f"{places.FORMAT_FILE} says {text[:100]!r}: a newer sos-connector wrote it; use that one"
            raise journal_error(JournalCode.TOO_NEW, message)

    async def _claim_log(self) -> None:
        """Nobody else writes where this log writes, whatever rights they have on the volume."""
        start_time = self._wall_ms()
        for path in (places.LOG, places.STREAMS):
            page = await self._volume.claims(after=path[:-1])
            present = [one.claim.start_time for one in page.claims if one.path == path]
            start_time = max(start_time, *(time + 1 for time in present), 0)
        self._claim = PathClaim(start_time=start_time, application=APPLICATION)
        for path in (places.LOG, places.STREAMS):
            await self._volume.claim(path, self._claim, operation=self._next_operation())

    async def _numbered(self, directory: str) -> list[tuple[int, FileStatus]]:
        """The files of a directory that are named after a sequence number, in order."""
        found: list[tuple[int, FileStatus]] = []
        after, more = "", True
        while more:
            try:
                page = await self._volume.list(directory, after=after)
            except JournalError as error:
                if error.code is JournalCode.NOT_FOUND:
                    return []
                raise
            for entry in page.entries:
                first = places.sequence_of(entry.path)
                if first is not None:
                    found.append((first, entry))
                after = entry.path.rpartition("/")[2]
            more = page.more
        return found

    async def _read(self, path: str) -> bytes:
        return b"".join([piece async for piece in self._volume.read(path)])

    async def _replay(self, first: int, file: FileStatus) -> None:
        data, read_bytes = memoryview(await self._read(file.path)), 0
        self._file, self._file_first, self._file_blocks = file, first, 0
        for block in blocks(data):
            if block.first_sequence != self.next_sequence:
                raise damaged(f"{file.path} goes on with {block.first_sequence} after {self.next_sequence}")
            replay(block, self.durable)
            self.next_sequence = block.end_sequence
            self._file_blocks += 1
            read_bytes += block.size
        if read_bytes != file.size:
            raise damaged(f"{file.path} has {file.size} bytes, of which {read_bytes} are blocks")
        self._since_streams_bytes += read_bytes

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
        self._writing = True
        await self._roll()
        for frames, rows in intake.blocks(BLOCK_FRAMES_BYTES_MAX):
            await self._write(frames, rows)
        intake.settle(self.durable)
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
            self._streams_bytes, self._since_streams_bytes = len(data), 0
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
        self._file_blocks += 1
        self._since_streams_bytes += len(block)
        self.next_sequence += rows

    async def _put(self, path: str, data: bytes) -> FileStatus:
        if len(data) > PUT_BYTES_MAX:
            return await self._stream(path, data)

        async def ask(operation: OperationId) -> FileStatus:
            return await self._volume.put(path, data, overwrite=True, operation=operation, claim=self._claim)

        return await self._until_done(ask)

    async def _stream(self, path: str, data: bytes) -> FileStatus:
        async def ask(operation: OperationId) -> FileStatus:
            write = await self._volume.open_write(path, overwrite=True, operation=operation, claim=self._claim)
            try:
                for start in range(0, len(data), PUT_BYTES_MAX):
                    await write.write(data[start : start + PUT_BYTES_MAX])
                return await write.commit()
            finally:
                await write.cancel()  # harmless after the commit

        return await self._until_done(ask)

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

        return await self._until_done(ask)

    async def _until_done(self, ask: Callable[[OperationId], Awaitable[FileStatus]]) -> FileStatus:
        """Ask until it is done: who waits is kept waiting, nothing is dropped. Raises what will not pass.

        Always the same operation: one of the attempts may have been made, whatever the next one says.
        """
        operation = self._next_operation()
        while True:
            try:
                status = await ask(operation)
            except UnavailableError as error:
                self.waits_for = error.message
            else:
                self.waits_for = ""
                return status
            await trio.sleep(PAUSE_SECONDS)

    def _next_operation(self) -> OperationId:
        self._operations += 1
        return OperationId(client=self._client, sequence=self._operations)
