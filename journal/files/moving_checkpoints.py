"""Checkpoints that are copied to another place: what names the old one is rewritten.

What `import` and `fork` share. Only Spark's metadata of operators names places (operator_metadata.py); everything else
of a checkpoint is copied byte by byte.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from journal.checkpoint.layout import LOG_BYTES_MAX, LogFormatError
from journal.checkpoint.operator_metadata import checkpoint_of, moved_metadata
from journal.records.paths import join

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from journal.files.tree_writing import NewFile


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedTree:
    """A tree as it is to be written, and what in it differs from the source."""

    files: tuple[NewFile, ...]
    rewritten: tuple[str, ...]
    unreadable: tuple[str, ...]  # metadata that may name the old place, and nobody can read


async def move_tree(files: Sequence[NewFile], home: str) -> MovedTree:
    """The tree as it must be at `home` (`sos://VOLUME/path`). Fails as reading its small files does."""
    rewritten: dict[str, NewFile] = {}
    unreadable = []
    for file in files:
        checkpoint = checkpoint_of(file.path)
        if checkpoint is None or file.is_directory or file.size > LOG_BYTES_MAX:
            continue
        data = b"".join([piece async for piece in file.pieces()])
        try:
            moved = moved_metadata(data, f"{home}/{checkpoint}".removesuffix("/"))
        except LogFormatError:
            unreadable.append(file.path)
            continue
        if moved != data:
            rewritten[file.path] = _with_content(file, moved)
    checksums = {path for one in rewritten for path in _checksums_of(one)}
    return MovedTree(
        files=tuple(rewritten.get(file.path, file) for file in files if file.path not in checksums),
        rewritten=tuple(rewritten),
        unreadable=tuple(unreadable),
    )


def _checksums_of(path: str) -> list[str]:
    """Files beside it that say what it was: Hadoop's of a local file system, and Spark's. Both do without them."""
    folder, _, name = path.rpartition("/")
    return [join(folder, f".{name}.crc"), join(folder, f"{name}.crc")]


def _with_content(file: NewFile, content: bytes) -> NewFile:
    async def pieces() -> AsyncIterator[bytes]:
        yield content

    return replace(file, size=len(content), pieces=pieces)
