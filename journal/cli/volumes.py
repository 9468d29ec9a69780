"""`sos-journal volumes`: which volumes servers have; taking one away for good."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click
import trio

from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.views import log_access, open_service
from journal.copies.copies import open_member_copy
from journal.copies.volume_listing import KeptVolume, find_volumes
from journal.copies.volume_reader import open_reader
from journal.errors import ConversationError, JournalCode, JournalError, refused
from journal.records.shards import HOME, parse_shard, shards_of
from journal.shards.finding import find_shards
from journal.takeover.owner_board import ServerBoard
from journal.takeover.volume_removal import Removal, remove_volume, stock_of
from sos_client.command.output import count_text, duration_text, note, print_json, print_table, progress, size_text
from sos_client.command.running import finish, run_async
from sos_client.printable import printable
from sos_client.serving.event_log import EventLog, Level
from sos_client.wire.errors import ErrorCode, ExitCode, RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from journal.records.location import Location
    from journal.takeover.volume_removal import Stock

_SERVED_SECONDS: Final = 1.5
"""A service that has the volume says so sooner."""


@click.group()
def volumes() -> None:
    """Show which volumes servers have, or delete one for good.

    \b
    sos-journal volumes list --servers a:7400,b:7400,c:7400
    sos-journal volumes drop payments --servers a:7400,b:7400,c:7400
    """


@volumes.command("list")
@style_options
@access_options
def list_volumes(*, style: Style, access: Access) -> None:
    """The volumes that the token may read, and who served each last.

    Exits with 12 if a server did not answer.

    \b
    sos-journal volumes list --servers a:7400,b:7400,c:7400
    """
    if not access.servers:
        raise refused(JournalCode.BAD_REQUEST, "say which servers to ask: --servers HOST:PORT,HOST:PORT,…")
    run_async(_list, style, access)


async def _list(style: Style, access: Access) -> None:
    listing = await find_volumes(access.servers, access.surroundings)
    if len(listing.silent) == len(access.servers):
        raise next(iter(listing.silent.values()))
    for address, error in listing.silent.items():
        note(f"warning: {address}: {_why_silent(error).removeprefix(f'{address}: ')}")
    if listing.unreadable:
        hidden = count_text(len(listing.unreadable), "namespace")
        note(f"{hidden} may not be read with this token, and may have volumes, too")
    rows = []
    for volume in as_volumes(listing.volumes):
        served = ",".join([await _last_served(one.name, one.servers, access) or "-" for one in volume.journals])
        if style.json:
            print_json(_as_json(volume, "" if served == "-" else served))
        rows.append(_row(volume, served, asked=len(access.servers)))
    if not style.json:
        print_table(("VOLUME", "SERVERS", "STORED", "EPOCH", "LAST SERVED AT"), rows, right=(2, 3))
    finish(ExitCode.WARNING if listing.silent else ExitCode.DONE)


def _why_silent(error: Exception) -> str:
    if isinstance(error, RefusedError) and error.code is ErrorCode.NOT_FOUND:
        return "it is too old to say which namespaces it has"
    return str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVolume:
    """A volume as its user knows it: one journal, or all shards of one that is spread, in order."""

    name: str
    journals: tuple[KeptVolume, ...]

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(server for one in self.journals for server in one.servers))

    @property
    def stored_bytes(self) -> int:
        return sum(one.stored_bytes for one in self.journals)


def as_volumes(kept: Sequence[KeptVolume]) -> list[ListedVolume]:
    """Shards of which all are there become one; what is left of others is listed by its names."""
    by_name = {one.name: one for one in kept}
    found: list[ListedVolume] = []
    for one in kept:
        shard = parse_shard(one.name)
        names = [each.name for each in shards_of(shard.volume, shard.count)] if shard else [one.name]
        if shard is None or not by_name.keys() >= set(names):
            found.append(ListedVolume(name=one.name, journals=(one,)))
        elif shard.index == HOME:
            found.append(ListedVolume(name=shard.volume, journals=tuple(by_name[name] for name in names)))
    return sorted(found, key=lambda volume: volume.name)


def _row(volume: ListedVolume, served: str, *, asked: int) -> tuple[str, ...]:
    shards = f" ({len(volume.journals)} shards)" if len(volume.journals) > 1 else ""
    having = f"{len(volume.servers)} of {asked}"
    epochs = ",".join(str(one.epoch) for one in volume.journals)
    return f"{printable(volume.name)}{shards}", having, size_text(volume.stored_bytes), epochs, printable(served)


def _as_json(volume: ListedVolume, served: str) -> dict[str, object]:
    """The epoch of a volume that is spread is HOME's."""
    return {
        "volume": volume.name,
        "servers": list(volume.servers),
        "stored_bytes": volume.stored_bytes,
        "epoch": volume.journals[HOME].epoch,
        "last_served_at": served or None,
        **({"shards": [one.name for one in volume.journals]} if len(volume.journals) > 1 else {}),
    }


async def _last_served(volume: str, servers: tuple[str, ...], access: Access) -> str:
    """Where its last owner served it; empty if that one gave it back, or nothing was written down."""
    shown = access.to_servers
    board = ServerBoard(
        servers=servers,
        address="",
        log=EventLog(least=Level.ERROR),
        token=shown.token,
        tls=shown.tls,
        insecure=shown.insecure,
    )
    _, address = await board.look_up(volume)
    return address or ""


