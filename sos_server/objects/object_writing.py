"""Writes objects' files: for the copier, which brings there what the log has, and for runs, which go there at once.

Never for both in one file at the same time: a sync that fails may take with it what another handle wrote. What is to be
written is decided by them; when it may be is decided here, and what follows a failure.
"""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, Final

import trio

from journal.disk.disk import Disk, FileWrite
from sos_server.objects.object_files import OBJECTS_DIRECTORY, directory_of, path_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence

    from journal.disk.disk import Buffer
    from sos_server.storage.contents import StoredObject

    Extents = Sequence[tuple[int, Sequence[Buffer]]]

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
PASSING: Final = NO_ROOM | {errno.EMFILE, errno.ENFILE}
"""What may be over in a moment. Everything is written again then, so nothing rests on what failed."""


class ObjectWriter:
    """Gives turns and writes. `failed` says why nothing is written any more: a directory could not be synced, or the
    catalog, and what a later sync says cannot be trusted."""

    def __init__(self, disk: Disk, given_up: Iterable[StoredObject], report: Callable[[str], None]) -> None:
        self._disk = disk
        self._report = report
        self.given_up = set(given_up)
        """Objects whose files are not written any more: the log files that have their bytes, or notes, stay."""
        self._directories: set[str] = set()
        self._copied: frozenset[int] = frozenset()
        self._run_into: set[int] = set()
        self._turn_over = trio.Event()
        self.failed: str | None = None

    @contextlib.asynccontextmanager
    async def copying(self, numbers: Collection[int]) -> AsyncIterator[None]:
        """The turn for all of these files. It begins when the runs into them are over, and no other run does."""
        self._copied = frozenset(numbers)
        try:
            while self._run_into & self._copied:
                await self._turn_over.wait()
            yield
        finally:
            self._copied = frozenset()
            self._end_turn()

    @contextlib.asynccontextmanager
    async def running(self, number: int) -> AsyncIterator[None]:
        """The turn for one file. The copier is given its own before: there is only one of it."""
        while number in self._copied or number in self._run_into:
            await self._turn_over.wait()
        self._run_into.add(number)
        try:
            yield
        finally:
            self._run_into.discard(number)
            self._end_turn()

    async def write(self, writes: Mapping[int, Extents], *, nameless: Collection[int]) -> list[OSError | None]:
        """Write and sync these files, and the names of those that have none which is durable. One answer for each file.

        To be called in the turn for all of them. Raises OSError when any of it may be tried again, and when a directory
        cannot be made or synced.
        """
        made = {directory_of(number) for number in nameless}
        await self._make_directories(made)
        answers = await self._disk.write_files([FileWrite(path=path_of(n), extents=e) for n, e in writes.items()])
        for error in answers:
            if error is not None and error.errno in PASSING:
                raise error
        for directory in sorted(made):
            await self._disk.sync_directory(directory)
        return answers

    def fail(self, error: OSError) -> None:
        """Write nothing any more, unless this may be over in a moment."""
        if error.errno not in PASSING:
            self.failed = error.strerror or str(error)

    def give_up(self, stored: StoredObject, error: OSError) -> None:
        """Its file may show bytes that the disk does not have: what the log has is read from there, until a restart."""
        self.given_up.add(stored)
        stored.read_only = error.strerror or str(error)
        where = f"{stored.namespace.name}/{stored.name}"
        self._report(f"the file of {where} cannot be written ({stored.read_only}): read-only until a restart")

    async def _make_directories(self, directories: set[str]) -> None:
        new = sorted(directories - self._directories)
        for directory in new:
            with contextlib.suppress(FileExistsError):
                await self._disk.make_directory(directory)
        if new:
            await self._disk.sync_directory(OBJECTS_DIRECTORY)
            self._directories.update(new)

    def _end_turn(self) -> None:
        self._turn_over.set()
        self._turn_over = trio.Event()
