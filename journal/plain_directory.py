"""A volume's files in a plain directory, and back: what `restore`, `export`, `import` and `verify --restore` share.

Belongs here: the plan (what would be written), and carrying it out. Stored data of the journal itself is
journal/disk.py's; these are ordinary files that the user asked for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import trio

from journal.errors import JournalCode, UnavailableError, refused
from journal.paths import check_path, join

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from journal.volume import FileStatus

FILES_AT_ONCE: Final = 8  # hides the round trip of each small file behind others; more gains nothing on loopback


class Source(Protocol):
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


def differing(plan: Plan, target: Path) -> Plan:
    """The part of a plan that a directory does not have yet, as sizes and times tell."""
    files = []
    for file in plan.files:
        try:
            there = (target / file.relative).stat()
        except OSError:
            files.append(file)
            continue
        if (there.st_size, there.st_mtime_ns // 1_000_000) != (file.status.size, file.status.modified_ms):
            files.append(file)
    return Plan(directories=plan.directories, files=tuple(files))


async def write_files(source: Source, plan: Plan, target: Path, progress: Callable[[int], None]) -> None:
    """Write everything below `target`, which is made; times are kept. OSError from the system comes out as it is.

    Cancelled or failed, it leaves what it had written.
    """
    await trio.to_thread.run_sync(_make_directories, target, plan)
    waiting = source.groups(plan.files)

    async def write_some() -> None:
        while waiting:
            group = waiting.pop()
            if len(group) == 1:
                await _write_file(source, group[0], target, progress)
            else:
                contents = await source.read_group(group)
                await trio.to_thread.run_sync(_write_group, target, group, contents)
                progress(sum(map(len, contents)))

    async with trio.open_nursery() as nursery:
        for _ in range(min(FILES_AT_ONCE, len(waiting))):
            nursery.start_soon(write_some)
    await trio.to_thread.run_sync(_set_directory_times, target, plan)


async def _write_file(source: Source, file: PlannedFile, target: Path, progress: Callable[[int], None]) -> None:
    path = target / file.relative
    partial = path.with_name(f".{path.name[:200]}.partial")
    with partial.open("wb") as stream:
        async for piece in source.read(file.status.path):
            stream.write(piece)
            progress(len(piece))
    _set_time(partial, file.status.modified_ms)
    partial.replace(path)


def _write_group(target: Path, group: Sequence[PlannedFile], contents: Sequence[bytes]) -> None:
    for file, content in zip(group, contents, strict=True):
        path = target / file.relative
        partial = path.with_name(f".{path.name[:200]}.partial")
        partial.write_bytes(content)
        _set_time(partial, file.status.modified_ms)
        partial.replace(path)


def _make_directories(target: Path, plan: Plan) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for directory in plan.directories:
        (target / directory.relative).mkdir(parents=True, exist_ok=True)


def _set_directory_times(target: Path, plan: Plan) -> None:
    for directory in reversed(plan.directories):  # children first: setting a child's time does not touch the parent's
        _set_time(target / directory.relative, directory.status.modified_ms)


def _set_time(path: Path, modified_ms: int) -> None:
    nanoseconds = modified_ms * 1_000_000
    os.utime(path, ns=(nanoseconds, nanoseconds))


def sync_tree(target: Path) -> None:
    """Make everything below a directory durable: what was restored must survive what comes next. OSError if it cannot.

    One sync of all first: 15,000 fsyncs of files with unwritten bytes take a minute, of files without a second.
    """
    os.sync()
    for folder, _, names in os.walk(target, topdown=False):
        for path in [*(os.path.join(folder, name) for name in names), folder]:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


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
        raise UnavailableError(JournalCode.UNAVAILABLE, f"{source} is no directory")
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
