"""Nodes of the tree of files in memory: nested dicts with packed leaves, within 300 bytes for each file. Pure.

Belongs here: nodes, the packed form of a file (time and extents), finding and walking. What holds a tree together, and
how it changes, is in file_tree.py.

A file is `u64 modified_ms | (u32 object number, u64 offset, u32 length, u32 crc) …` as bytes: one small object instead
of nine, shared freely between images since it never changes, and copied into index snapshots as it is.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from journal.records.paths import join

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_TIME: Final = struct.Struct(">Q")
_EXTENT: Final = struct.Struct(">IQII")
_ONE_EXTENT_FILE: Final = struct.Struct(">QIQII")  # nearly every file
_OBJECT_AND_LENGTH: Final = struct.Struct(">8xI8xI4x")  # of the extent in one of them
EMPTY_FILE_BYTES: Final = _TIME.size
EXTENT_BYTES: Final = _EXTENT.size
_LENGTH_WORD: Final = 3  # of 32 bits, in an extent
ONE_EXTENT_FILE_BYTES: Final = EMPTY_FILE_BYTES + EXTENT_BYTES
assert _ONE_EXTENT_FILE.size == _OBJECT_AND_LENGTH.size == ONE_EXTENT_FILE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Where bytes of a file lie: in which object, from which offset, how many, and their CRC32C."""

    object: str
    offset: int
    length: int
    crc: int


FILE_BYTES: Final = 264
DIRECTORY_BYTES: Final = 500
"""What a file, or a directory, takes in memory at most, besides its name and what is packed: in two images (image.py),
each with a place in a dictionary that has just grown. Measured in the tests."""
_NAME_BYTES: Final = 56
_WIDE_NAME_BYTES: Final = 80

_CHANGES_MAX: Final = 200
"""A sorted list of names is mended for up to this many changes; with more it is cheaper to sort once more."""
_SPARSE_BYTES: Final = 256
"""A dictionary with more than that for each child has had many more."""


class Directory:
    """Children by name. Once it was listed the sorted names are kept, and mended at the next listing."""

    __slots__ = ("_changed", "_names", "children", "modified_ms")

    def __init__(self, modified_ms: int, children: dict[str, Node] | None = None) -> None:
        self.children: dict[str, Node] = {} if children is None else children
        self.modified_ms = modified_ms
        self._names: list[str] | None = None
        self._changed: tuple[str, ...] = ()  # came or went since the names were sorted

    def add(self, name: str, node: Node) -> None:
        """Set a child."""
        if name not in self.children:
            self._change(name)
        self.children[name] = node

    def remove(self, name: str) -> Node | None:
        """Take a child out."""
        self._change(name)
        node = self.children.pop(name, None)
        if self.children.__sizeof__() > _SPARSE_BYTES * (len(self.children) + 2):
            self.children = dict(self.children)  # else it would keep the room for all that it ever had
        return node

    def names_after(self, after: str, count: int) -> list[str]:
        """Up to `count` names that follow `after` in order."""
        names = self._sorted_names()
        start = bisect_right(names, after) if after else 0
        return names[start : start + count]

    def _change(self, name: str) -> None:
        if self._names is not None:
            self._changed += (name,)
            if len(self._changed) > min(_CHANGES_MAX, len(self.children)):
                self._names, self._changed = None, ()

    def _sorted_names(self) -> list[str]:
        """Sorting 100,000 names again after each change would hold up everybody for 30 ms each time."""
        if self._names is None:
            self._names = sorted(self.children)
        for name in dict.fromkeys(self._changed):
            at = bisect_left(self._names, name)
            end = at + (self._names[at : at + 1] == [name])
            self._names[at:end] = [name] if name in self.children else []
        self._changed = ()
        return self._names

    def copy(self) -> Directory:
        """This directory and all below it; packed files are shared."""
        top = Directory(self.modified_ms, dict(self.children))
        todo = [top]
        while todo:
            directory = todo.pop()
            below = [(name, node) for name, node in directory.children.items() if type(node) is Directory]
            for name, node in below:  # few among many files
                directory.children[name] = twin = Directory(node.modified_ms, node.children.copy())
                todo.append(twin)
        return top


