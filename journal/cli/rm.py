"""`sos-journal rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from journal.cli.claims import all_claims, ask
from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.views import open_service
from journal.errors import JournalCode, JournalError, refused
from journal.gateway.client.sharded_volume import ShardedVolume
from journal.records.paths import is_within
from sos_client.command.output import print_json
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from journal.gateway.client.opening import WholeVolume
    from journal.records.location import Location
    from journal.volume import ClaimedPath, FileStatus


@click.command()
@click.argument("location", type=LocationType())
@click.option("-r", "--recursive", is_flag=True, help="A directory with all that is in it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@style_options
@access_options
def rm(*, location: Location, recursive: bool, yes: bool, style: Style, access: Access) -> None:
    """Delete a file, or the checkpoint of a query that is over, with its claim.

    What was there can be read, restored and forked as of a moment before for as long as the past is kept.

    \b
    sos-journal rm -r sos://payments/q1 --service s:7420
    """
    run_async(_rm, location, (recursive, yes), style, access)


async def _rm(location: Location, options: tuple[bool, bool], style: Style, access: Access) -> None:
    recursive, yes = options
    async with open_service(access, location.volume) as volume:
        status = await _status(volume, location.path, recursive=recursive)
        if (
            status is not None
            and status.is_directory
            and not recursive
            and (await volume.list(location.path, limit=1)).entries
        ):
            raise refused(JournalCode.NOT_EMPTY, f"{location} is not empty: -r deletes it with all that is in it")
        found = [one for one in await all_claims(volume) if _concerns(one, location.path)]
        if not yes:
            shown = printable(str(location))
            ask(found, f"If these applications are over: delete {shown}?" if found else f"Delete {shown}?", style)
        claim = max((one.claim for one in found), default=None)  # a driver that claims it meanwhile keeps it
        operation = volume.new_operation()
        if not await volume.delete(location.path, recursive=recursive, operation=operation, claim=claim):
            raise refused(JournalCode.NOT_FOUND, f"there is nothing at {location}")
    if style.json:
        print_json({"deleted": location.path, "claims": [one.path for one in found]})
    else:
        click.echo(f"deleted {printable(str(location))}")


async def _status(volume: WholeVolume, path: str, *, recursive: bool) -> FileStatus | None:
    """None where a shard may have something that no listing shows: a rename was cut short."""
    try:
        return await volume.stat(path)
    except JournalError as error:
        if error.code is not JournalCode.NOT_FOUND or not (recursive and isinstance(volume, ShardedVolume)):
            raise
    return None


def _concerns(one: ClaimedPath, path: str) -> bool:
    return is_within(one.path, path) or is_within(path, one.path)
