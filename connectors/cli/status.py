"""`sos-connector status`: streams, readers, connections of an ingest volume, and who waits for whom."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from connectors.cli.relay_status import show_relay
from connectors.ingest import places
from connectors.ingest.recovery import VolumeFiles, check_format, not_ingest, stored_log, stored_readers
from connectors.ingest.report import volume_report
from journal.cli.locations import LocationType
from journal.cli.options import access_options, style_options
from journal.cli.views import open_service, open_view
from journal.errors import JournalCode, JournalError
from journal.records.location import Location
from sos_client.command.output import (
    BAD,
    DOUBTFUL,
    count_text,
    duration_text,
    note,
    print_json,
    print_pairs,
    print_table,
    size_text,
    time_text,
)
from sos_client.command.parameters import OneAddress
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from connectors.ingest.recovery import IngestFiles
    from journal.cli.options import Access, Style
    from journal.gateway.client.opening import WholeVolume

ROWS_SHOWN: Final = 30
EXAMPLES: Final = """\b
Examples:
  sos-connector status clicks --service 127.0.0.1:7432
  sos-connector status clicks --service 127.0.0.1:7432 --json
  sos-connector status clicks --servers a:7400,b:7400,c:7400     (when no listener runs)
  sos-connector status --relay 127.0.0.1:7433"""


@click.command("status", epilog=EXAMPLES)
@click.argument("location", metavar="[VOLUME]", type=LocationType(), required=False)
@click.option("--relay", type=OneAddress(), help="Show a relay: transactions in doubt, and who is waited for.")
@click.option("--all", "everything", is_flag=True, help=f"All streams and connections, not only {ROWS_SHOWN}.")
@style_options
@access_options
def status_command(
    *, location: Location | None, relay: str | None, everything: bool, style: Style, access: Access
) -> None:
    """Show who sends, how far each stream is, who reads, how far behind, and who waits for whom.

    --service is what `listen` prints as `files`. Of connections, credits and waiting only the running listener knows;
    from the servers (--servers) or a backup (--dir) comes the rest.
    """
    if (location is None) == (relay is None):
        raise click.UsageError("name an ingest volume, or a relay: --relay HOST:PORT")
    if location is not None:
        run_async(_status, location.volume, everything, style, access)
    if relay is not None:
        run_async(partial(show_relay, relay, access, as_json=style.json))


async def _status(volume: str, everything: bool, style: Style, access: Access) -> None:  # noqa: FBT001
    report = await report_of(volume, style, access)
    if style.json:
        print_json(report)
    else:
        _show(report, style, ROWS_SHOWN if not everything else len(report["streams"]) + len(report["connections"]))


async def report_of(volume: str, style: Style, access: Access) -> dict[str, Any]:
    """From the running listener, or from what is stored. BAD_REQUEST for a volume that is not an ingest volume."""
    if access.services:
        async with open_service(access, volume) as service:
            live = await _live(service)
            return live if live is not None else await _stored(VolumeFiles(service), volume)
    async with open_view(access, Location(volume=volume, path=""), "now", style) as view:
        return await _stored(view, volume)


async def _live(service: WholeVolume) -> dict[str, Any] | None:
    """What the listener says; None when something else serves the volume."""
    try:
        content = b"".join([piece async for piece in service.read(places.STATUS)])
    except JournalError as error:
        if error.code is JournalCode.NOT_FOUND:
            return None
        raise
    report: dict[str, Any] = json.loads(content)
    return {"live": True, **report}


async def _stored(files: IngestFiles, volume: str) -> dict[str, Any]:
    try:
        await check_format(files, volume)
    except JournalError as error:
        raise not_ingest(volume) if error.code is JournalCode.NOT_FOUND else error from None
    stored, readers = await stored_log(files), await stored_readers(files)
    report = volume_report(
        volume=volume,
        files=list(stored.files.values()),
        next_sequence=stored.next_sequence,
        readers=readers,
        streams=stored.streams,
        in_use={},
    )
    return {"live": False, **report, "time_ms": time.time_ns() // 1_000_000}


def _show(report: dict[str, Any], style: Style, rows_max: int) -> None:
    messages = report["next_sequence"] - report["oldest_sequence"]
    pairs = [
        ("volume", report["volume"]),
        ("messages", f"{messages:,} kept, of {report['next_sequence']:,} that ever came"),
        ("log", size_text(report["log_bytes"])),
    ]
    if report["live"]:
        oldest = report["oldest_received_ms"]
        pairs += [
            ("listener", f"{report['listening']} (epoch {report['epoch']})"),
            ("oldest message", f"{report['oldest_sequence']:,}, received {time_text(oldest, style.zone)}"),
            ("waits to be written", size_text(report["waiting_bytes"])),
        ]
    print_pairs([(name, printable(value)) for name, value in pairs])
    if not report["live"]:
        note("no listener answered here: connections, credits and who waits are not known")
    for wait in report.get("waits", ()):
        click.secho(f"{wait['who']} wait for {printable(wait['for'])}", fg=DOUBTFUL)
    _show_readers(report, style)
    _show_connections(report.get("connections", []), rows_max)
    _show_streams(report, rows_max)


def _show_readers(report: dict[str, Any], style: Style) -> None:
    click.echo(f"\n{count_text(len(report['readers']), 'reader')}")
    rows = []
    for reader in report["readers"]:
        lost = reader["lost_messages"]
        rewind = click.style(f"{lost:,} LOST", fg=BAD) if lost else f"{reader['rewind_messages']:,}"
        ago = duration_text(max(0, report["time_ms"] - reader["written_ms"]))
        rows.append((
            printable(reader["name"]), f"{reader['next_sequence']:,}", f"{reader['lag_messages']:,}",
            size_text(reader["lag_bytes"]), rewind, f"{ago} ago",
        ))  # fmt: skip
    print_table(("READER", "NEXT", "LAG", "LAG BYTES", "REWIND", "COMMITTED"), rows, right=(1, 2, 3, 4, 5))


def _show_connections(connections: list[dict[str, Any]], rows_max: int) -> None:
    if connections:
        click.echo(f"\n{count_text(len(connections), 'connection')}")
    rows = [
        (
            printable(one["peer"]), printable(one["program"]), str(one["streams"]), f"{one['messages']:,}",
            str(one["credits"]), printable(one["waits_for"]) or "-",
        )
        for one in connections[:rows_max]
    ]  # fmt: skip
    print_table(("PEER", "PROGRAM", "STREAMS", "MESSAGES", "CREDITS", "WAITS FOR"), rows, right=(2, 3, 4))
    _say_left_out(len(connections), rows_max)


def _show_streams(report: dict[str, Any], rows_max: int) -> None:
    click.echo(f"\n{count_text(report['streams_known'], 'stream')}")
    rows = [
        (
            str(one["stream_id"]), printable(one["name"]),
            "-" if one["point_of_reference"] is None else str(one["point_of_reference"]), printable(one["peer"] or "-"),
        )
        for one in report["streams"][:rows_max]
    ]  # fmt: skip
    print_table(("STREAM", "NAME", "POINT OF REFERENCE", "OPEN AT"), rows, right=(0, 2))
    _say_left_out(report["streams_known"], rows_max)


def _say_left_out(count: int, rows_max: int) -> None:
    if count > rows_max:
        note(f"{count - rows_max:,} more (--all)")
