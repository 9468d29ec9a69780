"""`sos-journal claims`: who has claimed which checkpoint; ending the claims of applications that are over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.views import open_service
from journal.errors import JournalCode, refused
from journal.gateway.wire.answer_checks import Kept
from journal.records.paths import is_within
from sos_client.command.output import ago_text, print_json, print_table, time_text
from sos_client.command.running import confirm, run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from journal.gateway.client.opening import WholeVolume
    from journal.records.location import Location
    from journal.volume import ClaimedPath


@click.group()
def claims() -> None:
    """Show which driver has claimed which checkpoint, or end claims of drivers that are over.

    A claim keeps everybody else from changing the checkpoint, so that a driver that was thought dead cannot. It ends
    with its path; released, the path can be deleted, moved or written by others.

    \b
    sos-journal claims list sos://payments --service s:7420
    sos-journal claims release sos://payments/q1 --service s:7420
    """


@claims.command("list")
@click.argument("location", type=LocationType())
@style_options
@access_options
def list_claims(*, location: Location, style: Style, access: Access) -> None:
    """The claims at the path and below.

    \b
    sos-journal claims list sos://payments --service s:7420
    """
    run_async(_list, location, style, access)


async def _list(location: Location, style: Style, access: Access) -> None:
    async with open_service(access, location.volume) as volume:
        found = [one for one in await all_claims(volume) if is_within(one.path, location.path)]
    if style.json:
        for one in found:
            print_json(_as_json(one))
    else:
        print_table(("PATH", "APPLICATION", "STARTED"), [_row(one, style) for one in found])


@claims.command()
@click.argument("location", type=LocationType())
@click.option("--below", is_flag=True, help="The claims below the path, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@style_options
@access_options
def release(*, location: Location, below: bool, yes: bool, style: Style, access: Access) -> None:
    """End the claim on a path, once the application that has it is over.

    A query that still runs goes on, but another writer is not kept out any more. Drivers from before it are.

    \b
    sos-journal claims release sos://payments/q1 --service s:7420
    """
    run_async(_release, location, (below, yes), style, access)


async def _release(location: Location, options: tuple[bool, bool], style: Style, access: Access) -> None:
    below, yes = options
    async with open_service(access, location.volume) as volume:
        found = [
            one
            for one in await all_claims(volume)
            if one.path == location.path or (below and is_within(one.path, location.path))
        ]
        if not found:
            raise refused(JournalCode.NOT_FOUND, f"nobody has claimed {location}")
        if not yes:
            ask(found, "Only if these applications are over: release their claims?", style)
        for one in found:
            released = await volume.release(one.path, one.claim, operation=volume.new_operation())
            if style.json:
                print_json(_as_json(one) | {"released": released})
            else:
                click.echo(f"released {printable(one.path or '/')}")


async def all_claims(volume: WholeVolume) -> list[ClaimedPath]:
    """Every claim in force, in order of paths."""
    found: list[ClaimedPath] = []
    kept, more = Kept(what="the list of claims"), True
    while more:
        page = await volume.claims(after=found[-1].path if found else None)
        kept.add(one.path for one in page.claims)
        found += page.claims
        more = page.more
    return found


def ask(found: list[ClaimedPath], question: str, style: Style) -> None:
    """Show claims and ask; VerdictError unless the answer is yes."""
    for one in found:
        path, application, started = _row(one, style)
        click.echo(f"{path}: claimed by {application}, which started {started}", err=True)
    confirm(question)


def _row(one: ClaimedPath, style: Style) -> tuple[str, str, str]:
    claim = one.claim
    started = f"{time_text(claim.start_time, style.zone)}, {ago_text(claim.start_time, time.time_ns() // 1_000_000)}"
    return printable(one.path or "/"), printable(claim.application), started


def _as_json(one: ClaimedPath) -> dict[str, object]:
    return {"path": one.path, "application": one.claim.application, "start_time": one.claim.start_time}
