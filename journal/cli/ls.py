"""`sos-journal ls`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, at_option, style_options
from journal.cli.views import open_view
from sos_client.command.output import print_json, print_table, size_text, time_text
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from journal.records.location import Location
    from journal.volume import FileStatus


@click.command()
@click.argument("location", type=LocationType())
@click.option("-R", "--recursive", is_flag=True, help="Everything below, too.")
@at_option
@style_options
@access_options
def ls(*, location: Location, recursive: bool, at: str, style: Style, access: Access) -> None:
    """List files, now or at any moment that is kept.

    \b
    sos-journal ls sos://payments/q1/offsets
    sos-journal ls -R sos://payments/q1 --at batch:41 --servers a:7400,b:7400,c:7400
    """
    run_async(_ls, location, recursive, at, style, access)


async def _ls(location: Location, recursive: bool, at: str, style: Style, access: Access) -> None:  # noqa: FBT001
    async with open_view(access, location, at, style) as view:
        found = view.walk(location.path) if recursive else view.children(location.path)
        entries = [entry async for entry in found if entry.path != location.path or not entry.is_directory]
    if style.json:
        for entry in entries:
            print_json(status_json(entry))
        return
    rows = [
        ("-" if entry.is_directory else size_text(entry.size), time_text(entry.modified_ms, style.zone), _name(entry))
        for entry in entries
    ]
    print_table(("SIZE", "MODIFIED", "PATH"), rows, right=(0,))


def status_json(status: FileStatus) -> dict[str, object]:
    """A file as JSON."""
    value: dict[str, object] = {
        "path": status.path,
        "directory": status.is_directory,
        "size": status.size,
        "modified_ms": status.modified_ms,
    }
    if status.crc is not None:
        value["crc32c"] = f"{status.crc:08x}"
    return value


def _name(entry: FileStatus) -> str:
    shown = printable(entry.path)
    return click.style(f"{shown}/", fg="blue") if entry.is_directory else shown
