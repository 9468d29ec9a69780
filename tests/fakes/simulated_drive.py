"""A drive in memory, and what a power cut, a failed sync, rot or a wipe does to it.

It keeps two states, what the page cache shows and what is stored, and the changes between them. Only a sync moves
changes from one to the other. Time, faults on demand and the `Disk` interface are in `simulated_disk`; nothing here
waits.
"""

from __future__ import annotations

import copy
import errno
import os
import random
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTOR_BYTES: Final = 512
"""What a drive writes whole or not at all. Real ones promise this much; many promise 4096."""


class Survival(Enum):
    """What a power cut leaves of changes that were never synced. All of these have been seen on real drives."""

    NOTHING = "nothing"
    EVERYTHING = "everything"
    PREFIX = "the first few changes, the last of them torn"
    SECTORS = "any subset of sectors"


def os_error(number: int, path: str) -> OSError:
    """The `OSError` subclass that the kernel's errno becomes."""
    return OSError(number, os.strerror(number), path)


@dataclass(slots=True)
class _Change:
    """Bytes written at an offset, or (no bytes) a file cut or grown to it."""

    offset: int
    data: bytes | None


class Inode:
    """A file's bytes: `cached` is what readers see, `stored` what a power cut leaves."""

    __slots__ = ("_unsynced", "cached", "stored", "writers")

    def __init__(self) -> None:
        self.cached = bytearray()
        self.stored = bytearray()
        self._unsynced: list[_Change] = []
        self.writers: set[object] = set()
        """Open files that have written since the last sync."""

    def __deepcopy__(self, _: object) -> Inode:
        copied = Inode()
        copied.cached, copied.stored = bytearray(self.cached), bytearray(self.stored)
        copied._unsynced = list(self._unsynced)
        return copied

    @property
    def is_clean(self) -> bool:
        return not self._unsynced

    def write(self, offset: int, data: bytes) -> None:
        _put(self.cached, offset, data)
        self._unsynced.append(_Change(offset, data))

    def truncate(self, size: int) -> None:
        _resize(self.cached, size)
        self._unsynced.append(_Change(size, None))

    def sync(self) -> None:
        for change in self._unsynced:
            _apply(self.stored, change)
        self._unsynced.clear()

    def fail_sync(self, rng: random.Random) -> None:
        """What Linux does after EIO: pages are marked clean, some were stored, some were not, and nobody knows which.

        From now on a sync succeeds, and stores nothing of this. Readers go on seeing the cached bytes, or, when the
        page was dropped, the old ones.
        """
        size = len(self.cached)
        self._store_some(rng, Survival.SECTORS)
        if rng.random() < 0.5:
            self.cached[:] = self.stored
            _resize(self.cached, size)

    def lose_power(self, rng: random.Random, survival: Survival) -> None:
        self._store_some(rng, survival)
        self.cached[:] = self.stored

    def flip_bit(self, offset: int, bit: int) -> None:
        for content in (self.cached, self.stored):
            if offset < len(content):
                content[offset] ^= 1 << bit

    def _store_some(self, rng: random.Random, survival: Survival) -> None:
        unsynced, self._unsynced = self._unsynced, []
        grown = len(self.cached)
        if survival is Survival.PREFIX and unsynced:
            unsynced = unsynced[: rng.randrange(len(unsynced)) + 1]
            unsynced[-1] = _torn(unsynced[-1], rng)
        share = {Survival.NOTHING: 0.0, Survival.SECTORS: rng.choice([0.2, 0.5, 0.9])}.get(survival, 1.0)
        for change in unsynced:
            for piece in _sectors(change) if survival is Survival.SECTORS else [change]:
                if rng.random() < share:
                    _apply(self.stored, piece)
        if survival is Survival.SECTORS and rng.random() < 0.3 and grown > len(self.stored):
            _resize(self.stored, grown)


@dataclass(slots=True, eq=False)
class Directory:
    """Names: `entries` is what readers see, `stored` what a power cut leaves."""

    entries: dict[str, Inode | Directory] = field(default_factory=dict)
    stored: dict[str, Inode | Directory] = field(default_factory=dict)


@dataclass(slots=True)
class _Relink:
    """Name changes that a journalling file system makes together: a rename has two, everything else one."""

    changes: list[tuple[Directory, str, Inode | Directory | None]]

    def touches(self, directories: list[Directory]) -> bool:
        return any(changed is directory for changed, _, _ in self.changes for directory in directories)

    def store(self) -> None:
        for directory, name, node in self.changes:
            if node is None:
                directory.stored.pop(name, None)
            else:
                directory.stored[name] = node


