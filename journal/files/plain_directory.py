"""A volume's files in a plain directory, and back: what `restore`, `export`, `import` and `verify --restore` share.

Belongs here: the plan (what would be written), and carrying it out. Stored data of the journal itself is
journal/disk/disk.py's; these are ordinary files that the user asked for.
"""

from __future__ import annotations

import itertools
import os
import stat
import tempfile
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import trio

from journal.errors import JournalCode, UnavailableError, damaged, refused
from journal.files.plain_tree import STAGING_PREFIX, make_directories, open_plain_tree, set_time, sync_directory
from journal.records.paths import check_path, join
from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

    from journal.files.plain_tree import PlainTree
    from journal.volume import FileStatus

PIECE_BYTES: Final = 1 << 20  # read back at once
FILES_AT_ONCE: Final = 8  # hides the round trip of each small file behind others; more gains nothing on loopback


class ContentSource(Protocol):
    """Where content comes from."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Checked content."""

    def groups(self, files: Sequence[PlannedFile]) -> list[list[PlannedFile]]:
        """The same files, in groups that are best read together."""

    async def read_group(self, files: Sequence[PlannedFile]) -> list[bytes]:
        """The checked content of each file of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """One file: as the volume has it, and where it goes."""

    status: FileStatus
    relative: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Directories (parents first) and files to be written."""

    directories: tuple[PlannedFile, ...]
    files: tuple[PlannedFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.status.size for file in self.files)


def plan_files(statuses: Iterable[FileStatus], root: str) -> Plan:
    """What it takes to have everything at or below `root` in a directory. A file at `root` itself keeps its name."""
    directories, files = [], []
    for status in statuses:
        relative = status.path[len(root) :].removeprefix("/") if root else status.path
        if not status.is_directory:
            name = relative or status.path.rpartition("/")[2]
            files.append(PlannedFile(status=status, relative=name))
        elif relative:
            directories.append(PlannedFile(status=status, relative=relative))
    return Plan(directories=tuple(directories), files=tuple(files))


def has_content(target: Path) -> bool:
    """Whether there is something that must not be overwritten."""
    return target.exists() and (not target.is_dir() or any(target.iterdir()))


def differing(plan: Plan, tree: PlainTree | None) -> Plan:
    """The part of a plan that a directory (None: there is none yet) does not have, as sizes and times tell.

    NOT_DIRECTORY, IS_DIRECTORY and BAD_REQUEST name what is in the way.
    """
    if tree is None:
        return plan
    for directory in plan.directories:
        there = tree.status(directory.relative)
        if there is not None and not stat.S_ISDIR(there.st_mode):
            raise refused(JournalCode.NOT_DIRECTORY, f"{_in_the_way(tree, directory)} is a directory in the volume")
    files = []
    for file in plan.files:
        there = tree.status(file.relative)
        if there is not None and stat.S_ISDIR(there.st_mode):
            raise refused(JournalCode.IS_DIRECTORY, f"{_in_the_way(tree, file)} is a file in the volume")
        if there is None or not _is_like(there, file.status):
            files.append(file)
    return Plan(directories=plan.directories, files=tuple(files))


def _in_the_way(tree: PlainTree, planned: PlannedFile) -> str:
    return f"{tree.path / planned.relative} is in the way, move it away first: {planned.relative}"


