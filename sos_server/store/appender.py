"""One client's right to append to one object, from its first byte to its end, eviction or refusal.

Here is the hot path: `append` copies into the batch that is gathered (about two microseconds for 4 KiB). Who may have
an appender, and when it is taken away, is decided in `namespace.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_server.store.gathering import NOT_CLOSED, PIECE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.disk.disk import Buffer
    from sos_client.wire.data_run import DataRun
    from sos_server.storage.contents import StoredObject
    from sos_server.store.commit_log import CommitLog
    from sos_server.store.gathering import GatheredBatch
    from sos_server.store.runs import RunAppend, Runs
    from sos_server.store.space import Space

WINDOW_BYTES: Final = 16 << 20
"""What one appender may have waiting: a batch being synced and one being gathered, so that neither waits for bytes."""


class Appender:
    """`written` bytes were received, `synced` of them are durable (both count from the object's beginning).

    `closed_by` says why nothing more is taken. Bytes that were taken before are still committed, or dropped, whole
    frames of them; those of runs are dropped.
    """

    __slots__ = (
        "_log",
        "_on_evicted",
        "_on_progress",
        "_quota_bytes",
        "_run_append",
        "_run_bytes_min",
        "_runs",
        "_space",
        "closed_by",
        "crc",
        "instance",
        "stored",
        "synced",
        "written",
    )

    def __init__(
        self,
        stored: StoredObject,
        log: CommitLog,
        space: Space,
        runs: Runs,
        *,
        instance: bytes,
        quota_bytes: int | None,
        on_progress: Callable[[], None],
        on_evicted: Callable[[RefusedError], None],
    ) -> None:
        self.stored = stored
        self.instance = instance
        self.written = self.synced = stored.size
        self.crc = stored.crc
        self.closed_by: RefusedError | None = None
        self._log = log
        self._space = space
        self._runs = runs
        self._run_bytes_min = runs.settings.run_bytes_min
        self._run_append: RunAppend | None = None
        self._quota_bytes = quota_bytes
        self._on_progress = on_progress
        self._on_evicted = on_evicted

    @property
    def has_room(self) -> bool:
        """Whether the next `append` need not wait."""
        taker = self._run_append or self._log.gathering
        return self.written - self.synced < WINDOW_BYTES and taker.has_room

    async def wait_room(self) -> None:
        """Return when the next `append` keeps memory in bounds. Raises what closed the appender or the store."""
        while not self.has_room:
            refusal = self.closed_by or self._log.broken
            if refusal is not None:
                raise refusal
            await self._log.wait_room()

    def append(self, offset: int, crc: int, payload: Buffer) -> None:
        """Take bytes that match their CRC and begin at `offset`, which must be `written`. They are copied at once.

        Raises RefusedError and takes nothing when the appender is closed, the offset is another, or there is no room on
        the disk or in the quota. Callers wait for room in memory first: what does not fit is taken, and costs more.
        """
        length = len(payload)
        batch = self._batch_for(offset, length)
        if length <= PIECE_BYTES_MAX:
            batch.add_piece(self.stored.number, offset, crc, payload)
        else:
            self._add_pieces(batch, offset, payload)
        self._took(length, crc32c(payload, self.crc))

    def append_run(self, run: DataRun) -> None:
        """Like `append` for each payload of the run, but as if they had come as one, so that each costs little."""
        offset, end, payloads, crcs = run
        if len(payloads) == 1:
            self.append(offset, crcs[0], payloads[0])
            return
        length, quota = end - offset, self._quota_bytes
        if length <= PIECE_BYTES_MAX and (quota is None or self.stored.namespace.used_bytes + length <= quota):
            joined = self._batch_for(offset, length).add_run(self.stored.number, offset, payloads, length)
            self._took(length, crc32c(joined, self.crc))
            return
        for crc, payload in zip(crcs, payloads, strict=True):
            self.append(offset, crc, payload)
            offset += len(payload)

    def put_in(self) -> tuple[int, int]:
        """How far the log, with the batch that is gathered, has what was written; and the CRC up to there."""
        return (self.written, self.crc) if self._run_append is None else self._run_append.put_in

    def end_runs(self, run_append: RunAppend) -> None:
        """All that was gathered as runs is in the log: what comes now goes there."""
        if self._run_append is run_append:
            self._run_append = None

    def _batch_for(self, offset: int, length: int) -> GatheredBatch | RunAppend:
        """What takes this many bytes from `offset` on. Raises what `append` does."""
        if self.closed_by is not None:
            raise self.closed_by
        stored = self.stored
        if offset != self.written:
            raise RefusedError(ErrorCode.WRONG_SIZE, size=self.written, crc=self.crc, epoch=stored.epoch)
        used_bytes = stored.namespace.used_bytes
        if self._space.full or (self._quota_bytes is not None and used_bytes + length > self._quota_bytes):
            raise self._no_room(used_bytes)
        if offset - self.synced >= self._run_bytes_min and self._run_append is None:
            self._run_append = self._runs.begin(self)
        if self._run_append is not None:
            return self._run_append.next_frame()
        batch = self._log.gathering
        if not batch.directory:
            self._log.wake()
        batch.appenders[self] = NOT_CLOSED
        return batch

    def _took(self, length: int, crc: int) -> None:
        stored = self.stored
        self.crc = crc
        self.written += length
        stored.unsynced_bytes += length
        stored.namespace.used_bytes += length

    async def end(self) -> None:
        """Return when all that was written is synced; the object may then be appended to by others.

        Raises what closed the appender before that.
        """
        while (run_append := self._run_append) is not None:
            await run_append.over.wait()
        if self.synced < self.written or self.stored.name in self.stored.namespace.making:
            await self._log.flush()
        if self.closed_by is not None:
            raise self.closed_by
        if self.synced < self.written:
            raise RefusedError(ErrorCode.SHUTTING_DOWN)
        self.abandon()

    def abandon(self) -> None:
        """Give up the right; what was put in the log is synced in its own time, without anyone being told."""
        self._close(RefusedError(ErrorCode.BUSY, "this append is over", object=self.stored.name))

    def evict(self, refusal: RefusedError) -> None:
        """Take the right away and tell its holder why."""
        if self._close(refusal):
            self._on_evicted(refusal)

    def advance(self, written: int, crc: int) -> None:
        """A commit made everything up to `written` durable."""
        stored = self.stored
        stored.unsynced_bytes -= written - self.synced
        self.synced = written
        stored.grow(written, crc)
        if self.closed_by is None:
            self._on_progress()

    def lose(self, refusal: RefusedError) -> None:
        """What was written and not synced will never be durable."""
        self._drop_runs()
        self.stored.unsynced_bytes -= self.written - self.synced
        self.stored.namespace.used_bytes -= self.written - self.synced
        self.written, self.crc = self.synced, self.stored.crc
        self.evict(refusal)

    def _close(self, refusal: RefusedError) -> bool:
        if self.stored.appender is self:
            self.stored.appender = None
        first, self.closed_by = self.closed_by is None, self.closed_by or refusal
        self._drop_runs()
        return first

    def _drop_runs(self) -> None:
        """What the log was not given it never gets: another one may append from there now."""
        if (run_append := self._run_append) is not None:
            self._run_append = None
            run_append.dropped = True
            written, crc = run_append.put_in
            self.stored.unsynced_bytes -= self.written - written
            self.stored.namespace.used_bytes -= self.written - written
            self.written, self.crc = written, crc

    def _add_pieces(self, batch: GatheredBatch | RunAppend, offset: int, payload: Buffer) -> None:
        view = memoryview(payload)
        for start in range(0, len(view), PIECE_BYTES_MAX):
            piece = view[start : start + PIECE_BYTES_MAX]
            batch.add_piece(self.stored.number, offset + start, crc32c(piece), piece)

    def _no_room(self, used_bytes: int) -> RefusedError:
        if self._space.full:
            return self._space.refusal()
        return RefusedError(ErrorCode.QUOTA, used=used_bytes, quota=self._quota_bytes)
