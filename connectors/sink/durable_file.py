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


class DurableFile:
    """Made if it does not exist; OSError as the system gives it. One writer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        is_new = not path.exists()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.size = os.fstat(self._handle).st_size
        if is_new:
            self._sync_directory()

    def append(self, data: Buffer) -> None:
        """Not durable yet. What was written of it when it fails is not counted, and is written over."""
        with memoryview(data) as view:
            written = 0
            while written < len(view):
                written += os.pwrite(self._handle, view[written:], self.size + written)
        self.size += len(data)

    def sync(self) -> None:
        """What was appended is durable."""
        os.fdatasync(self._handle)

    def cut(self, size: int) -> None:
        """What lies at `size` and after it is gone."""
        os.ftruncate(self._handle, size)
        self.size = size

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
