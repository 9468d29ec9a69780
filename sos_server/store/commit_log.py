"""The server-wide commit log: one write and one fdatasync for all that arrived while the one before was running.

Measured against one fdatasync per object: 0.31 ms instead of 10.5 ms a batch for 64 objects. `run` is the only writer;
it commits batch after batch and changes files. What a commit means for objects is decided by the two callbacks.

When a batch is durable and the next one is not empty, that one goes to the disk first, and only then the listener is
told of the one before: what is done for each append then (64 clients: 64 ACKs) costs about as much time as the sync,
and takes place beside it. Whatever rests on the outcome (`flush`, a change of files, a failure) has it told before.

While the disk is quick, what a round of the poller has put in (`hold`, `commit_held`) is committed and told of at the
end of that round, without a turn of the event loop in between.

A start cannot tell a last batch that is damaged from one that a crash tore. So when the log has been quiet for a while,
an empty batch is written after the last one: who finds that knows that the one before it was synced.

A write or sync that fails is never tried again. Nobody knows what of it is on the disk, so the log goes on in another
file, whose header says up to where the failed one counts; until that header is durable nothing is acknowledged. When
that fails as well the log is broken: it refuses everything until a restart.
"""

from __future__ import annotations

import errno
import math
import time
from typing import TYPE_CHECKING, Protocol

import trio

from sos_client.wire.errors import ErrorCode, RefusedError
from sos_server.storage.log_format import BLOCK_BYTES
from sos_server.store.gathering import NOT_CLOSED, GatheredBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_server.storage.rows import Row
    from sos_server.store.appender import Appender
    from sos_server.store.log_files import LogFile, LogFiles
    from sos_server.store.settings import StoreSettings
    from sos_server.store.statistics import StoreStatistics


class CommitListener(Protocol):
    """What the store does when a batch is decided. Must not fail: an error here ends the server."""

    def logged(self, batch: GatheredBatch) -> None:
        """The batch has taken its room in the log; `committed` follows, maybe a little later."""

    def committed(self, batch: GatheredBatch, generation: int, position: int) -> None:
        """The batch is durable, in this generation from this position on."""

    def failed(self, batches: list[GatheredBatch], refusal: RefusedError) -> None:
        """These batches are not, and never will be acknowledged."""

    def file_filled(self) -> None:
        """The log needs another free file, now or when the current one is full."""


