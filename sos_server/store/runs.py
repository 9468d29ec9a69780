"""Runs: long stretches of one append that go straight to the object's own file; the log has a note of each.

Through the log every byte is written twice. While it has room that is the quicker way all the same, for a burst: its
files' blocks are written over, and one sync is for all objects. So a run begins only when a good part of the log waits
to be copied, and much of one append is on its way (`docs/decisions/0208`).

What keeps every promise of the log is the order. A run is whole blocks; it is written and synced, and so is the file's
name, before the log is given its note. What is beside whole blocks goes into the batch of the note, so that what a
client sent in one frame is there whole or not at all. Bytes that come meanwhile wait behind it: nothing of an append is
put into the log before what was sent before it. When a file cannot be written its bytes go through the log.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Final

import trio

from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_server.storage.log_format import BLOCK_BYTES, LOG_VERSION
from sos_server.storage.object_layout import data_position, group_ranges
from sos_server.storage.run_notes import RunNote, note_of
from sos_server.store.gathering import PIECE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from journal.disk.disk import Buffer
    from sos_server.objects.object_writing import ObjectWriter
    from sos_server.storage.contents import Contents, StoredObject
    from sos_server.store.appender import Appender
    from sos_server.store.commit_log import CommitLog
    from sos_server.store.copying import Copier
    from sos_server.store.settings import StoreSettings
    from sos_server.store.space import Space
    from sos_server.store.statistics import StoreStatistics

CRC_BYTES_FOR_THREAD: Final = 256 << 10
"""From this much on the CRCs of a run are made in a thread, beside its way to the disk."""


class GatheredRun:
    """Bytes of one append in memory, from `start` on, where a frame began; `crc` is of all that is before them.

    Whole blocks of the object begin where a block of the memory does: as a disk takes them.
    """

    __slots__ = ("_pad", "crc", "ends", "fill", "memory", "start")

    def __init__(self, memory: memoryview, start: int, crc: int) -> None:
        self.memory = memory
        self._pad = start % BLOCK_BYTES
        self.start = start
        self.crc = crc
        self.fill = 0
        self.ends: list[tuple[int, int]] = []
        """Where a frame ends, and the CRC of the whole object up to there."""

    @property
    def end(self) -> int:
        return self.start + self.fill

    @property
    def blocks(self) -> tuple[int, int]:
        """The whole blocks in it: from which offset of the object to which."""
        first = -(-self.start // BLOCK_BYTES) * BLOCK_BYTES
        return first, max(first, self.end // BLOCK_BYTES * BLOCK_BYTES)

    def add(self, payload: Buffer) -> None:
        start = self._pad + self.fill
        end = start + len(payload)
        if end > len(self.memory):  # more came at once than there was to be room for
            grown = memoryview(bytearray(2 * end))
            grown[:start] = self.memory[:start]
            self.memory = grown
        self.memory[start:end] = payload
        self.fill += len(payload)

    def content(self, start: int, end: int) -> memoryview:
        """The bytes from one offset of the object to another."""
        shift = self._pad - self.start
        return self.memory[start + shift : end + shift]

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, int, memoryview]]:
        """The same as a batch takes them: offset, CRC and bytes."""
        while start < end:
            stop = min(end, start + PIECE_BYTES_MAX)
            content = self.content(start, stop)
            yield start, crc32c(content), content
            start = stop

    def crc_with(self, note: RunNote) -> int:
        """The CRC of the whole object up to the end, if what lies in its file is what the note says."""
        before = crc32c(self.content(self.start, note.offset), self.crc)
        return crc32c(self.content(note.end, self.end), note.crc_after(before))


class RunAppend:
    """The part of an appender that gathers runs and writes one after the other, until little is on its way.

    It takes bytes as a `GatheredBatch` does. `put_in` is how far the append is in the log, with which CRC: what comes
    after that is dropped when the appender is closed.
    """

    def __init__(self, appender: Appender, runs: Runs) -> None:
        self._appender = appender
        self._runs = runs
        self._log = runs.log
        self._gathered = GatheredRun(runs.take_memory(), appender.written, appender.crc)
        self._has_name = appender.stored.copied > 0
        self.put_in = (appender.written, appender.crc)
        self.dropped = False
        self.over = trio.Event()

    @property
    def has_room(self) -> bool:
        return self._gathered.fill < self._runs.settings.run_bytes_max

    def next_frame(self) -> RunAppend:
        """What is added from here on is part of another frame."""
        if self._gathered.fill:
            self._gathered.ends.append((self._appender.written, self._appender.crc))
        return self

    def add_piece(self, number: int, offset: int, crc: int, payload: Buffer) -> None:
        self._gathered.add(payload)

    def add_run(self, number: int, offset: int, payloads: Sequence[Buffer], length: int) -> memoryview:
        for payload in payloads:
            self._gathered.add(payload)
        return self._gathered.content(offset, offset + length)

    async def run(self) -> None:
        """Bring to the disk what is gathered, until there is nothing left, or the appender is closed."""
        try:
            # What was put in before is decided then: the object is there, and nothing that runs rest on can be lost.
            await self._log.flush()
            while self._gathered.fill and not self.dropped:
                run = self._take_run()
                try:
                    await self._write(run)
                finally:
                    self._runs.give_back(run.memory)
        except BaseException:
            self._appender.evict(RefusedError(ErrorCode.SHUTTING_DOWN))
            raise
        finally:
            self._appender.end_runs(self)
            self._runs.end(self, self._gathered.memory)
            self._log.make_room_known()
            self.over.set()

    def _take_run(self) -> GatheredRun:
        """All that is gathered; what comes meanwhile is the next one."""
        run = self._gathered
        run.ends.append((self._appender.written, self._appender.crc))
        self._gathered = GatheredRun(self._runs.take_memory(), self._appender.written, self._appender.crc)
        self._log.make_room_known()
        return run

    async def _write(self, run: GatheredRun) -> None:
        """Through the file and its note, or, when there is little of it or it cannot be, through the log."""
        start, stop = run.blocks
        note = None
        if stop - start >= self._runs.settings.run_bytes_min:
            note = await self._written(start, run.content(start, stop))
        if note is None:
            await self._put_in_log(run)
        elif await self._may_put_in():
            assert run.crc_with(note) == run.ends[-1][1], "these are not the bytes that came"
            batch, number = self._log.gathering_for(self._appender), self._appender.stored.number
            for piece in run.pieces(run.start, note.offset):
                batch.add_piece(number, *piece)
            batch.add_note(number, note)
            for piece in run.pieces(note.end, run.end):
                batch.add_piece(number, *piece)
            self.put_in = run.ends[-1]

    async def _written(self, start: int, content: memoryview) -> RunNote | None:
        """The note of these blocks when they are synced in the object's file; None when they are not."""
        stored = self._appender.stored
        async with self._runs.writer.running(stored.number):
            # The appender may have been closed meanwhile, and what came after it been copied to the same place.
            if self.dropped or not self._runs.may_write(stored):
                return None
            note = await self._runs.write(stored, start, content, has_name=self._has_name)
        self._has_name = self._has_name or note is not None
        return note

    async def _put_in_log(self, run: GatheredRun) -> None:
        """All of it, frame by frame, as the log has room."""
        start = run.start
        for end, crc in run.ends:
            if not await self._may_put_in():
                return
            batch = self._log.gathering_for(self._appender)
            for piece in run.pieces(start, end):
                batch.add_piece(self._appender.stored.number, *piece)
            self.put_in = end, crc
            start = end

    async def _may_put_in(self) -> bool:
        """Wait until a batch takes one more append; False when the appender is closed."""
        while not self.dropped and self._log.broken is None and not self._log.gathering.has_room:
            await self._log.wait_room()
        if self._log.broken is not None:
            self._appender.evict(self._log.broken)
        return not self.dropped


