"""`sos-journal backup`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.pins import pinned
from journal.cli.views import in_each_journal, log_access, open_log, read_from
from journal.copies.backups import Backup, check_whole, wanted_objects
from journal.copies.copies import open_directory_copy
from journal.files.plain_tree import make_directories
from journal.records.shards import parse_shard
from journal.shards.whole_reader import settle
from sos_client.command.output import count_text, note, print_json, progress, size_text
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from journal.copies.copies import DirectoryCopy
    from journal.records.location import Location


@click.command()
@click.argument("location", type=LocationType())
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--dry-run", is_flag=True, help="Say what would be copied, and change nothing.")
@style_options
@access_options
def backup(*, location: Location, directory: Path, dry_run: bool, style: Style, access: Access) -> None:
    """Copy the log itself, with all its moments, into a directory.

    Every record is checked on the way. Repeat it to bring the copy up to date: what is there is read, and copied again
    only if it is damaged. A mark says where the backup ends, and what belongs to it; `verify --dir` compares.
    Look into it, restore or fork from it with --dir.

    \b
    sos-journal backup payments /backup --servers a:7400,b:7400,c:7400
    sos-journal restore sos://payments/q1 /tmp/q1 --dir /backup --at batch:41
    """
    run_async(_backup, location, directory, dry_run, style, access)


async def _backup(location: Location, directory: Path, dry_run: bool, style: Style, access: Access) -> None:  # noqa: FBT001
    """HOME of a volume that is spread comes first: what its commits refer to, the others then have."""
    access = await log_access(access, location.volume)
    await in_each_journal(access, location, lambda journal: _backup_of(journal, directory, dry_run, style, access))


async def _backup_of(location: Location, directory: Path, dry_run: bool, style: Style, access: Access) -> None:  # noqa: FBT001
    async with open_log(access, location.volume) as reader, _opened(directory, location, make=not dry_run) as copy:
        if parse_shard(location.volume) is not None:
            await settle(reader)
        await check_whole(reader)
        made = None if copy is None else Backup(reader, copy)
        lsn = reader.acknowledged_lsn
        missing = wanted_objects(reader) if made is None else await made.compare()
        if made is not None and not dry_run:
            async with pinned(access, {location.volume: reader.oldest_lsn}, verb="backup"):
                with progress("copying", sum(missing.values())) as bar:
                    for name in missing:
                        bar.advance(await made.copy(name))
                lsn = await made.finish()
            for name in made.left_out:
                note(f"warning: no copy has {name} whole: it was left out, and reading takes longer without it")
        summary = {
            "volume": location.volume,
            "objects": sorted(missing),
            "damaged": [] if made is None else made.damaged,
            "bytes": sum(missing.values()),
            "lsn": lsn,
            "read_from": read_from(reader),
            "dry_run": dry_run,
        }
        if style.json:
            print_json(summary)
        else:
            _report(summary, len(wanted_objects(reader)), directory / location.volume)


@asynccontextmanager
async def _opened(directory: Path, location: Location, *, make: bool) -> AsyncIterator[DirectoryCopy | None]:
    """The backup, made if wanted; None if there is none. LOCKED if a service, or another backup, writes there."""
    folder = directory / location.volume
    if make:
        make_directories(folder.absolute())
    if not folder.exists():
        yield None
        return
    async with open_directory_copy(directory, location.volume) as copy:
        if make:
            await copy.lock()
        yield copy


def _report(summary: dict[str, Any], wanted: int, folder: Path) -> None:
    verb = "would copy" if summary["dry_run"] else "copied"
    objects, size = len(summary["objects"]), size_text(summary["bytes"])
    text = f"{verb} {objects} of {count_text(wanted, 'object')}, {size}, up to LSN {summary['lsn']}"
    mended = (
        f"; {count_text(len(summary['damaged']), 'of them was', 'of them were')} damaged" if summary["damaged"] else ""
    )
    click.echo(f"{text}, to {printable(str(folder))}{mended}")
