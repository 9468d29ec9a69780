"""A file that grows at its end and is cut there, durable when that is said: a sink's output, a sink's log.

All calls block: who must not wait calls them in a thread.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from journal.volume import Buffer

READ_BYTES: Final = 1024 * 1024
WRITE_OUT_BYTES: Final = 8 * 1024 * 1024
"""The disk begins to write when there is this much, so that not all of a large batch is left for the end of it."""


class DurableFile:
    """Made if it does not exist; OSError as the system gives it. One writer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        is_new = not path.exists()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.size = os.fstat(self._handle).st_size
        self._synced = self._told_out = self.size  # and what is before the second the disk was told to write
        if is_new:
            self._sync_directory()

    def append(self, data: Buffer) -> None:
        """Not durable yet. What was written of it when it fails is not counted, and is written over."""
        with memoryview(data) as view:
            written = 0
            while written < len(view):
                written += os.pwrite(self._handle, view[written:], self.size + written)
        self.size += len(data)
        if self.size - self._told_out >= WRITE_OUT_BYTES:
            self._write_out(self._told_out)

    def sync(self) -> None:
        """What was appended is durable. Much of it leaves the memory: nobody here reads it again."""
        os.fdatasync(self._handle)
        if self.size - self._synced >= WRITE_OUT_BYTES:
            self._write_out(self._synced)
        self._synced = self._told_out = self.size

    def _write_out(self, start: int) -> None:
        """Linux begins to write what is not written, and forgets what is: that is what it makes of this advice."""
        os.posix_fadvise(self._handle, start, self.size - start, os.POSIX_FADV_DONTNEED)
        self._told_out = self.size

    def cut(self, size: int) -> None:
        """What lies at `size` and after it is gone."""
        os.ftruncate(self._handle, size)
        self.size = size
        self._synced, self._told_out = min(self._synced, size), min(self._told_out, size)

    def replace(self, data: Buffer) -> None:
        """The file has exactly this, durably. A crash leaves either what was there before, or this.

        OSError: it has what was there before. Who has it open to read goes on reading that.
        """
        beside = self.path.with_name(f"{self.path.name}.new")
        beside.unlink(missing_ok=True)
        written = DurableFile(beside)
        try:
            written.append(data)
            written.sync()
            beside.replace(self.path)
        except BaseException:
            written.close()
            beside.unlink(missing_ok=True)
            raise
        os.close(self._handle)
        self._handle, self.size = written._handle, written.size
        self._synced = self._told_out = self.size
        self._sync_directory()

    def close(self) -> None:
        os.close(self._handle)

    def _sync_directory(self) -> None:
        """Its name is as durable as what is in it."""
        handle = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
