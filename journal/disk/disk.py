"""The only place that opens, writes, syncs, renames and unlinks stored data.

`Disk` and `File` are what storage code is written against; `open_disk` gives the real one, the tests have a simulated
one that keeps the same promises (`tests/contracts/disk_contract.py`). Every step that makes something durable is a
call of its own: nothing here syncs behind the caller's back. Formats, retries and recovery do not belong here.

All failures are `OSError`. After a failed sync nothing is known about what was written since the last one; a later
sync that succeeds does not make it durable (the page cache forgets), and callers must act on that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import functools
import os
import time
from enum import Enum
from typing import TYPE_CHECKING, Final, ParamSpec, Protocol, TypeVar

import trio

from journal.disk.file_reading import read_cached, read_cached_into, read_fully, read_into
from journal.disk.file_writing import LargeWriter, Turns, write_fully
from journal.disk.sync_thread import SyncThread
from journal.disk.syncfs import sync_file_system

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Buffer = bytes | bytearray | memoryview

# Files that one `write_files` hop holds open: well below the usual limit of 1,024 descriptors.
FILES_PER_HOP: Final = 256
# From this many files on, one syncfs (one flush of the drive) is cheaper than an fdatasync (and a flush) for each.
SYNCFS_FILES_MIN: Final = 16
# Up to this many bytes are synced on the spot when this many syncs before were all this quick.
INLINE_SYNC_BYTES_MAX: Final = 512 << 10
QUICK_SYNCS_MIN: Final = 8
QUICK_SYNC_SECONDS: Final = 0.0005
# Written and synced at once when a file is allocated: a sync that someone waits for is held up by no more than this.
ZEROS: Final = bytes(512 << 10)
DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY


class OpenMode(Enum):
    """READ an existing file, READ and WRITE an existing one, or CREATE one that does not exist yet."""

    READ = os.O_RDONLY
    WRITE = os.O_RDWR
    CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL


class DiskLockedError(OSError):
    """Another process owns this root."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileWrite:
    """Bytes for one file (made when absent): each extent is an offset and the buffers that go there in a row."""

    path: str
    extents: Sequence[tuple[int, Sequence[Buffer]]]


