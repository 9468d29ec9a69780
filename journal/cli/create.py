"""`sos-journal create`."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from journal.cli.locations import Location, LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.output import print_json
from journal.cli.running import run_async
from journal.errors import JournalCode, refused
from journal.records.settings import JournalSettings, Surroundings
from journal.takeover.volume_creation import create_volume
from sos_client.printable import printable

_AGE: Final = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_SIZE: Final = re.compile(r"(\d{1,9})([KMGT]?)(?:iB|B)?", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_BYTES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Age(click.ParamType[int]):
    """For click: a length of time in seconds."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _AGE.fullmatch(str(value))
        if match is None:
            self.fail(f"{str(value)[:100]!a} is no length of time: write 90s, 30m, 12h or 7d", param, ctx)
        return int(match[1]) * _SECONDS[match[2]]


class Size(click.ParamType[int]):
    """For click: a number of bytes."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _SIZE.fullmatch(str(value))
        if match is None:
            self.fail(f"{str(value)[:100]!a} is no size: write 500M, 20G or a number of bytes", param, ctx)
        return int(match[1]) * _BYTES[match[2]]


@click.command()
@click.argument("location", metavar="VOLUME", type=LocationType())
@click.option("-k", "--acknowledgements", type=click.IntRange(1, 15), help="How many must sync (default: a majority).")
@click.option("--keep-for", type=Age(), default=None, help="Keep the past for so long, e.g. 7d (default: for ever).")
@click.option("--keep-bytes", type=Size(), default=None, help="Keep no more of the past than this, e.g. 20G.")
@style_options
@access_options
def create(
    *,
    location: Location,
    acknowledgements: int | None,
    keep_for: int | None,
    keep_bytes: int | None,
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
    settings = JournalSettings(retention_seconds=keep_for or 0, retention_bytes=keep_bytes or 0)
    run_async(_create, location, acknowledgements, settings, style, access)


async def _create(
    location: Location, acknowledgements: int | None, settings: JournalSettings, style: Style, access: Access
) -> None:
    header = await create_volume(
        location.volume,
        access.servers,
        acknowledgements=acknowledgements,
        surroundings=Surroundings(token=access.token, tls=access.tls, insecure=access.insecure),
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