class SimulatedDrive:
    """The hardware and its file system. Processes come and go (`generation`), this stays."""

    def __init__(self, rng: random.Random, *, capacity_bytes: int = 1 << 40) -> None:
        self.rng = rng
        self.capacity_bytes = capacity_bytes
        self.root = Directory()
        self.generation = 0
        """Counts the processes that had this drive open and died. Their later calls reach nothing."""
        self.locked = False
        self._unsynced: list[_Relink] = []

    def copied(self) -> SimulatedDrive:
        """Another drive with the same on it, whose chance is the same, too."""
        chance = random.Random()
        chance.setstate(self.rng.getstate())
        return copy.deepcopy(self, {id(self.rng): chance})

    def kill_processes(self) -> None:
        """What kill -9 leaves: everything, the page cache included."""
        self.generation += 1
        self.locked = False

    def lose_power(self, survival: Survival | None = None) -> None:
        """Kill the processes and keep of the unsynced changes what `survival` says (by default: drawn)."""
        self.kill_processes()
        chosen = survival or self.rng.choice(list(Survival))
        self._keep_some_relinks(chosen)
        _show_stored(self.root)
        for _, inode in self.files():
            inode.lose_power(self.rng, chosen)

    def wipe(self) -> None:
        """A new, empty drive in the old one's place. The processes die, too."""
        self.kill_processes()
        self.root = Directory()
        self._unsynced.clear()

    def files(self) -> Iterator[tuple[str, Inode]]:
        """All files that readers see, in a stable order, with their paths."""
        return _walk(self.root, "")

    def flip_random_bit(self, *, path_part: str = "") -> str | None:
        """Rot one stored bit in a file whose path contains `path_part`; says in which, None if there is none."""
        candidates = [(path, inode) for path, inode in self.files() if path_part in path and inode.stored]
        if not candidates:
            return None
        path, inode = self.rng.choice(candidates)
        inode.flip_bit(self.rng.randrange(len(inode.stored)), self.rng.randrange(8))
        return path

    def flip_bits_for_readers(self, count: int) -> None:
        """Rot bits that readers see, stored or not: of files that nobody syncs, a drive may have stored nothing."""
        candidates = [inode for _, inode in self.files() if inode.cached]
        for _ in range(count if candidates else 0):
            inode = self.rng.choice(candidates)
            inode.flip_bit(self.rng.randrange(len(inode.cached)), self.rng.randrange(8))

    @property
    def free_bytes(self) -> int:
        return max(0, self.capacity_bytes - sum(len(inode.cached) for _, inode in self.files()))

    def check_room(self, growth: int, path: str) -> None:
        """ENOSPC if files cannot grow by so much."""
        if growth > 0 and growth > self.free_bytes:
            raise os_error(errno.ENOSPC, path)

    def relink(self, *changes: tuple[Directory, str, Inode | Directory | None]) -> None:
        """Change names for readers now, and for good once a sync of one of the directories says so."""
        for directory, name, node in changes:
            if node is None:
                del directory.entries[name]
            else:
                directory.entries[name] = node
        self._unsynced.append(_Relink(list(changes)))

    def sync_directory(self, directory: Directory) -> None:
        """Store the changes of this directory, and the earlier ones that they share a transaction with."""
        involved = [directory]
        stored = []
        for relink in reversed(self._unsynced):
            if relink.touches(involved):
                involved += [changed for changed, _, _ in relink.changes]
                stored.append(relink)
        for relink in reversed(stored):
            relink.store()
        self._unsynced = [relink for relink in self._unsynced if not any(relink is other for other in stored)]

    def _keep_some_relinks(self, survival: Survival) -> None:
        unsynced, self._unsynced = self._unsynced, []
        if survival is Survival.PREFIX and unsynced:
            unsynced = unsynced[: self.rng.randrange(len(unsynced)) + 1]
        share = {Survival.NOTHING: 0.0, Survival.SECTORS: 0.5}.get(survival, 1.0)
        for relink in unsynced:
            if self.rng.random() < share:
                relink.store()


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _apply(content: bytearray, change: _Change) -> None:
    if change.data is None:
        _resize(content, change.offset)
    else:
        _put(content, change.offset, change.data)


def _sectors(change: _Change) -> Iterator[_Change]:
    if change.data is None:
        yield change
        return
    position = 0
    while position < len(change.data):
        end = position + SECTOR_BYTES - (change.offset + position) % SECTOR_BYTES
        yield _Change(change.offset + position, change.data[position:end])
        position = end


def _torn(change: _Change, rng: random.Random) -> _Change:
    if change.data is None:
        return change
    return _Change(change.offset, change.data[: rng.randrange(len(change.data) + 1)])


def _show_stored(directory: Directory) -> None:
    directory.entries = dict(directory.stored)
    for node in directory.entries.values():
        if isinstance(node, Directory):
            _show_stored(node)


def _walk(directory: Directory, prefix: str) -> Iterator[tuple[str, Inode]]:
    for name, node in sorted(directory.entries.items()):
        if isinstance(node, Directory):
            yield from _walk(node, f"{prefix}{name}/")
        else:
            yield prefix + name, node