@volumes.command()
@click.argument("location", metavar="VOLUME", type=LocationType())
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@style_options
@access_options
def drop(*, location: Location, dry_run: bool, yes: bool, style: Style, access: Access) -> None:
    """Delete a volume with all its past from its servers. Only a backup brings it back.

    Its service must have been stopped. The token needs the rights fence, append and delete.

    \b
    sos-journal volumes drop payments --servers a:7400,b:7400,c:7400

    Exits with 12 if a server keeps a part for now (storage.retention_seconds), or one that was not named has a copy.
    """
    if location.path:
        raise refused(JournalCode.BAD_REQUEST, f"{location} is a path: `sos-journal rm -r` deletes what is in a volume")
    run_async(_drop, location, (dry_run, yes), style, access)


async def _drop(location: Location, options: tuple[bool, bool], style: Style, access: Access) -> None:
    dry_run, yes = options
    volume, access = location.volume, await log_access(access, location.volume)
    if not access.servers:
        raise refused(JournalCode.BAD_REQUEST, "a directory is deleted with rm: name the servers with --servers")
    stocks = await _stocks(volume, access)
    left = sorted({address for journal in stocks for address in await _members_not_named(journal, access)})
    for address in left:
        note(f"warning: {address} is a member, too, and was not named: it keeps its copy")
    for journal, stock in stocks.items():
        served = await _last_served(journal, tuple(one.server for one in stock), access)
        if served and await _is_served(journal, served, access):
            message = f"volume {journal} is served at {served}: stop that service first (and its standbys)"
            raise refused(JournalCode.CHANGED, message)
    every = [one for stock in stocks.values() for one in stock]
    if dry_run:
        _report(volume, every, None, style)
        return
    if not yes:
        _ask(volume, every)
    removal = Removal()
    with progress("deleting", sum(one.stored_bytes for one in every)) as bar:
        for journal in stocks:
            done = await remove_volume(journal, access.servers, surroundings=access.surroundings, progress=bar.advance)
            removal.add(done)
    _report(volume, every, removal, style)
    finish(ExitCode.WARNING if removal.kept or left else ExitCode.DONE)


async def _stocks(volume: str, access: Access) -> dict[str, list[Stock]]:
    """Of each journal, HOME last: as long as that is there, the volume can be found, and dropped to its end."""
    shards = await find_shards(volume, servers=access.servers, directory=None, surroundings=access.surroundings)
    stocks = {}
    for name in [shard.name for shard in reversed(shards)] or [volume]:
        try:
            stocks[name] = await stock_of(name, access.servers, surroundings=access.surroundings)
        except JournalError as error:
            if error.code is not JournalCode.VOLUME_NOT_FOUND or name in (volume, *(one.name for one in shards[:1])):
                raise
    return stocks


async def _members_not_named(volume: str, access: Access) -> list[str]:
    """As far as the log says who the members are; one that cannot be read may be dropped, too."""
    for address in access.servers:
        shown = access.to_servers
        try:
            async with open_member_copy(
                address, volume, token=shown.token, tls=shown.tls, insecure=shown.insecure
            ) as copy:
                reader = await open_reader(volume, [copy])
        except JournalError:
            continue
        known = {*access.servers}
        return [one.address for one in reader.header.membership.members if one.address not in known]
    note(f"warning: the log of {volume} cannot be read: whether it has other members is not known")
    return []


async def _is_served(volume: str, address: str, access: Access) -> bool:
    with trio.move_on_after(2 * _SERVED_SECONDS):
        try:
            async with open_service(_at(access, address), volume) as service:
                await service.describe()
        except ConversationError as error:  # it is there, and does not let this token in
            return error.code in (JournalCode.AUTH, JournalCode.DENIED)
        except JournalError:
            return False
        return True
    return False


def _at(access: Access, address: str) -> Access:
    return replace(access, services=(address,), timeout=_SERVED_SECONDS)


def _ask(volume: str, stock: list[Stock]) -> None:
    """The name has to be typed: a reflex must not delete a volume."""
    note(f"{_told(volume, stock)} will be deleted, with all the past. Only a backup brings that back.")
    said = click.prompt("Type the name of the volume to delete it", err=True, default="", show_default=False)
    if said != volume:
        raise refused(JournalCode.BAD_REQUEST, f"{said[:200]!a} is not its name: nothing was deleted")


def _told(volume: str, stock: list[Stock]) -> str:
    objects, size = sum(one.objects for one in stock), sum(one.stored_bytes for one in stock)
    where = ", ".join(dict.fromkeys(one.server for one in stock))
    return printable(f"volume {volume}: {count_text(objects, 'object')}, {size_text(size)} on {where}")


def _report(volume: str, stock: list[Stock], removal: Removal | None, style: Style) -> None:
    if style.json:
        print_json(
            {
                "volume": volume,
                "dry_run": removal is None,
                "servers": list(dict.fromkeys(one.server for one in stock)),
                "objects": sum(one.objects for one in stock) if removal is None else removal.objects,
                "bytes": sum(one.stored_bytes for one in stock) if removal is None else removal.stored_bytes,
                "kept_objects": 0 if removal is None else sum(removal.kept.values()),
                "kept_seconds": 0 if removal is None else removal.seconds,
            }
        )
        return
    if removal is None:
        click.echo(f"would delete {_told(volume, stock)}")
        return
    objects, servers = count_text(removal.objects, "object"), count_text(len(removal.servers), "server")
    click.echo(f"deleted {objects}, {size_text(removal.stored_bytes)}, on {servers}")
    for address, count in removal.kept.items():
        when = duration_text(removal.seconds * 1000)
        what = f"{printable(address)} keeps {count_text(count, 'object')} for {when} (storage.retention_seconds)"
        click.echo(f"{what}: do it again then")
