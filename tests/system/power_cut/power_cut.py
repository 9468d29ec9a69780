"""Takes away what a power cut would have taken from a directory, after the process that wrote there was killed.

The process ran with the shim `power_cut.c` under it, which noted how to undo each change. Here the notes are read, and
what no sync covered is undone, newest first: all of it, or (drives keep some of what was never synced) a part.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

SOURCE: Final = Path(__file__).with_suffix(".c")
NOTE: Final = Struct("<IBQQQQII")
SECTOR_BYTES: Final = 512


class Kind(IntEnum):
    WROTE = 1
    RESIZED = 2
    SYNCED = 3
    CREATED = 4
    UNLINKED = 5
    RENAMED = 6
    MADE_DIRECTORY = 7
    REMOVED_DIRECTORY = 8
    DIRECTORY_SYNCED = 9
    ALL_SYNCED = 10
    """By syncfs. It makes names durable as well, but nothing may rest on that: other systems promise less."""


@dataclass(frozen=True, slots=True)
class Note:
    position: int
    kind: Kind
    inode: int
    offset: int
    length: int
    old_size: int
    path: Path
    other_path: Path
    old: bytes


class PowerCut:
    """One directory under watch: `environment` for the processes that write there, `cut` when they are dead."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self.root = root.absolute()
        self.notes = scratch.absolute() / "power-cut-notes"
        self.notes.mkdir()
        self.library = scratch.absolute() / "power_cut.so"
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("there is no C compiler to make the power-cut shim with")
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(self.library), str(SOURCE), "-ldl", "-lpthread"]
        subprocess.run(command, check=True)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self.library),
            "POWER_CUT_ROOT": str(self.root),
            "POWER_CUT_NOTES": str(self.notes),
        }

    def cut(self, chance: random.Random | None = None) -> int:
        """Undo what was not synced; with `chance`, only a part of it. Says how many changes were undone."""
        notes = list(_read(self.notes / "undo"))
        undone = self._undo_bytes(_unsynced_bytes(notes), chance) + _undo_names(
            _unsynced_names(notes), self.notes, chance
        )
        for kept in self.notes.iterdir():
            kept.unlink()
        return undone

    def _undo_bytes(self, notes: list[Note], chance: random.Random | None) -> int:
        for note in reversed(notes):
            with (self.notes / str(note.inode)).open("r+b", buffering=0) as file:
                if chance is None or chance.random() < 0.5:
                    os.pwrite(file.fileno(), note.old, note.offset)
                    if note.kind is Kind.RESIZED or note.offset + note.length > note.old_size:
                        os.ftruncate(file.fileno(), note.old_size)
                else:
                    _undo_some_sectors(file.fileno(), note, chance)
        return len(notes)


def _undo_some_sectors(descriptor: int, note: Note, chance: random.Random) -> None:
    """As drives do that had not finished: any sector may be old or new; what grew may read as zeros."""
    end = note.offset + (note.length if note.kind is Kind.WROTE else len(note.old))
    for start in range(note.offset // SECTOR_BYTES * SECTOR_BYTES, end, SECTOR_BYTES):
        if chance.random() < 0.5:
            first, last = max(start, note.offset), min(start + SECTOR_BYTES, end)
            old = note.old[first - note.offset : last - note.offset]
            os.pwrite(descriptor, old.ljust(last - first, b"\0"), first)


def _undo_names(notes: list[Note], kept: Path, chance: random.Random | None) -> int:
    """File systems journal names in order: what survives of them is the beginning."""
    survivors = 0 if chance is None else chance.randrange(len(notes) + 1)
    for note in reversed(notes[survivors:]):
        with contextlib.suppress(FileNotFoundError):
            match note.kind:
                case Kind.CREATED:
                    note.path.unlink()
                case Kind.MADE_DIRECTORY:
                    shutil.rmtree(note.path)
                case Kind.REMOVED_DIRECTORY:
                    note.path.mkdir()
                case Kind.UNLINKED:
                    _link(kept / str(note.inode), note.path)
                case Kind.RENAMED:
                    note.other_path.rename(note.path)
                    if note.inode:
                        _link(kept / str(note.inode), note.other_path)
    return len(notes) - survivors


def _link(inode: Path, path: Path) -> None:
    with contextlib.suppress(FileExistsError):
        os.link(inode, path)


def _unsynced_bytes(notes: list[Note]) -> list[Note]:
    covered = {note.inode: note.offset for note in notes if note.kind is Kind.SYNCED}
    all_covered = max((note.offset for note in notes if note.kind is Kind.ALL_SYNCED), default=0)
    return [
        note
        for note in notes
        if note.kind in {Kind.WROTE, Kind.RESIZED} and note.position >= max(all_covered, covered.get(note.inode, 0))
    ]


def _unsynced_names(notes: list[Note]) -> list[Note]:
    covered = {note.path: note.offset for note in notes if note.kind is Kind.DIRECTORY_SYNCED}
    bytes_only = {Kind.WROTE, Kind.RESIZED, Kind.SYNCED, Kind.DIRECTORY_SYNCED, Kind.ALL_SYNCED}
    changes = [note for note in notes if note.kind not in bytes_only]
    return [
        note
        for note in changes
        if note.position >= covered.get((note.other_path if note.kind is Kind.RENAMED else note.path).parent, 0)
    ]


def _read(path: Path) -> Iterator[Note]:
    """Every whole note; a last one that the kill cut short was followed by no change."""
    content = path.read_bytes() if path.exists() else b""
    position = 0
    while position + NOTE.size <= len(content):
        total, kind, inode, offset, length, old_size, path_bytes, other_bytes = NOTE.unpack_from(content, position)
        if position + total > len(content):
            return
        rest = content[position + NOTE.size : position + total]
        first, second = rest[:path_bytes], rest[path_bytes : path_bytes + other_bytes]
        yield Note(
            position,
            Kind(kind),
            inode,
            offset,
            length,
            old_size,
            Path(os.fsdecode(first)),
            Path(os.fsdecode(second)),
            rest[path_bytes + other_bytes :],
        )
        position += total
