"""`sos-journal import`: from a plain directory into a volume."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import click

from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.views import open_service
from journal.errors import JournalCode, JournalError, refused
from journal.files.moving_checkpoints import MovedTree, move_tree
from journal.files.plain_directory import LocalFile, scan_directory
from journal.files.tree_writing import NewFile, write_tree
from sos_client.command.output import count_text, note, print_json, progress, size_text
from sos_client.command.parameters import PRESENT_DIRECTORY
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from journal.records.location import Location
    from journal.volume import Volume

PIECE_BYTES = 1024 * 1024


@click.command("import")
@click.argument("directory", type=PRESENT_DIRECTORY)
@click.argument("location", type=LocationType())
@click.option("--if-empty", is_flag=True, help="Do nothing, and exit with 0, if there is something at the path.")
@click.option("--dry-run", is_flag=True, help="Print what would be written, and change nothing.")
@style_options
@access_options
def import_directory(
    *, directory: Path, location: Location, if_empty: bool, dry_run: bool, style: Style, access: Access
) -> None:
    """Copy a directory to a new path of a volume.

    It goes through the service, appears whole or not at all, and keeps its times.

    \b
    sos-journal import /data/checkpoints/q1 sos://payments/q1 --service s:7420
    """
    run_async(_import, directory, location, (if_empty, dry_run), style, access)


async def _import(
    directory: Path, location: Location, options: tuple[bool, bool], style: Style, access: Access
) -> None:
    if_empty, dry_run = options
    moved = await move_tree([_new_file(file) for file in scan_directory(directory, "")], home_of(location))
    note_moved(moved, location)
    if dry_run:
        _print_plan(moved, style)
        return
    files = moved.files
    size = sum(file.size for file in files)
    async with open_service(access, location.volume) as volume:
        if await is_taken(volume, location.path):
            if if_empty:
                note(f"there is something at {location}: nothing was done")
                return
            raise refused(JournalCode.ALREADY_EXISTS, f"there is something at {location}; import into a new path")
        with progress("importing", size) as bar:
            await write_tree(
                volume,
                files,
                location.path,
                scratch=secrets.token_hex(4),
                origin={"imported_files": len(files)},
                progress=bar.advance,
            )
    if style.json:
        print_json({"imported": str(location), "files": len(files), "bytes": size, "rewritten": moved.rewritten})
    else:
        click.echo(f"imported {tree_text(files)}, {size_text(size)}, to {printable(str(location))}")


def home_of(location: Location) -> str:
    """A location as Spark writes it in front of a path."""
    return str(location).removesuffix("/")


def note_moved(moved: MovedTree, target: Location) -> None:
    """Say what in a tree is written otherwise than it was, and why."""
    if moved.rewritten:
        files = count_text(len(moved.rewritten), "file")
        note(f"{files} of operators' metadata name schema files at the old place: rewritten for {target}")
    for path in moved.unreadable:
        note(f"warning: {path} may name files at the old place, and cannot be read: copied as it is")


def _print_plan(moved: MovedTree, style: Style) -> None:
    for file in moved.files:
        is_new = file.path in moved.rewritten
        if style.json:
            line = {"write": file.path, "directory": file.is_directory, "size": file.size}
            print_json(line | ({"rewritten": True} if is_new else {}))
        else:
            size = "-" if file.is_directory else size_text(file.size)
            click.echo(f"write  {size:>10}  {printable(file.path)}{'  (with new addresses)' if is_new else ''}")


async def is_taken(volume: Volume, path: str) -> bool:
    """Whether there is a file, or a directory with something in it."""
    try:
        status = await volume.stat(path)
    except JournalError as error:
        if error.code == JournalCode.NOT_FOUND:
            return False
        raise
    return not status.is_directory or bool((await volume.list(path, limit=1)).entries)


def _new_file(file: LocalFile) -> NewFile:
    def pieces() -> AsyncIterator[bytes]:
        return _read(file.local)

    return NewFile(
        path=file.path,
        is_directory=file.is_directory,
        size=file.size,
        modified_ms=file.modified_ms,
        pieces=pieces,
    )


async def _read(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as stream:
        while piece := stream.read(PIECE_BYTES):
            yield piece


def tree_text(entries: Sequence[NewFile]) -> str:
    """What a tree that is written consists of."""
    directories = sum(entry.is_directory for entry in entries)
    files = count_text(len(entries) - directories, "file")
    return f"{files} and {count_text(directories, 'directory', 'directories')}"