class Runs:
    """All appends that have runs on their way: few at a time, so that there is a bound to their memory."""

    def __init__(
        self,
        settings: StoreSettings,
        contents: Contents,
        log: CommitLog,
        writer: ObjectWriter,
        copier: Copier,
        space: Space,
        statistics: StoreStatistics,
    ) -> None:
        self.settings = settings
        self.log = log
        self.writer = writer
        self._contents = contents
        self._copier = copier
        self._space = space
        self._statistics = statistics
        self._nursery: trio.Nursery | None = None
        self._active: set[RunAppend] = set()
        self._memory_bytes = settings.run_bytes_max + settings.append_bytes_max + BLOCK_BYTES
        self._memory: list[memoryview] = []

    async def run(self) -> None:
        """Serve until cancelled. What is not in the log then is dropped, as by a crash."""
        try:
            async with trio.open_nursery() as self._nursery:
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def begin(self, appender: Appender) -> RunAppend | None:
        """Gather what comes of this append as runs, if now is a time for that."""
        if not self.log.files.pressed or self._nursery is None or len(self._active) >= self.settings.run_appends_max:
            return None
        if not self.may_write(appender.stored):
            return None
        begun = RunAppend(appender, self)
        self._active.add(begun)
        self._nursery.start_soon(begun.run)
        return begun

    def end(self, append: RunAppend, memory: memoryview) -> None:
        self._active.discard(append)
        self.give_back(memory)

    def may_write(self, stored: StoredObject) -> bool:
        """Whether the object's file may be written, and the log can have a note of that."""
        current = self.log.files.current
        if current is None or current.version < LOG_VERSION or self._space.full:
            return False
        return stored.read_only is None and self.writer.failed is None

    async def write(self, stored: StoredObject, offset: int, content: memoryview, *, has_name: bool) -> RunNote | None:
        """Write and sync whole blocks, in the turn for this file. None when that fails, which is then known."""
        notes: list[RunNote] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_make_note, offset, content, notes)
            failure = await self._write_file(stored, offset, content, has_name=has_name)
        if stored.number not in self._contents.objects:
            self._copier.delete_file(stored.number)  # the file may have been made after it was removed
        if failure is not None:
            return None
        self._space.taken(len(content))
        self._statistics.straight_bytes += len(content)
        return notes[0]

    async def _write_file(
        self, stored: StoredObject, offset: int, content: memoryview, *, has_name: bool
    ) -> OSError | None:
        extents = [
            (data_position(start), [content[start - offset : stop - offset]])
            for start, stop in group_ranges(offset, offset + len(content))
        ]
        try:
            (error,) = await self.writer.write({stored.number: extents}, nameless=[] if has_name else [stored.number])
        except OSError as failure:
            self.writer.fail(failure)
            return failure
        if error is not None:
            self._statistics.failed_copies += 1
            self.writer.give_up(stored, error)
        return error

    def take_memory(self) -> memoryview:
        """For one run. It is mapped, so that it begins where a page does, and kept as long as there is load."""
        return self._memory.pop() if self._memory else memoryview(mmap.mmap(-1, self._memory_bytes))

    def give_back(self, memory: memoryview) -> None:
        if len(memory) == self._memory_bytes and len(self._memory) < 2 * self.settings.run_appends_max:
            self._memory.append(memory)

    def give_memory_back(self) -> None:
        """There are no runs for a while."""
        self._memory.clear()


async def _make_note(offset: int, content: memoryview, notes: list[RunNote]) -> None:
    if len(content) < CRC_BYTES_FOR_THREAD:
        notes.append(note_of(offset, content))
    else:
        notes.append(await trio.to_thread.run_sync(note_of, offset, content))
