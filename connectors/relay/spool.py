"""Staged files on this relay's disk: written as they come, read again for each sink, deleted when their batch is over.

Not durable, and nobody relies on that: a file that is gone makes its batch run again. It does outlive the process, so
that a relay that is started again goes on with what was staged.
"""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, BinaryIO, Final

import trio

from connectors.relay.manifest import is_place, staged_place
from journal.errors import JournalCode, JournalError, UnavailableError, journal_error, refused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

READ_BYTES: Final = 1024 * 1024
UNTOUCHED_SECONDS: Final = 24 * 3600.0
"""A query of which nothing was staged for this long is forgotten at the next start; it can stage again."""
_INCOMING: Final = ".incoming"


class Spool:
    """A directory of staged files, `bytes_max` in all. One process at a time."""

    def __init__(self, directory: Path, *, bytes_max: int) -> None:
        """OSError when the directory cannot be used."""
        self.bytes = 0
        self.bytes_max = bytes_max
        self._directory = directory
        self._incoming = directory / _INCOMING
        self._count = 0
        shutil.rmtree(self._incoming, ignore_errors=True)
        self._incoming.mkdir(parents=True)
        for query in self._queries():
            if _touched(query) < time.time() - UNTOUCHED_SECONDS:
                shutil.rmtree(query, ignore_errors=True)
        self.bytes = sum(file.stat().st_size for file in directory.glob("*/*/*/*"))

    def begin(self, components: tuple[str, ...]) -> SpoolWrite:
        """A file that is to be at PLACE/BATCH/RUN/PART. BAD_REQUEST for another place."""
        staged_place(components)
        self._count += 1
        return SpoolWrite(self, self._incoming / str(self._count), self._directory.joinpath(*components))

    def size(self, components: tuple[str, ...]) -> int | None:
        """Of a staged file; None if there is none."""
        path = self._directory.joinpath(*components)
        return path.stat().st_size if path.is_file() else None

    async def read(self, components: tuple[str, ...], piece_bytes: int = READ_BYTES) -> AsyncGenerator[bytes, None]:
        """A file in pieces. NOT_FOUND."""
        path = self._directory.joinpath(*components)
        offset = 0
        while True:
            piece = await trio.to_thread.run_sync(_read_piece, path, offset, piece_bytes)
            if not piece:
                return
            yield piece
            offset += len(piece)

    async def delete_run(self, place: str, batch: int, run: str) -> bool:
        """Whether there was something."""
        return await self._delete(self._directory / place / str(batch) / run)

    async def delete_until(self, place: str, batch: int) -> None:
        """Everything of a query that is not after this batch."""
        directory = self._directory / place
        if not directory.is_dir():
            return
        for each in sorted(directory.iterdir()):
            if each.name.isdecimal() and int(each.name) <= batch:
                await self._delete(each)

    async def delete_query(self, place: str) -> None:
        """Everything of a query."""
        await self._delete(self._directory / place)

    def _queries(self) -> list[Path]:
        return [place for place in self._directory.iterdir() if is_place(place.name)]

    async def _delete(self, place: Path) -> bool:
        size = await trio.to_thread.run_sync(_removed, place)
        self.bytes -= size or 0
        return size is not None


class SpoolWrite:
    """Implements journal.volume.StreamedWrite but for the answer: `commit` gives the size."""

    def __init__(self, spool: Spool, path: Path, place: Path) -> None:
        self.size = 0
        self._spool = spool
        self._path = path
        self._place = place
        self._file: BinaryIO | None = None

    async def write(self, data: bytes) -> None:
        """NO_SPACE when all staged files together, or the disk, would have too much."""
        if self._spool.bytes + len(data) > self._spool.bytes_max:
            raise UnavailableError(
                JournalCode.NO_SPACE,
                f"the relay's spool has {self._spool.bytes:,} of {self._spool.bytes_max:,} bytes: this batch does not "
                "fit; make batches smaller, or the spool larger (--spool-bytes)",
            )
        self._spool.bytes += len(data)
        self.size += len(data)
        try:
            await trio.to_thread.run_sync(self._write, data)
        except OSError as error:
            raise _no_space(error) from error

    async def commit(self) -> int:
        """The file is at its place, and replaces what was there. When it is not, nothing of it stays."""
        before = self._place.stat().st_size if self._place.is_file() else 0
        try:
            await trio.to_thread.run_sync(self._publish)
        except OSError as error:
            self._forget()
            raise _no_space(error) from error
        except BaseException:
            self._forget()
            raise
        self._spool.bytes -= before
        return self.size

    async def cancel(self) -> None:
        """Forget it."""
        self._forget()

    def _forget(self) -> None:
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)
        self._spool.bytes -= self.size
        self.size = 0

    def _write(self, data: bytes) -> None:
        if self._file is None:
            self._file = self._path.open("wb", buffering=0)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def _publish(self) -> None:
        self._write(b"")
        assert self._file is not None
        self._file.close()
        self._place.parent.mkdir(parents=True, exist_ok=True)
        self._path.replace(self._place)


def _touched(place: Path) -> float:
    """When something in it was last written."""
    return max(each.stat().st_mtime for each in (place, *place.rglob("*")))


def _removed(place: Path) -> int | None:
    """How many bytes were in it; None if it is not there."""
    if not place.is_dir():
        return None
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    shutil.rmtree(place, ignore_errors=True)
    return size


def _read_piece(path: Path, offset: int, size: int) -> bytes:
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(offset)
            return file.read(size)
    except FileNotFoundError:
        raise lost("/".join(path.parts[-4:])) from None


def lost(name: str) -> JournalError:
    """For a staged file that is not there."""
    return refused(
        JournalCode.NOT_FOUND,
        f"staged file {name} is not here: this relay has lost its disk, or it was never staged; run the batch again",
        path=name,
    )


def _no_space(error: OSError) -> JournalError:
    return journal_error(JournalCode.NO_SPACE, f"the relay's spool cannot be written: {error.strerror or error}")
