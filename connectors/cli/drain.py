"""`sos-connector drain`: a planned move. Sources are sent to another listener, and the one that had them ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import trio

from connectors.ingest import places
from connectors.ingest.drain_order import DrainOrder, drain_text
from connectors.ingest.recovery import VolumeFiles, check_format, not_ingest
from journal.cli.locations import LocationType
from journal.cli.options import access_options, style_options
from journal.cli.views import open_service
from journal.errors import JournalCode, JournalError, journal_error, refused
from journal.gateway.client.client import ClientSettings, open_volume
from sos_client.command.output import print_json
from sos_client.command.parameters import OneAddress
from sos_client.command.running import run_async
from sos_client.net.dialing import tcp_dial
from sos_client.wire.errors import SosError

if TYPE_CHECKING:
    from journal.cli.options import Access, Style
    from journal.records.location import Location

DIAL_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.3
END_SECONDS: Final = 60.0
"""How long the listener's end is waited for, unless --timeout says otherwise."""
EXAMPLES: Final = """\b
Examples:
  (on the new machine)  sos-connector listen --volume clicks … --listen 10.0.0.2:7431 --standby
  sos-connector drain clicks --to 10.0.0.2:7431 --service 10.0.0.1:7432"""


@click.command("drain", epilog=EXAMPLES)
@click.argument("location", metavar="VOLUME", type=LocationType())
@click.option("--to", "target", required=True, type=OneAddress(), help="Where the sources are sent.")
@style_options
@access_options
def drain_command(*, location: Location, target: str, style: Style, access: Access) -> None:
    """Send all sources of a listener to another one, and end it when what has come is durable.

    Start the other one before, with --standby on the same volume: it takes the volume over at once. The listener that
    is drained ends with exit code 0; whoever starts it again should do so with --standby.

    Sources of this project go there by themselves. Wallaroo's client ends when it is sent elsewhere (RESTART), and
    has to be started again with the new address.
    """
    run_async(_drain, location.volume, target, style, access)


async def _drain(volume: str, target: str, style: Style, access: Access) -> None:
    timeout = END_SECONDS if access.timeout is None else access.timeout
    await _check_there(target)
    async with open_service(access, volume) as service:
        try:
            await check_format(VolumeFiles(service), volume)
        except JournalError as error:
            raise not_ingest(volume) if error.code is JournalCode.NOT_FOUND else error from None
        epoch = service.epoch
        order = drain_text(DrainOrder(epoch=epoch, address=target))
        await service.put(places.DRAIN, order, overwrite=True, operation=service.new_operation())
    with trio.move_on_after(timeout):
        await _ended(volume, epoch, access)
        if style.json:
            print_json({"volume": volume, "epoch": epoch, "to": target})
        else:
            click.echo(f"the listener of {volume} has sent its sources to {target} and given the volume back")
        return
    message = f"the listener of {volume} still serves it after {timeout:g} s; it has been told to end"
    raise journal_error(JournalCode.UNAVAILABLE, message)


async def _check_there(target: str) -> None:
    """Nobody is sent to where nobody is."""
    try:
        with trio.fail_after(DIAL_SECONDS):
            stream = await tcp_dial(None)(target)
    except (OSError, trio.TooSlowError, SosError) as error:
        raise refused(
            JournalCode.BAD_REQUEST, f"nobody listens at {target}: start the other listener first, with --standby"
        ) from error
    await trio.aclose_forcefully(stream)


async def _ended(volume: str, epoch: int, access: Access) -> None:
    """Return when the owner of this epoch does not answer any more."""
    while await _serves(volume, epoch, access):  # noqa: ASYNC110 (another process)
        await trio.sleep(LOOK_SECONDS)


async def _serves(volume: str, epoch: int, access: Access) -> bool:
    """Whether the owner of this epoch still answers."""
    try:
        async with open_volume(
            access.services,
            volume,
            token=access.to_services.token,
            tls=access.to_services.tls,
            insecure=access.to_services.insecure,
            client_name="sos-connector",
            settings=ClientSettings(seconds=1.0),
        ) as service:
            await service.stat("")
            return service.epoch == epoch
    except JournalError as error:
        if error.code is JournalCode.DENIED:
            raise
        return False
