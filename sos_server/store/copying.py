"""Moves bytes from full log files to the objects' files, in the background, so that the log can be written over.

Of a run, which is in its object's file already, the log has a note: then only the CRCs of its chunks are copied.

The order is what keeps every acknowledged byte: the objects' files are written and synced, then their directories,
then a checkpoint says how far each file reaches, and only then a log file is free. Anything that fails on the way
leaves the log files as they are.

A batch that can no longer be read is never passed over: memory knows where each of its bytes lies and with which CRC.
What is still there is copied, what is not is marked as damaged in its object's file, and both are told.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
from typing import TYPE_CHECKING, Final

import trio

from sos_client.wire.checksum import crc32c
from sos_server.objects.object_files import ObjectFiles, directory_of, path_of
from sos_server.storage.contents import IN_FILE
from sos_server.storage.log_format import NOTE, ROW_NUMBER, LogScan, scan_log
from sos_server.storage.object_layout import ObjectCopy
from sos_server.storage.run_notes import RunNote, decode_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from journal.disk.disk import Disk
    from sos_server.objects.object_writing import ObjectWriter
    from sos_server.storage.contents import Contents
    from sos_server.store.catalog import Catalog
    from sos_server.store.log_files import LogFile, LogFiles
    from sos_server.store.statistics import StoreStatistics

ENTRIES_PER_TURN: Final = 256
"""Entries laid out between two turns of other tasks: under a millisecond."""
LOG_BYTES_FOR_THREAD: Final = 4 << 20
ENTRY_BYTES_FOR_THREAD: Final = 32 << 10
"""This much of a log file is laid out in a thread, if its entries are this large on average: it is their CRCs that take
the time then, and those do not need the interpreter. With small ones a thread would take it from the event loop at each
of its system calls."""


class Copier:
    """Owns what is in the objects' files. One copy runs at a time."""

    def __init__(
        self,
        disk: Disk,
        contents: Contents,
        catalog: Catalog,
        files: LogFiles,
        object_files: ObjectFiles,
        writer: ObjectWriter,
        statistics: StoreStatistics,
        report: Callable[[str], None],
    ) -> None:
        self._disk = disk
        self._contents = contents
        self._catalog = catalog
        self._files = files
        self._object_files = object_files
        self._writer = writer
        self._statistics = statistics
        self._report = report
        self._swept_directories: set[str] = set()
        self._deleted: set[int] = set()
        self._turn = trio.Lock()
        self._memory = memoryview(bytearray())

    def delete_file(self, number: int) -> None:
        """The object is gone: its file goes with the next `sweep`."""
        self._deleted.add(number)
        self._object_files.forget(number)

    async def sweep(self) -> None:
        """Remove the files of deleted objects, which gives their room back. Raises OSError."""
        while self._deleted:
            number = self._deleted.pop()
            with contextlib.suppress(FileNotFoundError):
                await self._disk.unlink(path_of(number))
                self._swept_directories.add(directory_of(number))

    async def copy(self, bytes_max: int) -> bool:
        """Copy the oldest full files (one at least) and write a checkpoint; whether any file was there to copy.

        Raises OSError, with everything as it was before: when there is no room, to be tried again; and for good when
        a directory or the catalog cannot be synced. Objects whose own files fail become read-only.
        """
        async with self._turn:
            if self._writer.failed is not None:
                raise OSError(errno.EIO, self._writer.failed)
            try:
                return await self._copy(bytes_max)
            except OSError as error:
                self._writer.fail(error)
                raise

    async def _copy(self, bytes_max: int) -> bool:
        logs = self._oldest(bytes_max)
        copies: dict[int, ObjectCopy] = {}
        left = self._room_for(sum(log.used for log in logs))
        for log in logs:
            await self._lay_out(log, left[: log.used], copies)
            left = left[log.used :]
        await self._write(copies)
        if logs or self._contents.changed:
            await self._checkpoint(logs)
        for number in copies:
            if (stored := self._contents.objects.get(number)) is not None and stored.read_only is None:
                stored.forget_logged(logs[-1].generation)
        return bool(logs)

    def _oldest(self, bytes_max: int) -> list[LogFile]:
        """Full files that were not copied yet, in order: an object's bytes can only be added to those before them."""
        logs: list[LogFile] = []
        for log in self._files.full:
            bytes_max -= log.used
            if not log.copied and (not logs or bytes_max >= 0):
                logs.append(log)
        return logs

    def _room_for(self, wanted_bytes: int) -> memoryview:
        """Memory for what is read of the log, kept from one copy to the next as long as there is load.

        With fresh memory for each 64 MiB, which the kernel has to find and clear, an append of 4 KiB took 7.6
        microseconds of processor time instead of 5.7 (64 in flight on one connection). It is mapped, so that the thread
        that reads into it waits for that, the first time, and not the event loop.
        """
        if len(self._memory) < wanted_bytes:
            self._memory = memoryview(mmap.mmap(-1, wanted_bytes))
        return self._memory

    def give_memory_back(self) -> None:
        """There is nothing to copy for a while."""
        if not self._turn.locked():
            self._memory = memoryview(bytearray())

    def _pinned(self) -> set[int]:
        """The generations that objects need whose own files cannot be written."""
        return {
            piece.generation
            for stored in self._writer.given_up
            if stored.logged is not None
            for piece in stored.logged.pieces(stored.copied, stored.size)
        }

    async def _lay_out(self, log: LogFile, room: memoryview, copies: dict[int, ObjectCopy]) -> None:
        """Read a log file into `room`, and add its bytes to the copies of their objects, which point into that."""
        content = room[: await log.file.read_into(0, room)]
        scan = LogScan()
        unreadable: list[str] = []
        adding = self._add_batches(log, content, scan, copies, unreadable)
        if log.used >= max(LOG_BYTES_FOR_THREAD, log.entries * ENTRY_BYTES_FOR_THREAD):
            await trio.to_thread.run_sync(sum, adding)
        else:
            await _in_turns(adding)
        if unreadable:
            self._report(
                f"log generation {log.generation}: {unreadable[0]} cannot be read; "
                "what is left of it and of those after it is copied from where it was written"
            )
            await _in_turns(self._add_known(log, content, copies))

    def _add_batches(
        self, log: LogFile, content: memoryview, scan: LogScan, copies: dict[int, ObjectCopy], unreadable: list[str]
    ) -> Iterator[int]:
        """Add batch after batch, up to one that is `unreadable`; yields how many entries each has. Needs nothing that
        others than the copier change."""
        for batch in scan_log(content, generation=log.generation, nonce=log.nonce, end=log.used, scan=scan):
            if scan.damage:
                break
            for (number, offset, _, crc), position, payload in batch.payloads(content):
                note = None
                if number & NOTE:
                    number ^= NOTE
                    note = decode_note(offset, payload) if crc32c(payload) == crc else None
                    if note is None:
                        unreadable.append(f"the note at byte {position}")
                        return
                copy = copies.get(number) or self._begin_copy(number, copies)
                if copy is not None and offset >= copy.size:
                    assert offset == copy.size, "a gap would lose what is behind it"
                    if note is None:
                        copy.add(payload, crc)
                    else:
                        copy.pass_run(note)
            yield len(batch.entries)
        unreadable += [f"the synced batch at byte {place}" for place in scan.damage[:1]]

    def _add_known(self, log: LogFile, content: memoryview, copies: dict[int, ObjectCopy]) -> Iterator[int]:
        """Add all that memory knows to lie in this file and that is not added yet; yields how many entries were."""
        for number, stored in list(self._contents.objects.items()):
            pieces = stored.logged.pieces(stored.copied, stored.size) if stored.logged is not None else ()
            known = [piece for piece in pieces if piece.generation == log.generation]
            copy = (copies.get(number) or self._begin_copy(number, copies)) if known else None
            for piece in known:
                if copy is not None and piece.offset >= copy.size:
                    assert piece.offset == copy.size, "a gap would lose what is behind it"
                    if piece.position == IN_FILE:
                        copy.pass_run(RunNote(piece.offset, piece.length, (piece.crc,)))
                        continue
                    payload = content[piece.position : piece.position + piece.length]
                    whole = payload if len(payload) == piece.length else bytes(payload).ljust(piece.length, b"\0")
                    copy.add(memoryview(whole), piece.crc)
            yield 1 + len(known)

    def _begin_copy(self, number: int, copies: dict[int, ObjectCopy]) -> ObjectCopy | None:
        stored = self._contents.objects.get(number) if number != ROW_NUMBER else None
        if stored is None or stored.read_only is not None:
            return None
        copies[number] = copy = ObjectCopy(stored.copied, stored.copied_crc, stored.tail_crc)
        return copy

    async def _write(self, copies: dict[int, ObjectCopy]) -> None:
        """Bring the copies to the objects' files, each synced, each directory synced. Raises OSError."""
        objects = self._contents.objects
        async with self._writer.copying(copies):
            numbers = [n for n in copies if n in objects and objects[n].read_only is None]
            writes = {number: copies[number].extents() for number in numbers}
            answers = await self._writer.write(writes, nameless=[n for n in numbers if not objects[n].copied])
        for number, error in zip(numbers, answers, strict=True):
            self._note(number, copies[number], error)

    def _note(self, number: int, copy: ObjectCopy, error: OSError | None) -> None:
        stored = self._contents.objects.get(number)
        if stored is None:
            self.delete_file(number)
        elif error is not None:
            self._statistics.failed_copies += 1
            self._writer.give_up(stored, error)
        else:
            self._statistics.copied_bytes += copy.size - stored.copied - copy.run_bytes
            stored.copied, stored.copied_crc, stored.tail_crc = copy.size, copy.crc, copy.tail_crc
            self._contents.changed.add(number)
            if copy.damaged and not stored.damaged:
                stored.damaged = True
                self._statistics.damaged_reads += 1
                where = f"{stored.namespace.name}/{stored.name}"
                self._report(f"object {where} is damaged: not all of its bytes could be read back from the log")

    async def _checkpoint(self, logs: list[LogFile]) -> None:
        """Write the catalog, then free the log files that it makes superfluous."""
        await self.sweep()
        while self._swept_directories:
            await self._disk.sync_directory(self._swept_directories.pop())
        for log in logs:
            log.copied = True
        pinned = self._pinned()
        needed = [log.generation for log in self._files.full if not log.copied or log.generation in pinned]
        current = self._files.current
        newest = current.generation if current is not None else self._files.next_generation
        replay_from = min([*needed, newest])
        await self._catalog.write(
            self._contents, replay_from=replay_from, open_generation=current.generation if current is not None else 0
        )
        for log in [log for log in self._files.full if log.generation < replay_from]:
            self._files.retire(log)


async def _in_turns(adding: Iterator[int]) -> None:
    """Exhaust it, other tasks having their turn in between."""
    entries = 0
    for added in adding:
        entries += added
        if entries > ENTRIES_PER_TURN:
            await trio.lowlevel.checkpoint()
            entries = 0
