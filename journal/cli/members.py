"""`sos-journal members`: show them, add one, remove one, replace one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.views import in_each_journal, log_access, open_log
from journal.errors import JournalCode, refused
from journal.takeover.membership_change import Wish, change_members, find_member
from sos_client.command.output import print_json, print_table, progress
from sos_client.command.parameters import OneAddress
from sos_client.command.running import confirm, run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from journal.records.location import Location
    from journal.records.membership import Configuration
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
    async def show_one(journal: Location) -> None:
        async with open_log(access, journal.volume) as reader:
            _print(journal.volume, reader.header, style)

    access = await log_access(access, location.volume)
    await in_each_journal(access, location, show_one, heading=not style.json)


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

    async def count_left(journal: Location) -> int:
        async with open_log(access, journal.volume) as reader:
            configuration = reader.header.membership.configuration
        if journal == location:
            find_member(configuration, old)  # or there is nothing to ask about
        return len(configuration.members) - 1

    access = await log_access(access, location.volume)
    left = min(await in_each_journal(access, location, count_left))
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
    async def plan_one(journal: Location) -> bool:
        async with open_log(access, journal.volume) as reader:
            configuration = reader.header.membership.configuration
        if journal != location and _is_fulfilled(configuration, wish):
            _say_fulfilled(journal, style)
            return False
        leaving = None if wish.leaving is None else find_member(configuration, wish.leaving)
        if style.json:
            addresses = {"joining": wish.joining, "leaving": None if leaving is None else leaving.address}
            print_json({"volume": journal.volume} | addresses)
        else:
            old = "-" if leaving is None else f"{leaving.address} ({leaving.identity.hex()})"
            click.echo(printable(f"would change: joining {wish.joining or '-'}, leaving {old}"))
        return True

    access = await log_access(access, location.volume)
    _check_any(location, await in_each_journal(access, location, plan_one, heading=not style.json))


async def _carry_out(location: Location, wish: Wish, style: Style, access: Access) -> None:
    """In one shard after the other, where the volume is spread; who was cut short does it again."""

    async def change_one(journal: Location) -> bool:
        async with open_log(access, journal.volume) as reader:
            configuration = reader.header.membership.configuration
        if journal != location and _is_fulfilled(configuration, wish):
            _say_fulfilled(journal, style)
            return False
        with progress("filling the new member", None) as bar:
            header = await change_members(
                journal.volume, access.servers, wish, surroundings=access.surroundings, progress=bar.advance
            )
        _print(journal.volume, header, style)
        return True

    access = await log_access(access, location.volume)
    _check_any(location, await in_each_journal(access, location, change_one, heading=not style.json))


def _check_any(location: Location, changed: list[bool]) -> None:
    if not any(changed):
        message = f"the members of all shards of {location.volume} are so already: `members show` names them"
        raise refused(JournalCode.BAD_REQUEST, message)


def _is_fulfilled(configuration: Configuration, wish: Wish) -> bool:
    """Whether the members are as they would be afterwards."""
    known = {member.address for member in configuration.members}
    known |= {member.identity.hex() for member in configuration.members}
    return (wish.joining is None or wish.joining in known) and (wish.leaving is None or wish.leaving not in known)


def _say_fulfilled(journal: Location, style: Style) -> None:
    if not style.json:
        click.echo(f"{printable(journal.volume)} is so already")


def _print(volume: str, header: SegmentHeader, style: Style) -> None:
    configuration = header.membership.configuration
    if style.json:
        print_json(
            {
                "volume": volume,
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
