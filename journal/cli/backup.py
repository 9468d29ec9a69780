"""`sos-journal backup`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from journal.cli.locations import Location, LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.output import print_json, printable, progress, size_text
from journal.cli.pins import pinned
from journal.cli.running import run_async
from journal.cli.views import open_log
from journal.copies import open_directory_copy
from journal.errors import JournalError
from journal.index_snapshot import snapshots_on_chain
from journal.reading import read_whole
from journal.repairing import read_segment

if TYPE_CHECKING:
    from journal.reading import VolumeReader


@click.command()
@click.argument("location", type=LocationType())
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--dry-run", is_flag=True, help="Say what would be copied, and change nothing.")
@style_options
@access_options
def backup(*, location: Location, directory: Path, dry_run: bool, style: Style, access: Access) -> None:
    """Copy the log itself, with all its moments, into a directory.

    Every record is checked on the way. Repeat it to bring the copy up to date; what is there already is not copied
    again. Look into it, restore or fork from it with --dir.

    \b
    sos-journal backup payments /backup --servers a:7400,b:7400,c:7400
    sos-journal restore sos://payments/q1 /tmp/q1 --dir /backup --at batch:41
    """
    run_async(_backup, location, directory, dry_run, style, access)


async def _backup(location: Location, directory: Path, dry_run: bool, style: Style, access: Access) -> None:  # noqa: FBT001
    async with open_log(access, location.volume) as reader:
        folder = directory / location.volume
        if not dry_run:
            folder.mkdir(parents=True, exist_ok=True)
        async with open_directory_copy(directory if folder.exists() else directory.parent, location.volume) as copy:
            there = {name: stored.size for name, stored in (await copy.list()).items()} if folder.exists() else {}
            wanted = _wanted(reader)
            missing = {name: size for name, size in wanted.items() if there.get(name) != size}
            if not dry_run:
                async with pinned(access, location.volume, reader.oldest_lsn, verb="backup"):
                    with progress("copying", sum(missing.values())) as advance:
                        for name in missing:
                            data = await _read(reader, name)
                            await copy.replace(name, data, present=name in there)
                            advance(len(data))
    size = sum(missing.values())
    if style.json:
        print_json({"objects": sorted(missing), "bytes": size, "lsn": reader.acknowledged_lsn, "dry_run": dry_run})
    else:
        verb = "would copy" if dry_run else "copied"
        text = f"{verb} {len(missing)} of {len(wanted)} objects, {size_text(size)}, up to LSN {reader.acknowledged_lsn}"
        click.echo(f"{text}, to {printable(str(folder))}")


def _wanted(reader: VolumeReader) -> dict[str, int]:
    """Every segment up to where it counts, the last one as far as any copy has it; and the snapshots that count."""
    end = max(one.lsn for one in reader.chain.ends.values())
    wanted = {link.segment: (end if link.end is None else link.end) - link.start for link in reader.chain.links}
    for name in snapshots_on_chain(reader.chain.names, reader.chain.boundaries, lsn=reader.acknowledged_lsn):
        wanted[str(name)] = max(
            size for (_, object_name), size in reader.chain.sizes.items() if object_name == str(name)
        )
    return wanted


async def _read(reader: VolumeReader, name: str) -> bytes:
    link = next((link for link in reader.chain.links if link.segment == name), None)
    if link is not None:
        return await read_segment(link, list(reader.copies), stop=link.start + _wanted(reader)[name])
    failure: JournalError | None = None
    for copy in reader.copies:
        size = reader.chain.sizes.get((copy.label, name))
        if size is not None:
            try:
                return await read_whole(copy, name, size)
            except JournalError as error:
                failure = error
    assert failure is not None
    raise failure
