"""`sos-journal cat`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, at_option, style_options
from journal.cli.views import open_view
from sos_client.command.output import print_json
from sos_client.command.running import run_async

if TYPE_CHECKING:
    from journal.records.location import Location


@click.command()
@click.argument("locations", metavar="sos://VOLUME/path…", type=LocationType(), nargs=-1, required=True)
@at_option
@style_options
@access_options
def cat(*, locations: tuple[Location, ...], at: str, style: Style, access: Access) -> None:
    """Print files, now or at any moment that is kept. With --json, text and bytes in hexadecimal.

    \b
    sos-journal cat sos://payments/q1/offsets/41
    sos-journal cat sos://payments/q1/metadata --at 2026-05-01T12:30 --dir /var/lib/sos-journal
    """
    run_async(_cat, locations, at, style, access)


async def _cat(locations: tuple[Location, ...], at: str, style: Style, access: Access) -> None:
    output = sys.stdout.buffer
    for location in locations:
        async with open_view(access, location, at, style) as view:
            collected = []
            async for piece in view.read(location.path):
                if style.json:
                    collected.append(piece)
                else:
                    output.write(piece)
        if style.json:
            data = b"".join(collected)
            print_json({"path": location.path, "size": len(data), **_content(data)})
    output.flush()


def _content(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"hex": data.hex()}
