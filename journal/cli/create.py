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
from journal.records.shards import SHARDS_MAX, parse_shard, shards_of
from journal.takeover.volume_creation import check_name_is_free, create_shards, create_volume
from sos_client.command.output import print_json
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from journal.records.location import Location
    from journal.records.segment import SegmentHeader


@click.command()
@click.argument("location", metavar="VOLUME", type=LocationType())
@click.option("-k", "--acknowledgements", type=click.IntRange(1, 15), help="How many must sync (default: a majority).")
@retention_options(otherwise="without limit")
@click.option("--shards", type=click.IntRange(2, SHARDS_MAX), help="Spread it over this many journals.")
@style_options
@access_options
def create(
    *,
    location: Location,
    acknowledgements: int | None,
    retention: Retention | None,
    shards: int | None,
    style: Style,
    access: Access,
) -> None:
    """Make a volume. Every server named becomes a member; all must answer, none may have it yet.

    With --shards it is spread over so many journals, each with a service (`serve --shards`): state by partition. The
    number stays; `fork --shards` makes a copy with another.

    \b
    sos-journal create payments --servers a:7400,b:7400,c:7400
    sos-journal create payments --servers a:7400,b:7400,c:7400 --keep-for 7d --keep-bytes 20G
    sos-journal create payments --servers a:7400,b:7400,c:7400 --shards 2
    """
    if location.path:
        raise refused(JournalCode.BAD_REQUEST, f"{location} is a path: a volume is made by its name alone")
    if not access.servers:
        raise refused(JournalCode.BAD_REQUEST, "say which servers shall keep it: --servers HOST:PORT,HOST:PORT,…")
    settings = JournalSettings(retention=retention or Retention())
    if shards is not None:
        run_async(_create_shards, location, shards, acknowledgements, settings, style, access)
        return
    if parse_shard(location.volume) is not None:
        raise refused(JournalCode.BAD_REQUEST, f"{location.volume} is the name of a shard: those are made by --shards")
    run_async(_create, location, acknowledgements, settings, style, access)


async def _create_shards(
    location: Location, count: int, needed: int | None, settings: JournalSettings, style: Style, access: Access
) -> None:
    header = await create_shards(
        location.volume,
        count,
        access.servers,
        acknowledgements=needed,
        surroundings=access.surroundings,
        settings=settings,
    )
    names = [shard.name for shard in shards_of(location.volume, count)]
    if style.json:
        print_json(_as_json(location, header) | {"shards": names})
        return
    click.echo(f"made volume {location.volume}, spread over {count} shards: {', '.join(names)}")
    click.echo(f"serve them with: sos-journal serve --volume {location.volume} --shards {count} …")


async def _create(
    location: Location, acknowledgements: int | None, settings: JournalSettings, style: Style, access: Access
) -> None:
    await check_name_is_free(location.volume, access.servers, access.surroundings)
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
        print_json(_as_json(location, header))
        return
    click.echo(f"made volume {location.volume}: a write is acknowledged when {needed} of {len(members)} have synced it")
    for member in members:
        click.echo(f"  {printable(member.address)}  {member.identity.hex()}")
    if len(members) == 1:
        click.echo("with one member it does not survive the loss of that server")


def _as_json(location: Location, header: SegmentHeader) -> dict[str, object]:
    configuration = header.membership.configuration
    return {
        "volume": location.volume, "volume_id": header.volume_id.hex(),
        "members": [member.address for member in configuration.members],
        "acknowledgements": configuration.acknowledgements, "epoch": header.epoch,
    }  # fmt: skip
