"""The `Disk` interface on a simulated drive: virtual delays, and faults on demand or at random, all from one seed.

Calls behave as the real ones do: they cannot be cancelled once begun (a thread runs them), their effect happens at some
moment between call and return, and buffers are read at that moment. A process that has died calls into nothing:
`ProcessDied` is raised, so that clean-up code of a crashed task changes no drive.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from journal.disk.disk import Buffer, DiskLockedError, FileWrite, OpenMode
from tests.fakes import bell
from tests.fakes.simulated_drive import Directory, Inode, SimulatedDrive, os_error

if TYPE_CHECKING:
    import random

OPERATIONS: Final = (
    *("open", "read", "write", "sync", "truncate", "allocate", "size", "lock"),
    *("make_directory", "list_directory", "sync_directory", "rename", "unlink", "exists"),
)
BYTES_PER_SECOND: Final = 500e6
QUICK_RATE: Final = 0.5
"""How often the drive says that it has been quick for a while, or has in memory what is to be read."""

Observer = Callable[[str, str], None]


class ProcessDied(BaseException):
    """Raised into tasks of a process that was killed. Not an `Exception`: nothing may handle it and go on."""


@dataclass(slots=True)
class _PlannedFailure:
    operation: str
    path_part: str
    calls_left: int
    number: int


@dataclass(slots=True, kw_only=True)
class DiskFaults:
    """What goes wrong. Rates are per call; `fail_at` plans single failures."""

    error_rates: dict[str, float] = field(default_factory=dict)
    """Operation → how often it fails with EIO. A failed `sync` loses what it was to store, as Linux does."""
    shared_sync_error_rate: float = 0.0
    """How often a sync fails that finds what another open file of the process wrote there, and takes that with it."""
    stall_rate: float = 0.0
    """How often a call takes `stall_seconds`, as a drive that remaps a sector does."""
    stall_seconds: float = 2.0
    _planned: list[_PlannedFailure] = field(default_factory=list)

    def fail_at(self, operation: str, *, nth: int = 1, path_part: str = "", number: int = errno.EIO) -> None:
        """The `nth` call of this operation from now on, on a path with this part, fails with this errno."""
        assert operation in OPERATIONS, operation
        self._planned.append(_PlannedFailure(operation, path_part, nth, number))

    @property
    def planned(self) -> int:
        """Failures that are still to come."""
        return len(self._planned)

    def draw(self, operation: str, path: str, rng: random.Random) -> int | None:
        """The errno that this call fails with, if it does."""
        for planned in self._planned:
            if planned.operation == operation and planned.path_part in path:
                planned.calls_left -= 1
                if not planned.calls_left:
                    self._planned.remove(planned)
                    return planned.number
        rate = self.error_rates.get(operation, 0.0)
        return errno.EIO if rate and rng.random() < rate else None


class SimulatedDisk:
    """One process's handle on a drive; get another one for each start of a process."""

    def __init__(
        self, drive: SimulatedDrive, *, faults: DiskFaults | None = None, observe: Observer | None = None
    ) -> None:
        self.drive = drive
        self.faults = faults or DiskFaults()
        self.observe = observe
        self._generation = drive.generation
        self._owns_lock = False

    def another(self) -> SimulatedDisk:
        """One more handle of the same process, with the same faults."""
        self.check_alive()
        return SimulatedDisk(self.drive, faults=self.faults, observe=self.observe)

    async def open(self, path: str, mode: OpenMode) -> SimulatedFile:
        await self.perform("open", path)
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        if mode is OpenMode.CREATE:
            if node is not None:
                raise os_error(errno.EEXIST, path)
            node = Inode()
            self.drive.relink((directory, name, node))
        if node is None:
            raise os_error(errno.ENOENT, path)
        return SimulatedFile(self, node, path, writable=mode is not OpenMode.READ)

    async def write_files(self, writes: Sequence[FileWrite]) -> list[OSError | None]:
        answers: list[OSError | None] = []
        for write in writes:
            try:
                await self._write_file(write)
            except OSError as error:
                answers.append(error)
            else:
                answers.append(None)
        return answers

    async def make_directory(self, path: str) -> None:
        await self.perform("make_directory", path)
        directory, name = self._parent(path)
        if name in directory.entries:
            raise os_error(errno.EEXIST, path)
        self.drive.relink((directory, name, Directory()))

    async def list_directory(self, path: str) -> list[str]:
        await self.perform("list_directory", path)
        return sorted(self._directory(path).entries)

    async def file_sizes(self, path: str) -> dict[str, int]:
        await self.perform("list_directory", path)
        entries = sorted(self._directory(path).entries.items())
        return {name: len(node.cached) for name, node in entries if isinstance(node, Inode)}

    async def sync_directory(self, path: str) -> None:
        await self.perform("sync_directory", path)
        self.drive.sync_directory(self._directory(path))

    async def rename(self, old: str, new: str) -> None:
        await self.perform("rename", f"{old} {new}")
        (source, old_name), (target, new_name) = self._parent(old), self._parent(new)
        node, replaced = source.entries.get(old_name), target.entries.get(new_name)
        if node is None:
            raise os_error(errno.ENOENT, old)
        if isinstance(replaced, Directory):
            raise os_error(errno.EISDIR, new)
        if node is replaced:
            return
        self.drive.relink((source, old_name, None), (target, new_name, node))

    async def unlink(self, path: str) -> None:
        await self.perform("unlink", path)
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        self.drive.relink((directory, name, None))

    async def exists(self, path: str) -> bool:
        await self.perform("exists", path)
        try:
            directory, name = self._parent(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return name in directory.entries

    async def free_bytes(self) -> int:
        self.check_alive()
        return self.drive.free_bytes

    async def lock(self) -> None:
        await self.perform("lock", "")
        if self.drive.locked:
            raise DiskLockedError(errno.EWOULDBLOCK, "another process owns this directory")
        if "lock" not in self.drive.root.entries:
            self.drive.relink((self.drive.root, "lock", Inode()))
        self.drive.locked = self._owns_lock = True

    async def close(self) -> None:
        if self._owns_lock and self._generation == self.drive.generation:
            self.drive.locked = self._owns_lock = False

    def shares_process(self, file: object) -> bool:
        """Whether this process has the file open."""
        return isinstance(file, SimulatedFile) and file.generation == self._generation

    def check_alive(self) -> None:
        """Raise if this handle's process was killed."""
        if self._generation != self.drive.generation:
            raise ProcessDied

    async def perform(self, operation: str, path: str, *, size: int = 0) -> None:
        """Let time pass as the call would, and fail as planned. On return the caller's effect takes place."""
        self.check_alive()
        await trio.lowlevel.checkpoint_if_cancelled()
        rng = self.drive.rng
        seconds = rng.uniform(20e-6, 300e-6) + size / BYTES_PER_SECOND
        if self.faults.stall_rate and rng.random() < self.faults.stall_rate:
            seconds += rng.uniform(0, self.faults.stall_seconds)
        await bell.sleep_for_certain(seconds)
        self.perform_now(operation, path)

    def perform_now(self, operation: str, path: str) -> None:
        """The same in no time."""
        self.check_alive()
        failure = self.faults.draw(operation, path, self.drive.rng)
        if self.observe is not None:
            self.observe(operation if failure is None else f"{operation} failed", path)
        if failure is not None:
            raise os_error(failure, path)

    async def _write_file(self, write: FileWrite) -> None:
        try:
            file = await self.open(write.path, OpenMode.WRITE)
        except FileNotFoundError:
            file = await self.open(write.path, OpenMode.CREATE)
        for offset, buffers in write.extents:
            await file.write(offset, buffers)
        await file.sync()

    def _directory(self, path: str) -> Directory:
        directory = self.drive.root
        for name in _names(path):
            node = directory.entries.get(name)
            if node is None:
                raise os_error(errno.ENOENT, path)
            if not isinstance(node, Directory):
                raise os_error(errno.ENOTDIR, path)
            directory = node
        return directory

    def _parent(self, path: str) -> tuple[Directory, str]:
        above, _, name = path.rpartition("/")
        _names(path)
        if not name:
            raise os_error(errno.EINVAL, path)
        return self._directory(above), name


class SimulatedFile:
    """An open file of a simulated drive."""

    def __init__(self, disk: SimulatedDisk, inode: Inode, path: str, *, writable: bool) -> None:
        self._disk = disk
        self._inode = inode
        self.path = path
        self._writable = writable
        self.generation = disk.drive.generation
        self._closed = False
        self._log_order = trio.Lock()

    async def read(self, offset: int, length: int) -> bytes:
        await self._perform("read", size=length)
        return bytes(self._inode.cached[offset : offset + length])

    async def read_into(self, offset: int, buffer: memoryview) -> int:
        data = await self.read(offset, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read_now(self, offset: int, buffer: memoryview) -> bool:
        data = self._inode.cached[offset : offset + len(buffer)]
        if len(data) < len(buffer) or self._disk.drive.rng.random() >= QUICK_RATE:
            return False
        self._disk.perform_now("read", self.path)
        buffer[:] = data
        return True

    async def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """On an error some of the bytes may have been written, as pwritev does."""
        size = sum(len(buffer) for buffer in buffers)
        try:
            await self._perform("write", size=size, writes=True)
        except OSError:
            self._inode.write(offset, b"".join(buffers)[: self._disk.drive.rng.randrange(size + 1)])
            raise
        self._disk.drive.check_room(offset + size - len(self._inode.cached), self.path)
        self._inode.write(offset, b"".join(buffers))
        self._inode.writers.add(self)

    async def write_and_sync(self, offset: int, buffers: Sequence[Buffer]) -> None:
        with trio.CancelScope(shield=True):
            async with self._log_order:
                await self.write(offset, buffers)
                await self.sync()

    def is_quick(self, length: int) -> bool:
        return bool(length) and self._disk.drive.rng.random() < QUICK_RATE

    def write_and_sync_now(self, offset: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        try:
            self._disk.perform_now("write", self.path)
        except OSError:
            self._inode.write(offset, data[: self._disk.drive.rng.randrange(len(data) + 1)])
            raise
        self._disk.drive.check_room(offset + len(data) - len(self._inode.cached), self.path)
        self._inode.write(offset, data)
        try:
            self._disk.perform_now("sync", self.path)
        except OSError:
            self._inode.fail_sync(self._disk.drive.rng)
            raise
        self._inode.sync()

    async def sync(self) -> None:
        try:
            await self._perform("sync", writes=True)
            self._fail_with_others()
        except OSError:
            self._inode.fail_sync(self._disk.drive.rng)
            raise
        self._inode.sync()
        self._inode.writers.clear()
        await self._return()

    async def truncate(self, size: int) -> None:
        await self._perform("truncate", writes=True)
        self._disk.drive.check_room(size - len(self._inode.cached), self.path)
        self._inode.truncate(size)

    async def allocate(self, size: int) -> None:
        have = len(self._inode.cached)
        await self._perform("allocate", size=size - have, writes=True)
        if size > have:
            self._disk.drive.check_room(size - have, self.path)
            self._inode.write(have, bytes(size - have))
        self._inode.sync()

    async def size(self) -> int:
        self._disk.check_alive()
        return len(self._inode.cached)

    def close(self) -> None:
        self._closed = True

    async def _perform(self, operation: str, *, size: int = 0, writes: bool = False) -> None:
        if self._closed or (writes and not self._writable):
            raise os_error(errno.EBADF, self.path)
        await self._disk.perform(operation, self.path, size=max(size, 0))

    def _fail_with_others(self) -> None:
        disk = self._disk
        others = [file for file in self._inode.writers if file is not self and disk.shares_process(file)]
        if others and disk.drive.rng.random() < disk.faults.shared_sync_error_rate:
            if disk.observe is not None:
                disk.observe("sync failed with another's", self.path)
            raise os_error(errno.EIO, self.path)

    async def _return(self) -> None:
        """Time between the effect and its report: a crash here leaves stored bytes that nobody heard of."""
        await bell.sleep_for_certain(self._disk.drive.rng.uniform(0, 100e-6))
        self._disk.check_alive()


def _names(path: str) -> list[str]:
    names = path.split("/") if path else []
    if any(name in ("", ".", "..") or "\0" in name for name in names):
        raise os_error(errno.EINVAL, path)
    return names
