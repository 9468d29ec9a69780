"""The files of the commit log: made once, written over and over, each time as a new generation.

Overwriting blocks that were written before syncs in half the time of growing a file (no metadata changes). A file is
*free*, *current*, *full* (waiting to be copied) or gone; which one is known here, when to change it is not.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import TYPE_CHECKING, Final

from journal.disk.disk import Disk, File, OpenMode
from sos_server.storage.log_format import BLOCK_BYTES, LOG_VERSION, NONCE_BYTES, LogHeader, encode_log_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_server.store.settings import StoreSettings

LOG_DIRECTORY: Final = "log"
BYTES_PER_ENTRY_MIN: Final = 512
"""A file takes at most one entry for this many of its bytes, which bounds the memory for bytes not copied yet."""
FILE_RESERVE_BYTES: Final = BLOCK_BYTES + (128 << 10)
"""What appends leave free in a file: a block for an empty batch at its end, and room for claims, seals and deletes when
the disk is full and there is no other file. Without them nobody could take over, or make room."""


def is_log_file(name: str) -> bool:
    """Whether a file of this name in the log's directory is the server's. It leaves all others alone."""
    return name.isascii() and name.isdigit()


@dataclasses.dataclass(slots=True, eq=False)
class LogFile:
    """An open log file. `used` is where its next batch goes, `batches` that batch's number."""

    file: File
    path: str
    file_bytes: int
    generation: int = 0
    version: int = LOG_VERSION
    nonce: bytes = b""
    used: int = BLOCK_BYTES
    batches: int = 0
    entries: int = 0
    readers: int = 0
    copied: bool = False
    """All its bytes are in their objects' files, but for objects whose files cannot be written."""
    ended: bool = False
    """Nothing may be added: a header that says where this generation ends may be on the disk."""
    failed: bool = False
    """A write failed: what counts is kept until it is copied, but the file is never used again."""

    def has_room(self, batch_bytes: int) -> bool:
        """Whether a batch may go here and leaves room for others that must find some (see `FILE_RESERVE_BYTES`)."""
        return (
            self.used + batch_bytes + FILE_RESERVE_BYTES <= self.file_bytes
            and self.entries < self.file_bytes // BYTES_PER_ENTRY_MIN
            and not self.ended
        )

    def has_reserve(self, batch_bytes: int, *, is_empty: bool) -> bool:
        """Whether a batch of rows only, or an empty one, may take what was kept for it."""
        kept = 0 if is_empty else BLOCK_BYTES
        return self.used + batch_bytes + kept <= self.file_bytes and not self.ended


