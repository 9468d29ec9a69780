"""`sos-journal create`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.retention_options import retention_options
from journal.errors import JournalCode, refused
from journal.kept_past import Retention
from journal.records.settings import JournalSettings
from journal.takeover.volume_creation import create_volume
from sos_client.command.output import print_json
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from journal.records.location import Location


@click.command()
@click.argument("location", metavar="VOLUME", type=LocationType())
@click.option("-k", "--acknowledgements", type=click.IntRange(1, 15), help="How many must sync (default: a majority).")
@retention_options(otherwise="without limit")
@style_options
@access_options
def create(
    *,
    location: Location,
    acknowledgements: int | None,
    retention: Retention | None,
    style: Style,
    access: Access,
) -> None:
    """Make a volume. Every server named becomes a member; all must answer, none may have it yet.

    \b
    sos-journal create payments --servers a:7400,b:7400,c:7400
    sos-journal create payments --servers a:7400,b:7400,c:7400 --keep-for 7d --keep-bytes 20G
    """
    if location.path:
        raise refused(JournalCode.BAD_REQUEST, f"{location} is a path: a volume is made by its name alone")
    if not access.servers:
        raise refused(JournalCode.BAD_REQUEST, "say which servers shall keep it: --servers HOST:PORT,HOST:PORT,…")
    settings = JournalSettings(retention=retention or Retention())
    run_async(_create, location, acknowledgements, settings, style, access)


async def _create(
    location: Location, acknowledgements: int | None, settings: JournalSettings, style: Style, access: Access
) -> None:
    header = await create_volume(
        location.volume,
        access.servers,
        acknowledgements=acknowledgements,
        surroundings=access.surroundings,
        settings=settings,
    )
    configuration = header.membership.configuration
    members, needed = configuration.members, configuration.acknowledgements
    if style.json:
        addresses = [member.address for member in members]
        print_json({
            "volume": location.volume, "volume_id": header.volume_id.hex(), "members": addresses,
            "acknowledgements": needed, "epoch": header.epoch,
        })  # fmt: skip
        return
    click.echo(f"made volume {location.volume}: a write is acknowledged when {needed} of {len(members)} have synced it")
    for member in members:
        click.echo(f"  {printable(member.address)}  {member.identity.hex()}")
    if len(members) == 1:
        click.echo("with one member it does not survive the loss of that server")
