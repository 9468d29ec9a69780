"""`sos-journal members`: show them, add one, remove one, replace one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.views import log_access, open_log
from journal.takeover.membership_change import Wish, change_members, find_member
from sos_client.command.output import print_json, print_table, progress
from sos_client.command.parameters import OneAddress
from sos_client.command.running import confirm, run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from journal.records.location import Location
    from journal.records.segment import SegmentHeader


@click.group()
def members() -> None:
    """Show or change the SOS servers that keep a volume.

    One at a time. The service pauses for a moment while members change: it takes the volume over again, and its
    clients wait.

    \b
    sos-journal members show payments --servers a:7400,b:7400,c:7400
    sos-journal members replace payments c:7400 d:7400 --servers a:7400,b:7400
    """


@members.command()
@click.argument("location", metavar="VOLUME", type=LocationType())
@style_options
@access_options
def show(*, location: Location, style: Style, access: Access) -> None:
    """Who keeps the volume, as its newest header says.

    \b
    sos-journal members show payments --servers a:7400,b:7400,c:7400
    """
    run_async(_show, location, style, access)


async def _show(location: Location, style: Style, access: Access) -> None:
    async with open_log(access, location.volume) as reader:
        _print(reader.header, style)


@members.command()
@click.argument("location", metavar="VOLUME", type=LocationType())
@click.argument("new", metavar="HOST:PORT", type=OneAddress())
@click.option("--dry-run", is_flag=True, help="Say what would change.")
@style_options
@access_options
def add(*, location: Location, new: str, dry_run: bool, style: Style, access: Access) -> None:
    """Let one more server keep the volume.

    \b
    sos-journal members add payments d:7400 --servers a:7400,b:7400,c:7400
    """
    _change(location, Wish(joining=new), dry_run=dry_run, style=style, access=access)


@members.command()
@click.argument("location", metavar="VOLUME", type=LocationType())
@click.argument("old", metavar="HOST:PORT|IDENTITY")
@click.option("--dry-run", is_flag=True, help="Say what would change.")
@click.option("--yes", is_flag=True, help="Do not ask when what is left may not lose a server.")
@style_options
@access_options
def remove(*, location: Location, old: str, dry_run: bool, yes: bool, style: Style, access: Access) -> None:
    """Let a server keep the volume no longer. Its copy stays where it is.

    \b
    sos-journal members remove payments c:7400 --servers a:7400,b:7400,c:7400
    """
    if not (dry_run or yes):
        run_async(_ask_if_thin, location, old, access)
    _change(location, Wish(leaving=old), dry_run=dry_run, style=style, access=access)


async def _ask_if_thin(location: Location, old: str, access: Access) -> None:
    """Two of two is less than it seems: the loss of either stops all writing."""
    async with open_log(access, location.volume) as reader:
        configuration = reader.header.membership.configuration
    find_member(configuration, old)  # or there is nothing to ask about
    left = len(configuration.members) - 1
    needed = left // 2 + 1
    if needed >= left:
        stops = f"{needed} of {left} must sync then, so the loss of any server stops all writing"
        confirm(f"{stops} (`members replace` keeps the number). Remove it?")


@members.command()
@click.argument("location", metavar="VOLUME", type=LocationType())
@click.argument("old", metavar="OLD_HOST:PORT|IDENTITY")
@click.argument("new", metavar="NEW_HOST:PORT", type=OneAddress())
@click.option("--dry-run", is_flag=True, help="Say what would change.")
@style_options
@access_options
def replace(*, location: Location, old: str, new: str, dry_run: bool, style: Style, access: Access) -> None:
    """Let another server take a server's place, which may be dead.

    \b
    sos-journal members replace payments c:7400 d:7400 --servers a:7400,b:7400
    """
    _change(location, Wish(joining=new, leaving=old), dry_run=dry_run, style=style, access=access)


def _change(location: Location, wish: Wish, *, dry_run: bool, style: Style, access: Access) -> None:
    run_async(_plan if dry_run else _carry_out, location, wish, style, access)


async def _plan(location: Location, wish: Wish, style: Style, access: Access) -> None:
    async with open_log(access, location.volume) as reader:
        configuration = reader.header.membership.configuration
        leaving = None if wish.leaving is None else find_member(configuration, wish.leaving)
    if style.json:
        print_json({"joining": wish.joining, "leaving": None if leaving is None else leaving.address})
    else:
        old = "-" if leaving is None else f"{leaving.address} ({leaving.identity.hex()})"
        click.echo(printable(f"would change: joining {wish.joining or '-'}, leaving {old}"))


async def _carry_out(location: Location, wish: Wish, style: Style, access: Access) -> None:
    access = await log_access(access, location.volume)
    with progress("filling the new member", None) as bar:
        header = await change_members(
            location.volume, access.servers, wish, surroundings=access.surroundings, progress=bar.advance
        )
    _print(header, style)


def _print(header: SegmentHeader, style: Style) -> None:
    configuration = header.membership.configuration
    if style.json:
        print_json(
            {
                "epoch": header.epoch,
                "acknowledgements": configuration.acknowledgements,
                "members": [
                    {"address": m.address, "identity": m.identity.hex(), "incarnation": m.incarnation.hex()}
                    for m in configuration.members
                ],
            }
        )
        return
    click.echo(f"epoch {header.epoch}, {configuration.acknowledgements} of {len(configuration.members)} must sync")
    rows = [(printable(m.address), m.identity.hex(), m.incarnation.hex()) for m in configuration.members]
    print_table(("ADDRESS", "SERVER", "INCARNATION"), rows)