class CommitLog:
    """Gathers rows and appended bytes, and commits them."""

    def __init__(
        self,
        files: LogFiles,
        settings: StoreSettings,
        statistics: StoreStatistics,
        listener: CommitListener,
        catalog_sequence: Callable[[], int],
    ) -> None:
        self.files = files
        self._settings = settings
        self._statistics = statistics
        self._listener = listener
        self._catalog_sequence = catalog_sequence
        self._buffers = [bytearray(settings.buffer_bytes) for _ in range(2)]
        self.gathering = self._new_batch(self._buffers.pop())
        self._in_flight: GatheredBatch | None = None
        self._untold: tuple[GatheredBatch, int, int] | None = None
        """The batch that is durable without the listener's knowing, its generation and position."""
        self._tell_wanted = trio.Event()
        self._work = trio.Event()
        self._room: trio.Event | None = None  # made for whoever waits
        self._file_freed = trio.Event()
        self._change_wanted = False
        self._files_changed = trio.Event()
        self._open_ended = trio.Event()
        """Nothing says yet that the last batch was synced."""
        self._closing_wanted = False
        self.stuck: OSError | None = None
        """Why full files cannot be copied now (no room on the disk): then it does not help to wait for a free one."""
        self.broken: RefusedError | None = None
        self.last_commit_time = -math.inf
        self._held = False
        self._failure: OSError | None = None
        """Of the batch in flight, which was tried on the spot: what to do now takes other files, and time."""

    @property
    def in_flight(self) -> object:
        """What is being written and synced now, if anything: another one each time."""
        return self._in_flight

    async def wait_room(self) -> None:
        """Return when a batch has been closed (the next has room) or decided (its appenders have advanced)."""
        if self._room is None:
            self._room = trio.Event()
        await self._room.wait()

    def make_room_known(self) -> None:
        """Somebody who waits for room may have some now, for another reason than a batch."""
        self._wake_waiting_for_room()

    def gathering_for(self, appender: Appender) -> GatheredBatch:
        """The batch that is to take bytes of this appender now."""
        if not self.gathering.directory:
            self.wake()
        self.gathering.appenders[appender] = NOT_CLOSED
        return self.gathering

    def wake(self) -> None:
        """Something was put into an empty batch."""
        if not self._held:
            self._work.set()

    def hold(self) -> None:
        """Much may be put in until `commit_held`: commit nothing before."""
        self._held = True

    def commit_held(self) -> None:
        """Commit what was put in: on the spot if nothing else is going on and the disk is quick."""
        self._held = False
        if self.gathering.directory and not self._commit_on_the_spot():
            self._work.set()

    def submit(self, row: Row) -> GatheredBatch:
        """Put a row into the gathering batch; `settle` waits for its fate. Raises IO_ERROR when the log is broken."""
        if self.broken is not None:
            raise self.broken
        self.gathering.add_row(row)
        self._work.set()
        return self.gathering

    @staticmethod
    async def settle(batch: GatheredBatch) -> None:
        """Return when the batch is durable; raise why it will never be.

        Not to be cancelled: what is on its way cannot be taken back, and until its fate is known nobody may act as if
        it were not there.
        """
        with trio.CancelScope(shield=True):
            await batch.decided()
        if batch.refusal is not None:
            raise batch.refusal

    async def flush(self) -> None:
        """Return when all that was put in before is decided, either way."""
        self._tell()
        batch = self.gathering if self.gathering.directory else self._in_flight
        if batch is not None:
            await batch.decided()

    def file_freed(self) -> None:
        """A free file was added, or `stuck` was changed."""
        self._file_freed.set()
        self._file_freed = trio.Event()

    async def change_files(self) -> None:
        """Make the current file a full one, so that it can be copied; nothing happens when it is empty."""
        current = self.files.current
        if current is None or current.used == BLOCK_BYTES or not self.files.free:
            return
        self._change_wanted = True
        self._work.set()
        await self._files_changed.wait()

    async def run(self) -> None:
        """Commit for as long as the store lives. Cancelled, it stops between two commits or inside one: a crash.

        What is undecided then stays so: whoever waits for it is told that the store is shutting down.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell_while_writing)
                nursery.start_soon(self._close_when_quiet)
                await self._write()
        finally:
            self.broken = RefusedError(ErrorCode.SHUTTING_DOWN)
            untold = self._untold[0] if self._untold is not None else None
            for batch in (untold, self._in_flight, self.gathering):
                if batch is not None:
                    batch.refusal = batch.refusal or self.broken
                    batch.decide()
            self._wake_waiting_for_room()
            self._files_changed.set()

    async def begin(self) -> None:
        """Open the first generation after a start. Raises OSError."""
        await self.files.begin(self._catalog_sequence())

    async def _write(self) -> None:
        while True:
            if not (self.gathering.directory or self._change_wanted or self._closing_wanted) and self._failure is None:
                self._work = trio.Event()
                await self._work.wait()
            if self._in_flight is not None and self._failure is not None:
                await self._fail(self._failure)
                self._failure = None
                self._landed(self._in_flight)
            elif self.gathering.directory:
                await self._commit()
            elif self._change_wanted:
                await self._change_idle_file()
            elif self._closing_wanted:
                await self._close_last_batch()

    async def _close_when_quiet(self) -> None:
        while True:
            await self._open_ended.wait()
            await trio.sleep_until(self.last_commit_time + self._settings.closing_seconds)
            if trio.current_time() >= self.last_commit_time + self._settings.closing_seconds:
                self._open_ended = trio.Event()
                self._closing_wanted = True
                self._work.set()

    async def _close_last_batch(self) -> None:
        """Commit an empty batch after the last one, unless a header says already where that one's file ends."""
        self._closing_wanted = False
        current = self.files.current
        if current is not None and not current.ended and current.used > BLOCK_BYTES:
            await self._commit()

    async def _tell_while_writing(self) -> None:
        while True:
            await self._tell_wanted.wait()
            self._tell_wanted = trio.Event()
            self._tell()

    def _tell(self) -> None:
        """Let the listener know of the batch that is durable, if it does not yet."""
        if self._untold is None:
            return
        (batch, generation, position), self._untold = self._untold, None
        self._listener.committed(batch, generation, position)
        batch.decide()
        self._wake_waiting_for_room()

    def _wake_waiting_for_room(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None

    async def _commit(self) -> None:
        if self.broken is not None:
            self._refuse_all(self.broken)
            return
        self._closing_wanted = False
        batch = self._close_batch()
        try:
            log = await self._file_for(batch)
            content, began = _finished(batch, log), time.perf_counter()
            try:
                await log.file.write_and_sync(log.used, [content])
            except OSError:
                log.failed = log.ended = True
                raise
        except OSError as error:
            await self._fail(error)
        else:
            self._committed(batch, log, len(content), time.perf_counter() - began)
        self._landed(batch)

    def _commit_on_the_spot(self) -> bool:
        """Whether the gathered batch is durable and told of, or failed, on return; else nothing was done."""
        batch, log = self.gathering, self.files.current
        if self._in_flight is not None or self.broken is not None or log is None:
            return False
        if not log.has_room(batch.disk_bytes) or not log.file.is_quick(batch.disk_bytes):
            return False
        self._close_batch()
        content, began = _finished(batch, log), time.perf_counter()
        try:
            log.file.write_and_sync_now(log.used, [content])
        except OSError as error:
            log.failed = log.ended = True
            self._failure = error
            self._work.set()
        else:
            self._committed(batch, log, len(content), time.perf_counter() - began)
            self._landed(batch)
        return True

    def _committed(self, batch: GatheredBatch, log: LogFile, length: int, seconds: float) -> None:
        """The batch is durable."""
        self._statistics.synced(length, batch.entries, seconds)
        if not batch.is_empty:
            self._open_ended.set()
        position = log.used
        log.used += length
        log.batches += 1
        log.entries += batch.places
        self._listener.logged(batch)
        self._tell()
        self._untold = (batch, log.generation, position)
        if self.gathering.directory:
            self._tell_wanted.set()
        else:
            self._tell()

    def _landed(self, batch: GatheredBatch) -> None:
        """The batch is no longer in flight."""
        self._in_flight = None
        self._keep_buffer(batch.release())
        self.last_commit_time = trio.current_time()

    def _new_batch(self, buffer: bytearray) -> GatheredBatch:
        return GatheredBatch(buffer, self._settings.batch_bytes_max)

    def _keep_buffer(self, buffer: bytearray) -> None:
        """Use it again, unless a crowd of clients made it larger than it should be."""
        if len(buffer) == self._settings.buffer_bytes:
            self._buffers.append(buffer)

    def _close_batch(self) -> GatheredBatch:
        """The gathered batch, and a new one for what comes next."""
        batch = self._in_flight = self.gathering
        batch.close()
        self.gathering = self._new_batch(
            self._buffers.pop() if self._buffers else bytearray(self._settings.buffer_bytes)
        )
        self._wake_waiting_for_room()
        return batch

    async def _file_for(self, batch: GatheredBatch) -> LogFile:
        current = self.files.current
        if current is not None and (current.has_room(batch.disk_bytes) or self._may_take_reserve(batch, current)):
            return current
        log = await self._next_file()
        self._listener.file_filled()
        return log

    def _may_take_reserve(self, batch: GatheredBatch, current: LogFile) -> bool:
        """Whether the batch is of those that room is kept for, and has no better place."""
        if batch.is_empty or (not batch.appenders and not self.files.free):
            return current.has_reserve(batch.disk_bytes, is_empty=batch.is_empty)
        return False

    async def _next_file(self) -> LogFile:
        """Go on in a free file, waiting for one as long as copying makes any."""
        self._tell()
        while not self.files.free:
            if self.stuck is not None:
                raise OSError(self.stuck.errno, self.stuck.strerror)
            self._listener.file_filled()
            await self._file_freed.wait()
        self._change_wanted = False
        log = await self.files.begin(self._catalog_sequence())
        self._files_changed.set()
        self._files_changed = trio.Event()
        return log

    async def _change_idle_file(self) -> None:
        try:
            await self._next_file()
        except OSError as error:
            await self._fail(error)

    async def _fail(self, error: OSError) -> None:
        """Drop all that is not durable, tell everyone, and go on after what is."""
        self._tell()
        self._statistics.failed_syncs += 1
        self._refuse_all(refusal_for(error))
        current = self.files.current
        if current is None or not current.ended:
            return
        while self.files.free:
            try:
                await self._next_file()
            except OSError as again:
                error = again
            else:
                # What was put in meanwhile rests on synced bytes only: it goes on.
                return
        reason = error.strerror or str(error)
        self.broken = RefusedError(ErrorCode.IO_ERROR, reason=f"{reason}; the store needs a restart")
        self._refuse_all(self.broken)
        self._files_changed.set()

    def _refuse_all(self, refusal: RefusedError) -> None:
        batches = [self._in_flight] if self._in_flight is not None else []
        if self.gathering.directory:
            batches.append(self._close_gathering())
        for batch in batches:
            batch.refusal = refusal
        self._listener.failed(batches, refusal)
        for batch in batches:
            batch.decide()
        self._wake_waiting_for_room()

    def _close_gathering(self) -> GatheredBatch:
        batch = self.gathering
        self.gathering = self._new_batch(batch.release())
        self._wake_waiting_for_room()
        return batch


def _finished(batch: GatheredBatch, log: LogFile) -> memoryview:
    """The batch as the log's next one."""
    return batch.finish(generation=log.generation, number=log.batches, nonce=log.nonce)


def refusal_for(error: OSError) -> RefusedError:
    """What a client is told of a disk's failure."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return RefusedError(ErrorCode.NO_SPACE, free=0)
    return RefusedError(ErrorCode.IO_ERROR, reason=error.strerror or str(error))
