"""How much room the disk has left for appends. Refusing in time is what keeps copying the log from failing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sos_client.wire.errors import ErrorCode, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.disk.disk import Disk

BYTES_PER_ROW: Final = 8192
"""A row may make a file with a checksum page, a directory, a block of the catalog."""


class Space:
    """`full` says that appends are refused now. `free_bytes` is what the last look saw."""

    __slots__ = ("_disk", "_margin", "_stuck", "free_bytes", "full", "reserve_bytes")

    def __init__(self, disk: Disk, reserve_bytes: int) -> None:
        self._disk = disk
        self.reserve_bytes = reserve_bytes
        self._margin = 0
        self._stuck: RefusedError | None = None
        self.free_bytes = 0
        self.full = False

    async def look(self, uncopied_bytes: Callable[[], int], *, stuck: RefusedError | None) -> None:
        """See how much is free, besides what logged bytes will take when they are copied; `stuck`: they cannot be."""
        self.free_bytes = await self._disk.free_bytes()
        self._margin = self.free_bytes - uncopied_bytes() - self.reserve_bytes
        self._stuck = stuck
        self.full = stuck is not None or self._margin < 0

    def refusal(self) -> RefusedError:
        """What appends are told while `full`."""
        if self._stuck is not None and self._stuck.code is not ErrorCode.NO_SPACE:
            return RefusedError(self._stuck.code, self._stuck.message, **self._stuck.fields)
        return RefusedError(ErrorCode.NO_SPACE, free=self.free_bytes)

    def taken(self, length: int) -> None:
        """A run took this much of the disk."""
        self._margin -= length
        if self._margin < 0:
            self.full = True

    def logged(self, log_bytes: int, rows: int) -> None:
        """This much more waits to be copied. Between two looks this is what keeps the log from outgrowing the disk."""
        self.taken(log_bytes + rows * BYTES_PER_ROW)
