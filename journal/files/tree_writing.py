"""Writing a whole tree into a volume so that it appears at once: below a scratch path first, then renamed.

What `import` and `fork` share. A tree that was left half-written by a crash lies below `.sos-new-…` and can be deleted.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalError, WriteCutShortError
from journal.records.paths import SCRATCH_PREFIX, join, parent_of
from journal.records.record import CLIENT_BYTES
from journal.volume import PUT_BYTES_MAX, OperationId

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from journal.volume import MarkValue, Volume

FILES_AT_ONCE: Final = 16  # the service puts what comes together into one sync
ATTEMPTS_MAX: Final = 5  # at a large file: a failover costs one


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file or directory to be written; `path` is relative to the tree's root, "" if the tree is this one file."""

    path: str
    is_directory: bool
    size: int
    modified_ms: int
    pieces: Callable[[], AsyncIterator[bytes]]
    """All of it, each time that it is called."""


async def write_tree(
    volume: Volume,
    files: Sequence[NewFile],
    target: str,
    *,
    scratch: str,
    origin: Mapping[str, MarkValue],
    progress: Callable[[int], None],
) -> None:
    """Everything appears at `target`, which must not exist or be an empty directory. At the root: file by file.

    A mark with `origin` says afterwards where it came from.

    Fails as the volume does; what was written below the scratch path is deleted then, if the service still answers.
    """
    place = join(parent_of(target), f"{SCRATCH_PREFIX}{scratch}") if target else ""
    operations = _new_client()
    try:
        if not any(file.path == "" for file in files):
            await volume.mkdirs(place, operation=next(operations))
        await _write_all(volume, files, place, operations, progress)
        if target:
            await volume.delete(target, recursive=False, operation=next(operations))
            await volume.rename(place, target, overwrite=False, operation=next(operations))
        await volume.mark(origin, operation=next(operations))
    except BaseException:
        if target:
            with trio.move_on_after(5, shield=True), suppress(JournalError):
                await volume.delete(place, recursive=True, operation=next(operations))
        raise


def _new_client() -> Iterator[OperationId]:
    """Ids for one change after the other: of changes at once the slowest could be older than what is remembered."""
    client = os.urandom(CLIENT_BYTES)
    return (OperationId(client=client, sequence=number) for number in itertools.count(1))


async def _write_all(
    volume: Volume,
    files: Sequence[NewFile],
    place: str,
    operations: Iterator[OperationId],
    progress: Callable[[int], None],
) -> None:
    for file in files:
        if file.is_directory:
            await volume.mkdirs(join(place, file.path), operation=next(operations))
    waiting = [file for file in reversed(files) if not file.is_directory]

    async def write_some() -> None:
        operations = _new_client()
        while waiting:
            await _write_file(volume, waiting.pop(), place, next(operations), progress)

    async with trio.open_nursery() as nursery:
        for _ in range(min(FILES_AT_ONCE, len(waiting))):
            nursery.start_soon(write_some)


async def _write_file(
    volume: Volume, file: NewFile, place: str, operation: OperationId, progress: Callable[[int], None]
) -> None:
    path = join(place, file.path) if file.path else place
    if file.size <= PUT_BYTES_MAX:
        data = b"".join([piece async for piece in file.pieces()])
        if len(data) <= PUT_BYTES_MAX:
            await volume.put(path, data, overwrite=True, operation=operation, modified_ms=file.modified_ms)
            progress(len(data))
            return
    told = 0

    def tell(written: int) -> None:
        nonlocal told
        progress(max(0, written - told))
        told = max(told, written)

    for _ in range(ATTEMPTS_MAX - 1):
        with suppress(WriteCutShortError):  # the service did not keep what it had, and all of it is still here
            await _stream_file(volume, file, path, operation, tell)
            return
    await _stream_file(volume, file, path, operation, tell)


async def _stream_file(
    volume: Volume, file: NewFile, path: str, operation: OperationId, tell: Callable[[int], None]
) -> None:
    writing = await volume.open_write(path, overwrite=True, operation=operation, modified_ms=file.modified_ms)
    written = 0
    try:
        async for piece in file.pieces():
            await writing.write(piece)
            written += len(piece)
            tell(written)
        await writing.commit()
    except BaseException:
        with trio.move_on_after(5, shield=True):
            await writing.cancel()
        raise
