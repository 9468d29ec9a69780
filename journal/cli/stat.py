"""`sos-journal stat`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from journal.cli.locations import LocationType
from journal.cli.ls import status_json
from journal.cli.options import Access, Style, access_options, at_option, style_options
from journal.cli.views import LogView, as_of_json, as_of_text, open_view
from sos_client.command.output import ago_text, print_json, print_pairs, size_text, time_text
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from journal.records.location import Location


@click.command()
@click.argument("location", type=LocationType())
@at_option
@style_options
@access_options
def stat(*, location: Location, at: str, style: Style, access: Access) -> None:
    """Say what is known of a path.

    From the log also where its bytes lie.

    \b
    sos-journal stat sos://payments/q1/offsets/41 --servers a:7400,b:7400,c:7400
    """
    run_async(_stat, location, at, style, access)


async def _stat(location: Location, at: str, style: Style, access: Access) -> None:
    async with open_view(access, location, at, style) as view:
        status = await view.stat(location.path)
        extents = []
        if isinstance(view, LogView) and not status.is_directory:
            extents = [
                {"object": e.object, "offset": e.offset, "length": e.length, "crc32c": f"{e.crc:08x}"}
                for e in view.image.tree.extents(location.path)
            ]
    if style.json:
        print_json(status_json(status) | {"lsn": view.lsn, "extents": extents} | as_of_json(view.moments))
        return
    pairs = [
        ("path", printable(str(location))),
        ("kind", "directory" if status.is_directory else "file"),
        ("size", f"{size_text(status.size)} ({status.size} bytes)"),
        ("modified", f"{time_text(status.modified_ms, style.zone)}, {ago_text(status.modified_ms, _now_ms())}"),
    ]
    if status.crc is not None:
        pairs.append(("crc32c", f"{status.crc:08x}"))
    if len(view.moments) == 1:
        pairs.append(("as of LSN", str(view.lsn)))
    elif view.moments:
        pairs.append(("as of", as_of_text(view.moments)))
    pairs += [("extent", f"{e['length']} bytes at {e['offset']} of {e['object']}") for e in extents]
    print_pairs(pairs)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
