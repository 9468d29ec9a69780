"""The tree of files, and which objects its extents refer to. Pure.

Belongs here: looking at the tree, and the few ways in which it changes. Records, times and claims are image.py's. A
change that does not fit raises MisfitError and leaves the tree of no further use: a record that does not fit is
damage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, refused
from journal.image import nodes
from journal.image.nodes import Directory, Extent, Node, PackedFile
from journal.records.paths import is_within, join, name_of, parent_of
from journal.volume import PAGE_ENTRIES_MAX, FileStatus, Page

if TYPE_CHECKING:
    from collections.abc import Iterator


_DIRECTORIES_MAX: Final = 1000  # remembered; beyond it they are found again


class MisfitError(Exception):
    """A record says something that cannot be so.

    Translated into DAMAGED, with the record's LSN, by whoever applies it.
    """


class FileTree:
    """Paths, files and directories; `live_bytes` counts, for each object, what extents refer to."""

    def __init__(self) -> None:
        self.root = Directory(0)
        self.file_count = 0
        self.directory_count = 0  # without the root
        self.kept_bytes = 0  # what all of them take in memory, in two images
        self.objects: list[str] = []  # what extents refer to, by number
        self.live_bytes: list[int] = []
        self._directories: dict[str, Directory] = {}  # found lately: files mostly come many to a directory
        self._grown: tuple[PackedFile, int] = (b"", 0)  # what was appended to last, and its size

    def copy(self) -> FileTree:
        """An independent tree; packed files, which never change, are shared."""
        other = FileTree()
        other.root, other.file_count, other.directory_count = self.root.copy(), self.file_count, self.directory_count
        other.kept_bytes = self.kept_bytes
        other.objects, other.live_bytes = self.objects.copy(), self.live_bytes.copy()
        return other

    # ---- looking

    def find(self, path: str) -> FileStatus | None:
        """What lies at a path, or None."""
        node = nodes.find(self.root, path)
        return None if node is None else status_of(path, node)

    def stat(self, path: str) -> FileStatus:
        """As `find`; RefusedByVolumeError (NOT_FOUND) instead of None."""
        return status_of(path, self._node(path))

    def extents(self, path: str) -> tuple[Extent, ...]:
        """Where the bytes of a file lie. NOT_FOUND, IS_DIRECTORY."""
        node = self._node(path)
        if isinstance(node, Directory):
            raise refused(JournalCode.IS_DIRECTORY, f"{path or '/'} is a directory", path=path)
        return tuple(
            Extent(object=self.objects[number], offset=offset, length=length, crc=crc)
            for number, offset, length, crc in nodes.extents_of(node)
        )

    def list_page(self, path: str, *, after: str = "", limit: int = PAGE_ENTRIES_MAX) -> Page:
        """Children whose names follow `after`, in order; a file's own status if it is one. NOT_FOUND."""
        node = self._node(path)
        if not isinstance(node, Directory):
            return Page(entries=(status_of(path, node),), more=False)
        limit = max(1, min(limit, PAGE_ENTRIES_MAX))
        names = node.names_after(after, limit + 1)
        entries = tuple(status_of(join(path, name), node.children[name]) for name in names[:limit])
        return Page(entries=entries, more=len(names) > limit)

    def walk(self, path: str = "") -> Iterator[FileStatus]:
        """All at or below a path, parents first, in order of names. NOT_FOUND. Change nothing while it goes on."""
        return (status_of(at, node) for at, node in nodes.walk(path, self._node(path)))

    def objects_in_use(self) -> dict[str, int]:
        """Each object that extents refer to, with the number of bytes."""
        return {name: size for name, size in zip(self.objects, self.live_bytes, strict=True) if size}

    def file(self, path: str) -> PackedFile:
        """The packed file at a path; MisfitError if there is none."""
        node = nodes.find(self.root, path)
        if node is None or isinstance(node, Directory):
            raise MisfitError(f"{path or '/'} is not a file")
        return node

    def size_of(self, file: PackedFile) -> int:
        """A file's length. Of the one that was appended to last it is known: each append asks, and it may have
        thousands of extents."""
        grown, size = self._grown
        return size if file is grown else nodes.size_of(file)

    def _node(self, path: str) -> Node:
        node = nodes.find(self.root, path)
        if node is None:
            raise refused(JournalCode.NOT_FOUND, f"there is nothing at {path or '/'}", path=path)
        return node

    # ---- changing

    def use(self, object_name: str, length: int) -> int:
        """Count this many more bytes of the newest object as in use; returns its number."""
        if not self.objects or self.objects[-1] != object_name:
            self.objects.append(object_name)
            self.live_bytes.append(0)
        self.live_bytes[-1] += length
        return len(self.objects) - 1

    def count(self, extents: bytes, sign: int) -> None:
        """Packed extents come into use (+1), or go out of it (-1)."""
        for number, _, length, _ in nodes.iter_extents(extents):
            self.live_bytes[number] += sign * length

    def publish(self, path: str, file: PackedFile, *, time_ms: int) -> None:
        """Give a path new content, whose extents are counted already. What it had before goes out of use."""
        if not path:
            raise MisfitError("the root is not a file")
        parent, _, name = path.rpartition("/")
        directory = self._directories.get(parent)
        if directory is None:
            directory = self.make_directories(parent, time_ms=time_ms)
            if len(self._directories) >= _DIRECTORIES_MAX:
                self._directories.clear()
            self._directories[parent] = directory
        old = directory.children.get(name)
        if type(old) is bytes and len(old) == len(file) == nodes.ONE_EXTENT_FILE_BYTES:  # takes what it took
            self._out_of_use(old)
            directory.children[name] = file
            return
        self._set(directory, name, file, time_ms=time_ms)
        self.file_count += 1

    def node(self, path: str) -> Node | None:
        """What lies at a path."""
        parent, _, name = path.rpartition("/")
        directory = self._directories.get(parent) if path else None
        return nodes.find(self.root, path) if directory is None else directory.children.get(name)

    def has_lately(self, directory: str) -> bool:
        """Whether this is known to be a directory, without looking for it."""
        return directory in self._directories

    def replace(self, path: str, file: PackedFile, *, size: int) -> FileStatus:
        """Change a file in place, which is of this size then: the caller has counted what came and what went."""
        self.kept_bytes += 2 * (len(file) - len(self.file(path)))
        parent = nodes.find(self.root, parent_of(path))
        assert isinstance(parent, Directory)
        parent.add(name_of(path), file)
        self._grown = file, size
        return FileStatus(
            path=path, is_directory=False, size=size, modified_ms=nodes.modified_ms_of(file), crc=nodes.crc_of(file)
        )

    def delete(self, path: str, *, time_ms: int) -> None:
        """Remove a path and all below it; of the root, all below it."""
        if path:
            node = self._parent(path, time_ms=time_ms).remove(name_of(path))
        else:
            node, self.root = self.root, Directory(time_ms)
        if node is None:
            raise MisfitError(f"there is no {path}")
        self._forget(node)
        files, directories, below_bytes = nodes.below(node)
        self.kept_bytes -= below_bytes + (nodes.bytes_of_node(name_of(path), node) if path else 0)
        self.file_count -= len(files)
        self.directory_count -= directories if path else directories - 1  # the root is not counted
        for number, length in nodes.bytes_by_object(files).items():
            self.live_bytes[number] -= length

    def rename(self, source: str, target: str, *, time_ms: int) -> None:
        """Move a path and all below it; a file at the target goes out of use."""
        if not source or is_within(target, source) or nodes.find(self.root, source) is None:
            raise MisfitError(f"{source or '/'} cannot become {target or '/'}")
        directory = self.make_directories(parent_of(target), time_ms=time_ms)
        node = self._parent(source, time_ms=time_ms).remove(name_of(source))
        assert node is not None
        self.kept_bytes -= nodes.bytes_of_node(name_of(source), node)
        self._forget(node)
        self._set(directory, name_of(target), node, time_ms=time_ms)

    def make_directories(self, path: str, *, time_ms: int) -> Directory:
        """The directory at a path, made with its parents where they are missing."""
        directory = self.root
        for name in path.split("/") if path else ():
            child = directory.children.get(name)
            if child is None:
                child = Directory(time_ms)
                directory.add(name, child)
                directory.modified_ms = time_ms
                self.directory_count += 1
                self.kept_bytes += nodes.bytes_of_node(name, child)
            if not isinstance(child, Directory):
                raise MisfitError(f"a file is in the way of {path}")
            directory = child
        return directory

    def _parent(self, path: str, *, time_ms: int) -> Directory:
        parent = nodes.find(self.root, parent_of(path))
        if not isinstance(parent, Directory):
            raise MisfitError(f"there is no {path}")
        parent.modified_ms = time_ms
        return parent

    def _set(self, directory: Directory, name: str, node: Node, *, time_ms: int) -> None:
        old = directory.children.get(name)
        if isinstance(old, Directory):
            raise MisfitError(f"{name} is a directory")
        if old is None:
            directory.modified_ms = time_ms
        else:
            self.file_count -= 1
            self.kept_bytes -= nodes.bytes_of_node(name, old)
            self._out_of_use(old)
        self.kept_bytes += nodes.bytes_of_node(name, node)
        directory.add(name, node)

    def _forget(self, moved: Node) -> None:
        """What was found before lies elsewhere, or nowhere, if it is a directory that went away."""
        if isinstance(moved, Directory):
            self._directories.clear()

    def _out_of_use(self, file: PackedFile) -> None:
        if len(file) == nodes.ONE_EXTENT_FILE_BYTES:
            number, length = nodes.one_extent_of(file)
            self.live_bytes[number] -= length
            return
        for number, _, length, _ in nodes.extents_of(file):
            self.live_bytes[number] -= length


def status_of(path: str, node: Node) -> FileStatus:
    """What is known about a node."""
    if isinstance(node, Directory):
        return FileStatus(path=path, is_directory=True, size=0, modified_ms=node.modified_ms)
    return FileStatus(
        path=path,
        is_directory=False,
        size=nodes.size_of(node),
        modified_ms=nodes.modified_ms_of(node),
        crc=nodes.crc_of(node),
    )