class LogFiles:
    """All log files of a store and their states."""

    def __init__(
        self,
        disk: Disk,
        settings: StoreSettings,
        identity: bytes,
        log_bytes_max: int,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._disk = disk
        self._settings = settings
        self._identity = identity
        self._random_bytes = random_bytes
        self._bytes_max = log_bytes_max
        self._paths_made = 0
        self.bytes_total = 0
        self.free: deque[LogFile] = deque()
        self.full: deque[LogFile] = deque()
        self.by_generation: dict[int, LogFile] = {}
        self.current: LogFile | None = None
        self.pressed = False
        """So much waits to be copied that what can go past the log should (`StoreSettings.run_log_part`)."""
        self.next_generation = 1
        self._retired: set[LogFile] = set()
        """Copied, but still read by someone."""

    def adopt(self, log: LogFile) -> None:
        """Take over a file that recovery found: full when it has a generation that counts, else free."""
        self.bytes_total += log.file_bytes
        self._paths_made = max(self._paths_made, int(log.path.rpartition("/")[2]))
        if log.generation:
            self.full.append(log)
            self.by_generation[log.generation] = log
            self._weigh()
        else:
            self.free.append(log)

    def uncopied_bytes(self) -> int:
        """What the log holds that is, or may be, nowhere else."""
        current = self.current.used if self.current is not None else 0
        return current + sum(log.used for log in self.full)

    def copy_is_due(self) -> bool:
        """Whether full files should be copied now: half of the log is full, or the current one has no successor."""
        if not self.full:
            return False
        full_bytes = sum(log.file_bytes for log in self.full)
        return 2 * full_bytes >= self._bytes_max or (not self.free and not self.may_grow())

    def stop_growing(self) -> None:
        """There is no room for more files."""
        self._bytes_max = self.bytes_total

    def may_grow(self) -> bool:
        return self.bytes_total + self._next_file_bytes() <= self._bytes_max

    async def grow(self) -> None:
        """Make one more free file. After an error nothing of it is left."""
        file_bytes = self._next_file_bytes()
        self._paths_made += 1
        path = f"{LOG_DIRECTORY}/{self._paths_made:04d}"
        file = await self._disk.open(path, OpenMode.CREATE)
        try:
            await file.allocate(file_bytes)
            await self._disk.sync_directory(LOG_DIRECTORY)
        except OSError:
            file.close()
            await self._disk.unlink(path)
            raise
        self.bytes_total += file_bytes
        self.free.append(LogFile(file, path, file_bytes))

    async def begin(self, catalog_sequence: int) -> LogFile:
        """Make a free file the current one: from then on the one before counts up to what it has used, no further.

        Raises OSError when its header cannot be made durable; that file is not used again.
        """
        previous, log = self.current, self.free.popleft()
        header = LogHeader(
            generation=self.next_generation,
            file_bytes=log.file_bytes,
            previous_generation=previous.generation if previous is not None else self._newest_full(),
            previous_end=previous.used if previous is not None else self._newest_full_end(),
            catalog_sequence=catalog_sequence,
            identity=self._identity,
            nonce=self._random_bytes(NONCE_BYTES),
        )
        self.next_generation += 1
        if previous is not None:
            previous.ended = True
        try:
            await log.file.write_and_sync(0, [encode_log_header(header)])
        except OSError:
            self._drop(log)
            raise
        log.generation, log.version, log.nonce = header.generation, header.version, header.nonce
        log.used, log.batches, log.entries = BLOCK_BYTES, 0, 0
        log.copied = log.ended = False
        self.by_generation[log.generation] = log
        if previous is not None:
            self.full.append(previous)
        self.current = log
        self._weigh()
        return log

    def go_on_in_newest(self) -> None:
        """After a start without a free file: add to the newest one, whose last batch was written again.

        What a crash tore after it does not matter: the first batch that is written now takes the place of its header.
        """
        if self.full and self.full[-1].nonce:
            self.current = self.full.pop()
            self.current.ended = False
            self._weigh()

    def retire(self, log: LogFile) -> None:
        """A full file's bytes are all in their objects' files, and the catalog says so: it may be written over."""
        self.full.remove(log)
        self._weigh()
        del self.by_generation[log.generation]
        if log.readers:
            self._retired.add(log)
        else:
            self._release(log)

    async def read(self, generation: int, position: int, length: int) -> bytes | None:
        """Logged bytes, or None when that generation has been copied and is gone."""
        log = self.by_generation.get(generation)
        if log is None:
            return None
        log.readers += 1
        try:
            return await log.file.read(position, length)
        finally:
            log.readers -= 1
            if not log.readers and log in self._retired:
                self._retired.remove(log)
                self._release(log)

    def close(self) -> None:
        current = [self.current] if self.current is not None else []
        for log in {*self.free, *self.full, *self._retired, *current}:
            log.file.close()

    def _weigh(self) -> None:
        waiting_bytes = sum(log.used for log in self.full if not log.copied)
        self.pressed = waiting_bytes >= self._settings.run_log_part * self._bytes_max

    def _release(self, log: LogFile) -> None:
        if log.failed:
            self._drop(log)
        else:
            self.free.append(log)

    def _drop(self, log: LogFile) -> None:
        """Forget a file that failed. It stays on the disk until the next start, which finds that it does not count."""
        self.bytes_total -= log.file_bytes
        log.file.close()

    def _next_file_bytes(self) -> int:
        settings = self._settings
        if len(self.free) + len(self.full) + (self.current is not None) < FILES_MIN:
            return settings.log_file_bytes_first
        return settings.log_file_bytes_max

    def _newest_full(self) -> int:
        return self.full[-1].generation if self.full else 0

    def _newest_full_end(self) -> int:
        return self.full[-1].used if self.full else 0


FILES_MIN: Final = 2
"""One to write, one to go on in while the other is copied."""
