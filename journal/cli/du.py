"""`sos-journal du`."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from journal.checkpoint.layout import find_checkpoints
from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.views import open_whole_log
from journal.records.change import ChunkChange, CommitChange, decode_change, paths_of
from journal.records.moments import Now
from journal.records.paths import is_within
from journal.records.record import Kind, Lsn
from sos_client.command.output import print_json, print_table, progress, size_text
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from journal.copies.volume_reader import VolumeReader
    from journal.records.location import Location
    from journal.records.record import Record

DAY_MS = 86_400_000


@dataclass(slots=True)
class RoomTaken:
    """What one query takes."""

    live: int = 0
    """In files that are there now."""
    past: int = 0
    """In what the log keeps of it beside these."""
    day: int = 0
    """Of the log, written in the last 24 hours."""


@click.command()
@click.argument("location", type=LocationType())
@style_options
@access_options
def du(*, location: Location, style: Style, access: Access) -> None:
    """Say how much room each query takes: its files, the past that is kept, and what a day adds.

    \b
    sos-journal du sos://payments --servers a:7400,b:7400,c:7400
    """
    run_async(_du, location, style, access)


async def _du(location: Location, style: Style, access: Access) -> None:
    uses: dict[str, RoomTaken] = defaultdict(RoomTaken)
    chunks: dict[object, int] = defaultdict(int)
    since_ms = time.time_ns() // 1_000_000 - DAY_MS
    async with open_whole_log(access, location.volume) as reader:
        tree = (await reader.image(Now())).tree
        files = [status for status in tree.walk(location.path) if not status.is_directory]
        roots = find_checkpoints(status.path for status in files)
        for status in files:
            uses[_owner(status.path, roots)].live += status.size
        with progress("reading the log", sum(sum(one.lengths().values()) for one in reader.journals)) as bar:
            async for record in _records(reader):
                header = record.header
                size = header.end_lsn - header.lsn
                bar.advance(size)
                if header.kind is Kind.HEADER:
                    continue
                change = decode_change(header, record.meta)
                if isinstance(change, ChunkChange):  # of a long file, which gets its path at the end
                    chunks[change.upload] += size
                    continue
                size += chunks.pop(change.upload, 0) if isinstance(change, CommitChange) else 0
                paths = paths_of(change)
                if paths and is_within(paths[-1], location.path):
                    use = uses[_owner(paths[-1], roots)]
                    use.past += size
                    use.day += size if header.time_ms >= since_ms else 0
    rows = [(name, use.live, max(0, use.past - use.live), use.day) for name, use in sorted(uses.items())]
    if style.json:
        for name, live, past, day in rows:
            print_json({"query": name, "live_bytes": live, "past_bytes": past, "day_bytes": day})
        return
    shown = [
        (size_text(live), size_text(past), size_text(day), printable(name) or "/") for name, live, past, day in rows
    ]
    print_table(("FILES", "PAST", "LAST DAY", "QUERY"), shown, right=(0, 1, 2))


async def _records(reader: VolumeReader) -> AsyncIterator[Record]:
    """Of the whole log; of all shards' logs, where the volume is spread."""
    for journal in reader.journals:
        async with aclosing(journal.records(Lsn(journal.chain.links[0].start), payloads=False)) as records:
            async for record in records:
                yield record


def _owner(path: str, roots: list[str]) -> str:
    """The query whose checkpoint a path lies in, else the first part of the path."""
    mine = [root for root in roots if is_within(path, root)]
    return max(mine, key=len) if mine else path.partition("/")[0]