class File(Protocol):
    """An open file. Operations may run at the same time; only `write_and_sync` calls keep their order."""

    async def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only where the file ends."""

    async def read_into(self, offset: int, buffer: memoryview) -> int:
        """As `read`, into memory that is there already: how many bytes it has taken, fewer only where the file ends.

        For what is large, or read over and over: getting fresh memory costs as much as reading from the page cache.
        """

    def read_now(self, offset: int, buffer: memoryview) -> bool:
        """Whether the buffer could be filled without waiting, from memory. Raises OSError."""

    async def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all of it; durable after the next `sync` only."""

    async def write_and_sync(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write and fdatasync in one hop to the file's own thread, or on the spot: what a log does for each batch."""

    def is_quick(self, length: int) -> bool:
        """Whether the disk has been quick enough for a while to call `write_and_sync_now` with this many bytes."""

    def write_and_sync_now(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """`write_and_sync` on the spot: the event loop waits for the disk."""

    async def sync(self) -> None:
        """What was written before the call is on the disk, and so is the size."""

    async def truncate(self, size: int) -> None:
        """Cut or extend with zeros; durable after the next `sync` only."""

    async def allocate(self, size: int) -> None:
        """Grow to `size` by written zeros and sync them, so that later writes below it change no metadata."""

    async def size(self) -> int:
        """The size now, synced or not."""

    def close(self) -> None:
        """Give the handle back. Syncs nothing."""


class Disk(Protocol):
    """A tree of files below one root handle. Paths are `a/b` of plain names; links are never followed."""

    async def open(self, path: str, mode: OpenMode) -> File:
        """Open a file. A created one's name is durable after `sync_directory` of its parent only."""

    async def write_files(self, writes: Sequence[FileWrite]) -> list[OSError | None]:
        """Write and fdatasync many files, in few hops. One answer per file, in order: None means it is on the disk.

        A file that was made here still needs `sync_directory`. This exists because files synced together cost a
        small part of files synced one by one (measured on ext4: 18 against 120 to 180 microseconds each, and against
        2,000 when the drive is busy).
        """

    async def make_directory(self, path: str) -> None:
        """Make a directory whose parent exists; its name is durable after `sync_directory` of the parent only."""

    async def list_directory(self, path: str) -> list[str]:
        """The names in a directory (`""` is the root), sorted."""

    async def file_sizes(self, path: str) -> dict[str, int]:
        """Names and sizes of the files in a directory, sorted by name, in one hop however many there are."""

    async def sync_directory(self, path: str) -> None:
        """Names made, renamed and removed in this directory before the call are durable."""

    async def rename(self, old: str, new: str) -> None:
        """Move a file over whatever `new` was. Durable after `sync_directory` of both parents only."""

    async def unlink(self, path: str) -> None:
        """Remove a file's name. Durable after `sync_directory` of the parent only."""

    async def exists(self, path: str) -> bool:
        """Whether there is such a file or directory (a link counts as one, wherever it leads)."""

    async def free_bytes(self) -> int:
        """Room that this process may still use."""

    async def lock(self) -> None:
        """Own the root until `close`; raises DiskLockedError when another process does."""

    async def close(self) -> None:
        """Release the root and the lock. Open files stay open."""


class RealFile:
    """A file of the operating system. Closing it while one of its operations runs is the caller's mistake."""

    def __init__(self, descriptor: int, path: str, turns: Turns) -> None:
        self._descriptor = descriptor
        self._turns = turns
        self._sync_thread = SyncThread(f"sync {path}")
        self._quick_syncs_due = QUICK_SYNCS_MIN

    async def read(self, offset: int, length: int) -> bytes:
        """Small reads from the page cache happen on the spot, all others in a thread."""
        if (cached := read_cached(self._descriptor, offset, length)) is not None:
            return cached
        return await _in_thread(read_fully, self._descriptor, offset, length)

    async def read_into(self, offset: int, buffer: memoryview) -> int:
        """As `read`."""
        if self.read_now(offset, buffer):
            return len(buffer)
        return await _in_thread(read_into, self._descriptor, offset, buffer)

    def read_now(self, offset: int, buffer: memoryview) -> bool:
        return read_cached_into(self._descriptor, offset, buffer)

    async def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        await _in_thread(write_fully, self._descriptor, offset, buffers)

    async def write_and_sync(self, offset: int, buffers: Sequence[Buffer]) -> None:
        if self.is_quick(sum(map(len, buffers))):
            self.write_and_sync_now(offset, buffers)
            return
        before, self._quick_syncs_due = self._quick_syncs_due, QUICK_SYNCS_MIN  # and so it stays when the job fails
        job = functools.partial(_write_and_sync, self._turns, self._descriptor, offset, buffers)
        self._note_sync(before, await self._sync_thread.run(job))

    def is_quick(self, length: int) -> bool:
        """What is small goes to a disk that has been quick for a while on the spot, all else through the thread.

        The hop to the thread and back takes 30 to 60 microseconds, half as long as a quick sync, and a thread beside a
        busy event loop has to wait for the interpreter, too. Without it 64 appends in flight on one connection are
        taken 1.4 times as fast, those of 64 clients 1.1 times. The price is that a sync that takes long, after some
        that did not, holds up the event loop once; the next ones are the thread's again.
        """
        return not self._quick_syncs_due and length <= INLINE_SYNC_BYTES_MAX

    def write_and_sync_now(self, offset: int, buffers: Sequence[Buffer]) -> None:
        before, self._quick_syncs_due = self._quick_syncs_due, QUICK_SYNCS_MIN
        self._note_sync(before, _write_and_sync(self._turns, self._descriptor, offset, buffers))

    def _note_sync(self, due_before: int, seconds: float) -> None:
        """The slower it was, the more quick ones have to follow before one is done on the spot again."""
        slowness = int(seconds / QUICK_SYNC_SECONDS)
        self._quick_syncs_due = min(QUICK_SYNCS_MIN, max(due_before, slowness) if slowness else max(due_before - 1, 0))

    async def sync(self) -> None:
        await _in_thread(os.fdatasync, self._descriptor)

    async def truncate(self, size: int) -> None:
        await _in_thread(os.ftruncate, self._descriptor, size)

    async def allocate(self, size: int) -> None:
        await _in_thread(_allocate, self._turns, self._descriptor, size)

    async def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._sync_thread.stop(functools.partial(os.close, descriptor))


class RealDisk:
    """A directory of the operating system, reached through one handle."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._lock: int | None = None
        self._turns = Turns()

    async def open(self, path: str, mode: OpenMode) -> RealFile:
        return RealFile(await _in_thread(self._open, path, mode.value), path, self._turns)

    async def write_files(self, writes: Sequence[FileWrite]) -> list[OSError | None]:
        answers: list[OSError | None] = []
        for start in range(0, len(writes), FILES_PER_HOP):
            answers += await _in_thread(self._write_files, writes[start : start + FILES_PER_HOP])
        return answers

    async def make_directory(self, path: str) -> None:
        await _in_thread(self._at, path, lambda parent, name: os.mkdir(name, mode=0o700, dir_fd=parent))

    async def list_directory(self, path: str) -> list[str]:
        return await _in_thread(self._at, path, _list)

    async def file_sizes(self, path: str) -> dict[str, int]:
        return await _in_thread(self._at, path, _sizes)

    async def sync_directory(self, path: str) -> None:
        await _in_thread(self._at, path, _sync_directory)

    async def rename(self, old: str, new: str) -> None:
        await _in_thread(self._rename, old, new)

    async def unlink(self, path: str) -> None:
        await _in_thread(self._at, path, lambda parent, name: os.unlink(name, dir_fd=parent))

    async def exists(self, path: str) -> bool:
        return await _in_thread(self._exists, path)

    async def free_bytes(self) -> int:
        room = os.fstatvfs(self._root)
        return room.f_bavail * room.f_frsize

    async def lock(self) -> None:
        handle = self._open("lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise DiskLockedError(errno.EWOULDBLOCK, "another process owns this directory") from error
        self._lock = handle

    async def close(self) -> None:
        for handle in (self._lock, self._root):
            if handle is not None and handle >= 0:
                os.close(handle)
        self._lock, self._root = None, -1

    def _at(self, path: str, call: Callable[[int, str], Result]) -> Result:
        """`call` with a handle of the directory that holds `path` and the last name ("." when it is the root)."""
        *directories, name = _components(path) or ["."]
        handle = os.dup(self._root)
        try:
            for directory in directories:
                inner = os.open(directory, DIRECTORY_FLAGS, dir_fd=handle)
                os.close(handle)
                handle = inner
            return call(handle, name)
        finally:
            os.close(handle)

    def _open(self, path: str, flags: int) -> int:
        return self._at(path, lambda parent, name: os.open(name, flags | FILE_FLAGS, mode=0o600, dir_fd=parent))

    def _exists(self, path: str) -> bool:
        try:
            self._at(path, lambda parent, name: os.stat(name, dir_fd=parent, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _rename(self, old: str, new: str) -> None:
        def move(source: int, old_name: str) -> None:
            self._at(new, lambda target, name: os.rename(old_name, name, src_dir_fd=source, dst_dir_fd=target))

        self._at(old, move)

    def _write_files(self, writes: Sequence[FileWrite]) -> list[OSError | None]:
        """Write all, then sync many at once or each: only that says which ones failed."""
        writer = LargeWriter(self._turns)
        descriptors: list[int | OSError] = [self._write_one(write, writer) for write in writes]
        is_synced = len(writes) >= SYNCFS_FILES_MIN and sync_file_system(self._root)
        return [_sync_and_close(d, is_synced=is_synced) if isinstance(d, int) else d for d in descriptors]

    def _write_one(self, write: FileWrite, writer: LargeWriter) -> int | OSError:
        try:
            descriptor = self._open(write.path, os.O_WRONLY | os.O_CREAT)
        except OSError as error:
            return error
        try:
            for offset, buffers in write.extents:
                writer.write(descriptor, offset, buffers)
        except OSError as error:
            os.close(descriptor)
            return error
        return descriptor


@contextlib.asynccontextmanager
async def open_disk(root: Path, *, create: bool = False) -> AsyncIterator[RealDisk]:
    """The directory `root` (made, with its parents, when `create` says so), closed again at the end."""
    if create:
        await _in_thread(_make_root, root)
    disk = RealDisk(await _in_thread(os.open, root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    try:
        yield disk
    finally:
        await disk.close()


async def _in_thread(call: Callable[Parameters, Result], *args: Parameters.args, **named: Parameters.kwargs) -> Result:
    """Run to its end even when cancelled: what was begun on a disk cannot be taken back."""
    return await trio.to_thread.run_sync(functools.partial(call, *args, **named))


def _components(path: str) -> list[str]:
    names = path.split("/") if path else []
    if any(name in {"", ".", ".."} or "\0" in name for name in names):
        raise OSError(errno.EINVAL, "not a path of plain names", path)
    return names


def _list(parent: int, name: str) -> list[str]:
    handle = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    try:
        return sorted(os.listdir(handle))
    finally:
        os.close(handle)


def _sizes(parent: int, name: str) -> dict[str, int]:
    handle = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    try:
        with os.scandir(handle) as entries:
            files = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        sizes = {}
        for file in files:
            with contextlib.suppress(FileNotFoundError):  # gone since
                sizes[file] = os.stat(file, dir_fd=handle, follow_symlinks=False).st_size
    finally:
        os.close(handle)
    return sizes


def _sync_directory(parent: int, name: str) -> None:
    handle = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_root(root: Path) -> None:
    """Make the directory and the parents it lacks, each name durable before anything is put below it.

    That there is a directory does not say that its name is durable: whoever made it may not have come to that.
    """
    parent = root.absolute().parent
    if not root.is_dir():
        _make_root(parent)
        with contextlib.suppress(FileExistsError):
            root.mkdir(mode=0o700)
    try:
        handle = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return  # made by somebody with more rights, an administrator, and not in this moment
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_and_sync(turns: Turns, descriptor: int, offset: int, buffers: Sequence[Buffer]) -> float:
    """How many seconds that took."""
    began = time.perf_counter()
    turn = turns.begin_sync()
    try:
        write_fully(descriptor, offset, buffers)
        os.fdatasync(descriptor)
    finally:
        turns.end_sync(turn)
    return time.perf_counter() - began


def _allocate(turns: Turns, descriptor: int, size: int) -> None:
    """With one sync at the end, 64 MiB of zeros held up every other sync for 30 milliseconds; so it is one at most."""
    offset = os.fstat(descriptor).st_size
    while offset < size:
        turns.await_turn()
        offset += os.pwrite(descriptor, ZEROS[: size - offset], offset)
        os.fdatasync(descriptor)
    os.fsync(descriptor)


def _sync_and_close(descriptor: int, *, is_synced: bool) -> OSError | None:
    try:
        if not is_synced:
            os.fdatasync(descriptor)
    except OSError as error:
        return error
    finally:
        os.close(descriptor)
    return None
