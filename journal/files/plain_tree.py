"""A directory of the user's, reached through one handle: no link in it is followed, and no path is too long for it.

Belongs here: the calls on names below the handle. What is written there, and in which order, is plain_directory.py's.
The system takes at most 4,096 bytes of path, and a path in a volume may have as many by itself; so every component is
opened by itself. Names are UTF-8, whatever the terminal's encoding.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import TYPE_CHECKING, Final, TypeVar

from journal.errors import JournalCode, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

Result = TypeVar("Result")

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
STAGING_PREFIX: Final = ".sos-writing-"
"""Files are written in a directory of such a name first, which no path that is wanted begins with."""


class PlainTree:
    """The directory itself may be named through links; what is below it may not. OSError comes out as it is."""

    def __init__(self, handle: int, path: Path) -> None:
        self._handle = handle
        self.path = path

    def status(self, relative: str) -> os.stat_result | None:
        """What has this name now, a link included; None if nothing has. BAD_REQUEST if a link is on the way."""
        try:
            return self._at(relative, lambda parent, name: os.stat(name, dir_fd=parent, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def make_directory(self, relative: str) -> None:
        """Make a directory, unless there is one; its parent is there."""
        with contextlib.suppress(FileExistsError):
            self._at(relative, lambda parent, name: os.mkdir(name, dir_fd=parent))

    def create(self, relative: str) -> int:
        """A descriptor of a new file. FileExistsError if the name is taken."""
        return self._at(relative, lambda parent, name: os.open(name, _NEW_FILE, 0o666, dir_fd=parent))

    def open(self, relative: str) -> int:
        """A descriptor to read a file with."""
        return self._at(relative, lambda parent, name: os.open(name, _READ, dir_fd=parent))

    def move(self, old: str, new: str) -> None:
        """Give a file another name, over whatever file or link has it."""

        def move(source: int, old_name: bytes) -> None:
            self._at(new, lambda parent, name: os.rename(old_name, name, src_dir_fd=source, dst_dir_fd=parent))

        self._at(old, move)

    def remove(self, relative: str) -> None:
        """Remove a file."""
        self._at(relative, lambda parent, name: os.unlink(name, dir_fd=parent))

    def set_directory_time(self, relative: str, modified_ms: int) -> None:
        """When a directory was last changed."""
        handle = self._at(relative, lambda parent, name: os.open(name, _DIRECTORY, dir_fd=parent))
        try:
            set_time(handle, modified_ms)
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def staging(self, taken: Collection[str]) -> Iterator[str]:
        """A directory of its own, with a name that is not in `taken`; at the end it goes, with all that is in it."""
        name = f"{STAGING_PREFIX}{secrets.token_hex(8)}"
        while name in taken:
            name = f"{STAGING_PREFIX}{secrets.token_hex(8)}"
        os.mkdir(name, mode=0o700, dir_fd=self._handle)
        try:
            yield name
        finally:
            handle = os.open(name, _DIRECTORY, dir_fd=self._handle)
            try:
                for left in os.listdir(handle):
                    os.unlink(left, dir_fd=handle)
            finally:
                os.close(handle)
            os.rmdir(name, dir_fd=self._handle)

    def sync(self) -> None:
        """Make everything durable: what was restored must survive what comes next.

        One sync of all first: 15,000 fsyncs of files with unwritten bytes take a minute, of files without a second.
        """
        os.sync()
        for _, _, names, folder in os.fwalk(b".", topdown=False, dir_fd=self._handle):
            for name in names:
                handle = os.open(name, _READ, dir_fd=folder)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
            os.fsync(folder)

    def _at(self, relative: str, call: Callable[[int, bytes], Result]) -> Result:
        *folders, name = relative.split("/")
        handle = os.dup(self._handle)
        try:
            for folder in folders:
                inner = self._enter(handle, folder, relative)
                os.close(handle)
                handle = inner
            return call(handle, name.encode())
        except OSError as error:
            raise _named(error, self.path / relative) from error
        finally:
            os.close(handle)

    def _enter(self, handle: int, folder: str, relative: str) -> int:
        try:
            return os.open(folder.encode(), _DIRECTORY, dir_fd=handle)
        except OSError:
            there = os.stat(folder.encode(), dir_fd=handle, follow_symlinks=False)
            if not stat.S_ISLNK(there.st_mode):
                raise
        message = f"{folder} in {self.path / relative} is a link, and links are not followed: move it away first"
        raise refused(JournalCode.BAD_REQUEST, message)


@contextlib.contextmanager
def open_plain_tree(path: Path) -> Iterator[PlainTree]:
    """The directory at `path`, which must exist."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield PlainTree(handle, path)
    finally:
        os.close(handle)


def set_time(descriptor: int, modified_ms: int) -> None:
    """When the file was last changed, as nearly as the file system can keep it."""
    nanoseconds = modified_ms * 1_000_000
    os.utime(descriptor, ns=(nanoseconds, nanoseconds))


def make_directories(path: Path) -> None:
    """A directory with the parents that it lacks, each name durable."""
    if path.is_dir():
        return
    make_directories(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir()
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Names that were made, moved and removed in it are durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _named(error: OSError, path: Path) -> OSError:
    """With the whole path, not only with the component that was at hand."""
    return OSError(error.errno, error.strerror, str(path))
