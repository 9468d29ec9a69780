"""`sos-journal diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, moment_of, style_options
from journal.cli.views import image_of, open_whole_log
from journal.errors import JournalError
from sos_client.command.output import BAD, DOUBTFUL, GOOD, print_json, print_table, size_text
from sos_client.command.running import finish, run_async
from sos_client.printable import printable
from sos_client.wire.errors import ExitCode

if TYPE_CHECKING:
    from journal.image.image import Image
    from journal.image.nodes import Extent
    from journal.records.location import Location

_COLOURS = {"added": GOOD, "removed": BAD, "changed": DOUBTFUL}


@click.command()
@click.argument("location", type=LocationType())
@click.argument("before", metavar="MOMENT")
@click.argument("after", metavar="[MOMENT]", default="now")
@click.option("--exit-code", is_flag=True, help="Exit with 4 if there is a difference.")
@style_options
@access_options
def diff(*, location: Location, before: str, after: str, exit_code: bool, style: Style, access: Access) -> None:
    """Say which files differ between two moments.

    \b
    sos-journal diff sos://payments/q1 batch:40 batch:41
    sos-journal diff payments 1h now --json
    """
    run_async(_diff, location, before, after, exit_code, style, access)


async def _diff(location: Location, before: str, after: str, exit_code: bool, style: Style, access: Access) -> None:  # noqa: FBT001
    async with open_whole_log(access, location.volume) as reader:
        images = [await image_of(reader, moment_of(text, style), path=location.path) for text in (before, after)]
    old, new = (_files(image, location.path) for image in images)
    changes = []
    for path in sorted(old.keys() | new.keys()):
        was, is_now = old.get(path), new.get(path)
        if not _same(was, is_now):
            what = "added" if was is None else "removed" if is_now is None else "changed"
            changes.append((what, path, _size(was), _size(is_now)))
    if style.json:
        for what, path, size_before, size_after in changes:
            print_json({"what": what, "path": path, "size_before": size_before, "size_after": size_after})
    else:
        rows = [
            (click.style(what, fg=_COLOURS[what]), _shown(size_before), _shown(size_after), printable(path))
            for what, path, size_before, size_after in changes
        ]
        print_table(("WHAT", "BEFORE", "AFTER", "PATH"), rows, right=(1, 2))
    if changes and exit_code:
        finish(ExitCode.CONFLICT)


def _files(image: Image, path: str) -> dict[str, tuple[Extent, ...]]:
    try:
        statuses = list(image.tree.walk(path))
    except JournalError:
        return {}  # the path did not exist at that moment: everything is added or removed
    return {status.path: image.tree.extents(status.path) for status in statuses if not status.is_directory}


def _same(one: tuple[Extent, ...] | None, other: tuple[Extent, ...] | None) -> bool:
    """Equal places are equal bytes; so are equal lengths and CRCs, piece by piece (a file that was copied forward)."""
    if one is None or other is None:
        return one is other
    return one == other or [(e.length, e.crc) for e in one] == [(e.length, e.crc) for e in other]


def _size(extents: tuple[Extent, ...] | None) -> int | None:
    return None if extents is None else sum(extent.length for extent in extents)


def _shown(size: int | None) -> str:
    return "-" if size is None else size_text(size)