def _is_like(there: os.stat_result, wanted: FileStatus) -> bool:
    if not stat.S_ISREG(there.st_mode):
        return False
    return (there.st_size, there.st_mtime_ns // 1_000_000) == (wanted.size, wanted.modified_ms)


async def write_files(source: ContentSource, plan: Plan, tree: PlainTree, progress: Callable[[int], None]) -> None:
    """Write everything below a directory, and read it back; times are kept. OSError from the system comes out as it is.

    Each file is written beside the tree and moved to its name when it is whole: names of the volume and temporary ones
    never meet. CHANGED if a file is not what the volume said of it before; DAMAGED if one reads back differently.
    Cancelled or failed, it leaves the files that were whole.
    """
    await trio.to_thread.run_sync(_make_directories, tree, plan)
    with tree.staging(taken={file.relative.partition("/")[0] for file in [*plan.directories, *plan.files]}) as staging:
        writing = _Writing(source, tree, staging, progress)
        waiting = source.groups(plan.files)

        async def write_some() -> None:
            while waiting:
                await writing.write(waiting.pop())

        async with trio.open_nursery() as nursery:
            for _ in range(min(FILES_AT_ONCE, len(waiting))):
                nursery.start_soon(write_some)
    await trio.to_thread.run_sync(_compare, tree, writing.written)
    await trio.to_thread.run_sync(_set_directory_times, tree, plan)


async def write_directory(source: ContentSource, plan: Plan, directory: Path, progress: Callable[[int], None]) -> None:
    """Write everything as a new directory, which must not exist or be empty, and is there whole and durable, or not.

    Fails as `write_files` does; then nothing is left.
    """
    with _appearing(directory) as tree:
        await write_files(source, plan, tree, progress)
        await trio.to_thread.run_sync(tree.sync)


@contextmanager
def _appearing(directory: Path) -> Iterator[PlainTree]:
    """A new directory beside the wanted one, in the place of which it is put when nothing failed."""
    directory = Path(os.path.realpath(directory))
    make_directories(directory.parent)
    with tempfile.TemporaryDirectory(prefix=STAGING_PREFIX, dir=directory.parent) as scratch:
        whole = Path(scratch, "tree")
        whole.mkdir()
        with open_plain_tree(whole) as tree:
            yield tree
        whole.replace(directory)
    sync_directory(directory.parent)


class _Writing:
    """Files on their way into a tree."""

    def __init__(self, source: ContentSource, tree: PlainTree, staging: str, progress: Callable[[int], None]) -> None:
        self.written: dict[str, tuple[int, int]] = {}  # size and CRC of what was written, by path
        self._source = source
        self._tree = tree
        self._staging = staging
        self._progress = progress
        self._numbers = itertools.count()

    async def write(self, group: Sequence[PlannedFile]) -> None:
        if len(group) == 1:
            await self._write_large(group[0])
            return
        contents = await self._source.read_group(group)
        await trio.to_thread.run_sync(self._write_small, group, contents)
        self._progress(sum(map(len, contents)))

    async def _write_large(self, file: PlannedFile) -> None:
        with self._staged(file) as (descriptor, state):
            async with aclosing(self._source.read(file.status.path)) as pieces:  # type: ignore[type-var]
                async for piece in pieces:
                    _write_whole(descriptor, piece)
                    state.add(piece)
                    self._progress(len(piece))

    def _write_small(self, group: Sequence[PlannedFile], contents: Sequence[bytes]) -> None:
        for file, content in zip(group, contents, strict=True):
            with self._staged(file) as (descriptor, state):
                _write_whole(descriptor, content)
                state.add(content)

    @contextmanager
    def _staged(self, file: PlannedFile) -> Iterator[tuple[int, _Content]]:
        """A file to write to, which gets its name if nothing fails."""
        partial = f"{self._staging}/{next(self._numbers)}"
        content = _Content()
        descriptor = self._tree.create(partial)
        try:
            yield descriptor, content
            _check_content(file.status, content)
            set_time(descriptor, file.status.modified_ms)
        finally:
            os.close(descriptor)
        self._tree.move(partial, file.relative)
        self.written[file.relative] = content.size, content.crc


@dataclass(slots=True)
class _Content:
    """What has been written of a file."""

    size: int = 0
    crc: int = 0

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self.crc = crc32c(piece, self.crc)


def _check_content(status: FileStatus, content: _Content) -> None:
    if content.size != status.size or status.crc not in (None, content.crc):
        message = f"{status.path} was changed while it was read: try again, or name a moment with --at"
        raise refused(JournalCode.CHANGED, message)


def _write_whole(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _compare(tree: PlainTree, written: Mapping[str, tuple[int, int]]) -> None:
    """Where two names of the volume are one for the file system, or the disk lies, it shows here."""
    for relative, (size, crc) in written.items():
        content = _Content()
        descriptor = tree.open(relative)
        try:
            while piece := os.read(descriptor, PIECE_BYTES):
                content.add(piece)
        finally:
            os.close(descriptor)
        if (content.size, content.crc) != (size, crc):
            tree.remove(relative)
            message = f"{tree.path / relative} was written, but reads differently; it was removed again"
            raise damaged(message, path=relative)


def _make_directories(tree: PlainTree, plan: Plan) -> None:
    for directory in plan.directories:
        tree.make_directory(directory.relative)


def _set_directory_times(tree: PlainTree, plan: Plan) -> None:
    for directory in reversed(plan.directories):  # children first: setting a child's time does not touch the parent's
        tree.set_directory_time(directory.relative, directory.status.modified_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A file or directory that is to become part of a volume."""

    local: Path
    path: str
    is_directory: bool
    size: int
    modified_ms: int


def scan_directory(source: Path, target: str) -> list[LocalFile]:
    """Everything below a directory as it would lie below `target`, parents first. Links and devices are refused."""
    found: list[LocalFile] = []
    if not source.is_dir():
        raise UnavailableError(JournalCode.UNAVAILABLE, f"{source} is not a directory")
    todo = [(source, target)]
    while todo:
        folder, path = todo.pop()
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                is_directory = entry.is_dir(follow_symlinks=False)
                if not is_directory and not entry.is_file(follow_symlinks=False):
                    raise refused(JournalCode.BAD_REQUEST, f"{entry.path} is neither a file nor a directory")
                inside = check_path(join(path, entry.name))
                status = entry.stat(follow_symlinks=False)
                local = Path(entry.path)
                found.append(
                    LocalFile(
                        local=local,
                        path=inside,
                        is_directory=is_directory,
                        size=0 if is_directory else status.st_size,
                        modified_ms=status.st_mtime_ns // 1_000_000,
                    )
                )
                if is_directory:
                    todo.append((local, inside))
    return found
