"""`sos-connector readers`: who is registered as a reader of an ingest volume; ending those that are over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from connectors.cli.status import report_of
from connectors.ingest import places
from journal.cli.locations import LocationType
from journal.cli.options import access_options, style_options
from journal.cli.views import open_service
from journal.errors import JournalCode, refused
from sos_client.command.output import note, print_json, print_table, size_text, time_text
from sos_client.command.running import confirm, run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from journal.cli.options import Access, Style
    from journal.records.location import Location


@click.group("readers")
def readers_command() -> None:
    """Show who reads an ingest volume, or end readers that are over.

    A reader (a Spark query, by its query id and the place of its checkpoint) keeps what it has not committed from being
    deleted. One that will never come back keeps it for ever, until it is removed.

    \b
    sos-connector readers list clicks --service 127.0.0.1:7432
    sos-connector readers remove clicks 5f1c… --service 127.0.0.1:7432
    """


@readers_command.command("list")
@click.argument("location", metavar="VOLUME", type=LocationType())
@style_options
@access_options
def list_readers(*, location: Location, style: Style, access: Access) -> None:
    """Each reader, what it needs next, how far behind it is, and how far back it can be rewound.

    \b
    sos-connector readers list clicks --service s:7420
    """
    run_async(_list, location.volume, style, access)


async def _list(volume: str, style: Style, access: Access) -> None:
    readers = (await report_of(volume, style, access))["readers"]
    if style.json:
        for reader in readers:
            print_json(reader)
        return
    rows = [
        (
            printable(one["name"]), f"{one['next_sequence']:,}", f"{one['lag_messages']:,}",
            size_text(one["lag_bytes"]), f"{one['rewind_messages']:,}", time_text(one["written_ms"], style.zone),
            printable(", ".join(f"{key} {value}" for key, value in one["remarks"].items())),
        )
        for one in readers
    ]  # fmt: skip
    if not rows:
        note(f"nobody reads {volume}: nothing is deleted until somebody does")
        return
    print_table(("READER", "NEXT", "LAG", "LAG BYTES", "REWIND", "COMMITTED", ""), rows, right=(1, 2, 3, 4))


@readers_command.command("remove")
@click.argument("location", metavar="VOLUME", type=LocationType())
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@style_options
@access_options
def remove_reader(*, location: Location, name: str, yes: bool, style: Style, access: Access) -> None:
    """End a reader: what only it needed may be deleted then.

    A query that still runs registers again with its next batch, if what it needs is still there.

    \b
    sos-connector readers remove clicks q1 --service s:7420
    """
    run_async(_remove, location.volume, name, yes, style, access)


async def _remove(volume: str, name: str, yes: bool, style: Style, access: Access) -> None:  # noqa: FBT001
    if not name or "/" in name:
        raise refused(JournalCode.BAD_REQUEST, f"{name!r} is not the name of a reader")
    async with open_service(access, volume) as service:
        path = places.reader_file(name)
        await service.stat(path)
        if not yes:
            confirm(f"end reader {printable(name)} of {volume}?")
        removed = await service.delete(path, recursive=False, operation=service.new_operation())
    if style.json:
        print_json({"name": name, "removed": removed})
    else:
        click.echo(f"removed reader {printable(name)}" if removed else f"there is no reader {printable(name)}")