PackedFile: TypeAlias = bytes
Node: TypeAlias = "PackedFile | Directory"


def pack_file(modified_ms: int, extents: bytes) -> PackedFile:
    """A file from its time and packed extents."""
    return _TIME.pack(modified_ms) + extents


def pack_one_extent_file(modified_ms: int, number: int, offset: int, length: int, crc: int) -> PackedFile:
    """As `pack_file` of `pack_extent`."""
    return _ONE_EXTENT_FILE.pack(modified_ms, number, offset, length, crc)


def one_extent_of(file: PackedFile) -> tuple[int, int]:
    """(object number, length) of the extent of a file of ONE_EXTENT_FILE_BYTES."""
    _, number, _, length, _ = _ONE_EXTENT_FILE.unpack(file)
    return number, length


def objects_and_lengths(files: bytes) -> Iterator[tuple[int, int]]:
    """As `one_extent_of`, for each of many files of ONE_EXTENT_FILE_BYTES in one run."""
    return _OBJECT_AND_LENGTH.iter_unpack(files)


def pack_extent(number: int, offset: int, length: int, crc: int) -> bytes:
    """One extent, with the object by its number in the image's table."""
    return _EXTENT.pack(number, offset, length, crc)


def modified_ms_of(node: Node) -> int:
    """When a file's content, or a directory's list of children, last changed."""
    if isinstance(node, Directory):
        return node.modified_ms
    time_ms: int = _TIME.unpack_from(node)[0]
    return time_ms


def extents_of(file: PackedFile) -> Iterator[tuple[int, int, int, int]]:
    """(object number, offset, length, crc) of each extent in order."""
    return iter_extents(memoryview(file)[EMPTY_FILE_BYTES:])


def iter_extents(extents: bytes | memoryview) -> Iterator[tuple[int, int, int, int]]:
    """As `extents_of`, for packed extents that are not a file (yet)."""
    return _EXTENT.iter_unpack(extents)


