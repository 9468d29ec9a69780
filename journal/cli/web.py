"""`sos-journal web`."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

import click
import trio
from prometheus_client import CollectorRegistry

from journal.cli.locations import LocationType
from journal.cli.options import Access, access_options
from journal.cli.views import LogView, log_access
from journal.copies.copies import open_member_copy
from journal.errors import JournalCode, refused
from journal.shards.finding import find_shards
from journal.web.servers_source import ServersSource
from journal.web.servers_watch import ServersWatch
from sos_client.command.running import run_async
from sos_client.net.addresses import Address, parse_address
from sos_client.serving.access import AccessRules
from sos_client.serving.event_log import EventLog, Level
from sos_client.settings import SettingsError
from sos_client.web.endpoint import WebEndpoint

if TYPE_CHECKING:
    from journal.copies.volume_reader import VolumeReader
    from journal.image.image import Image
    from journal.records.location import Location


@click.command()
@click.argument("location", metavar="VOLUME", type=LocationType())
@click.option(
    "--listen", default="127.0.0.1:7480", show_default=True, metavar="HOST:PORT", help="On this machine only; 0 picks."
)
@access_options
def web(*, location: Location, listen: str, access: Access) -> None:
    """Serve the page of a volume from its servers alone, until interrupted: also when no service runs.

    A service has a page of its own, which knows more: `sos-journal serve --web`.

    \b
    sos-journal web payments --servers a:7400,b:7400,c:7400
    """
    if location.path:
        raise refused(JournalCode.BAD_REQUEST, f"{location} is a path: the page is of a volume")
    address = parse_address(listen, what="--listen")
    if not address.loopback:
        raise SettingsError(f"{address} can be reached from other machines: listen on 127.0.0.1, and use ssh -L")
    run_async(_web, location.volume, address, access)


async def _web(volume: str, address: Address, access: Access) -> None:
    access = await log_access(access, volume)
    if not access.servers:
        raise refused(JournalCode.BAD_REQUEST, "say where the servers are: --servers HOST:PORT,HOST:PORT,…")
    shards = await find_shards(volume, servers=access.servers, directory=None, surroundings=access.surroundings)

    def watch(journal: str) -> ServersWatch:
        shown = access.to_servers
        opening = partial(open_member_copy, volume=journal, token=shown.token, tls=shown.tls, insecure=shown.insecure)
        return ServersWatch(journal, access.servers, open_copy=opening)

    def view_of(reader: VolumeReader, image: Image) -> LogView:
        return LogView(reader, image)

    servers = ",".join(access.servers)
    source = ServersSource(
        volume,
        [watch(shard.name) for shard in shards] or [watch(volume)],
        shards=shards,
        view_of=view_of,
        address=servers,
        place=f"--servers {shlex.quote(servers)}",
    )
    log = EventLog(least=Level.ERROR)
    endpoint = WebEndpoint(address, source, CollectorRegistry(), access=AccessRules(None), log=log, tls=None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.run)
        click.echo(f"the page of {volume}: {endpoint.url}")
        await endpoint.serve()