def size_of(file: PackedFile) -> int:
    """The file's length in bytes."""
    if len(file) == ONE_EXTENT_FILE_BYTES:  # nearly every file
        length: int = _EXTENT.unpack_from(file, EMPTY_FILE_BYTES)[2]
        return length
    words = array(
        "I", file[EMPTY_FILE_BYTES:]
    )  # each append asks: of thousands of extents one by one takes a millisecond
    if sys.byteorder == "little":
        words.byteswap()
    return sum(words[_LENGTH_WORD :: EXTENT_BYTES // words.itemsize])


def crc_of(file: PackedFile) -> int | None:
    """The CRC32C of the whole content if one extent holds it."""
    if len(file) == ONE_EXTENT_FILE_BYTES:
        crc: int = _EXTENT.unpack_from(file, EMPTY_FILE_BYTES)[3]
        return crc
    return 0 if len(file) == EMPTY_FILE_BYTES else None


def find(root: Directory, path: str) -> Node | None:
    """What lies at a path, None if nothing does (also if a file is in the way)."""
    node: Node = root
    if not path:
        return node
    for name in path.split("/"):
        if not isinstance(node, Directory):
            return None
        child = node.children.get(name)
        if child is None:
            return None
        node = child
    return node


def file_in_the_way(root: Directory, path: str) -> str | None:
    """The path of a file where `path` needs a directory above it."""
    node: Node = root
    names = path.split("/")[:-1]
    for depth, name in enumerate(names):
        if not isinstance(node, Directory):
            return "/".join(names[:depth])
        child = node.children.get(name)
        if child is None:
            return None
        node = child
    return None if isinstance(node, Directory) else "/".join(names)


def walk(path: str, node: Node) -> Iterator[tuple[str, Node]]:
    """`node` and everything below it with paths, parents before children, in order of names."""
    todo: list[tuple[str, Node]] = [(path, node)]
    while todo:
        at, one = todo.pop()
        yield at, one
        if isinstance(one, Directory):
            names = one.names_after("", len(one.children))
            todo.extend((join(at, name), one.children[name]) for name in reversed(names))


def below(node: Node) -> tuple[list[PackedFile], int, int]:
    """Every file at or below `node`, in no order; the number of directories, it included; what all below it take."""
    if not isinstance(node, Directory):
        return [node], 0, 0
    files: list[PackedFile] = []
    todo, directories, names_bytes = [node], 0, 0
    while todo:
        inside = todo.pop().children
        children = inside.values()
        directories += 1
        names_bytes += bytes_of_names(inside)
        files += [child for child in children if type(child) is bytes]
        todo += [child for child in children if type(child) is Directory]
    kept_bytes = 2 * names_bytes + bytes_of_files(len(files), sum(map(len, files)))
    return files, directories, kept_bytes + (directories - 1) * DIRECTORY_BYTES


def bytes_of_files(count: int, packed_bytes: int) -> int:
    """What this many files take in memory, without their names, if they have this many bytes when packed."""
    return FILE_BYTES * count + 2 * packed_bytes


def bytes_of_names(names: Collection[str]) -> int:
    """What names take in memory, once."""
    joined = "".join(names)
    if joined.isascii():
        return _NAME_BYTES * len(names) + len(joined)
    return sum(map(bytes_of_name, names))


def bytes_of_name(name: str) -> int:
    """One character that is not plain makes all of them four bytes wide, at the most."""
    return _NAME_BYTES + len(name) if name.isascii() else _WIDE_NAME_BYTES + 4 * len(name)


def bytes_of_node(name: str, node: Node) -> int:
    """What a file or a directory takes, without what is below it."""
    own_bytes = FILE_BYTES + 2 * len(node) if type(node) is bytes else DIRECTORY_BYTES
    return own_bytes + 2 * bytes_of_name(name)


def bytes_by_object(files: list[PackedFile]) -> dict[int, int]:
    """How many bytes of each object the files refer to, by its number."""
    total: dict[int, int] = defaultdict(int)
    for number, length in objects_and_lengths(b"".join(f for f in files if len(f) == ONE_EXTENT_FILE_BYTES)):
        total[number] += length
    for file in files:
        if len(file) > ONE_EXTENT_FILE_BYTES:
            for number, _, length, _ in extents_of(file):
                total[number] += length
    return total


def missing_directories(root: Directory, path: str) -> list[str]:
    """The names of the directories that would have to be made for `path` to be one."""
    node: Node = root
    names = path.split("/") if path else []
    for depth, name in enumerate(names):
        child = node.children.get(name) if isinstance(node, Directory) else None
        if child is None:
            return names[depth:]
        node = child
    return []


def longest_below(node: Node) -> tuple[int, int]:
    """(bytes, components) of the longest paths below `node`, relative to it: both 0 if nothing is below."""
    longest = deepest = 0
    todo = [(node, 0, 0)]
    while todo:
        one, size, depth = todo.pop()
        longest, deepest = max(longest, size), max(deepest, depth)
        if isinstance(one, Directory) and one.children:
            longest = max(longest, size + 1 + _longest(one.children))
            deepest = max(deepest, depth + 1)
            todo += [
                (child, size + 1 + len(name.encode()), depth + 1)
                for name, child in one.children.items()
                if type(child) is Directory
            ]
    return longest, deepest


def _longest(names: Iterable[str]) -> int:
    """Bytes of the longest name; most directories have plain ones."""
    if "".join(names).isascii():
        return max(map(len, names))
    return max(len(name.encode()) for name in names)
