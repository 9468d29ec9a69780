"""`sos-journal batches`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from journal.checkpoint.batches import Batch, BatchHistory
from journal.checkpoint.layout import LogFormatError, batch_of, parse_offsets
from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, style_options
from journal.cli.views import open_whole_log
from journal.errors import JournalCode, JournalError, refused
from journal.records.change import CONTENT_KINDS, content_path, decode_change
from journal.records.moments import Now
from journal.shards.whole_reader import WholeReader
from sos_client.command.output import (
    QUIET,
    ago_text,
    count_text,
    duration_text,
    note,
    print_json,
    print_table,
    progress,
    time_text,
)
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from journal.checkpoint.layout import OffsetFile
    from journal.copies.volume_reader import VolumeReader
    from journal.image.image import Image
    from journal.records.change import Change
    from journal.records.location import Location
    from journal.records.record import RecordHeader


@click.command()
@click.argument("location", metavar="sos://VOLUME/QUERY", type=LocationType())
@click.option(
    "-n", "--last", type=click.IntRange(1, 1_000_000), default=20, show_default=True, help="The last N of each query."
)
@click.option("--offsets", is_flag=True, help="Show what each batch read up to, source by source.")
@style_options
@access_options
def batches(*, location: Location, last: int, offsets: bool, style: Style, access: Access) -> None:
    """Show Spark's batches: when, how long, which offsets and state.

    Batches that Spark has purged are shown as long as the log keeps them. Go back to one with --at batch:N. The log
    is read from its end, as far as needed. In real-time mode a batch is planned when it is done: it took the time since
    the batch before it.

    \b
    sos-journal batches sos://payments/q1 -n 50
    """
    run_async(_batches, location, last, offsets, style, access)


async def _batches(location: Location, last: int, offsets: bool, style: Style, access: Access) -> None:  # noqa: FBT001
    async with open_whole_log(access, location.volume) as reader:
        with progress("reading the log", sum(reader.lengths().values())) as bar:
            found = await last_batches(reader, location.path, last, bar.advance)
        if isinstance(reader, WholeReader):
            await reader.count_state(found)
        found = with_moved(found, await reader.image(Now()), location.path, last)
        if not found:
            raise refused(JournalCode.NOT_FOUND, f"no batch of a query at {location} is in the log that is kept")
        plans = [await _plan_of(reader, batch) if offsets or style.json else None for batch in found]
    if style.json:
        for batch, plan in zip(found, plans, strict=True):
            print_json(_as_json(batch, plan))
        return
    several = len({batch.query for batch in found}) > 1
    rows = [_row(batch, plan, style, several=several) for batch, plan in zip(found, plans, strict=True)]
    header = [
        "BATCH",
        "PLANNED",
        "COMMITTED",
        "",
        "TOOK",
        "LSN OF SHARD 0" if isinstance(reader, WholeReader) else "LSN",
        "STATE",
        "OFFSETS" if offsets else "",
    ]
    print_table(["QUERY", *header] if several else header, rows, right=[5, 6] if several else [0, 4, 5])


async def last_batches(reader: VolumeReader, path: str, last: int, advance: Callable[[int], None]) -> list[Batch]:
    """The last batches of each query at or below the path, read segment by segment from the end of the log."""
    segments: list[list[tuple[RecordHeader, Change]]] = []
    planned: dict[str, set[int]] = {}
    for start, length in sorted(reader.lengths().items(), reverse=True):
        moving = [
            record async for record in reader.records(start, start + length) if record.header.kind in CONTENT_KINDS
        ]
        segments.append([(record.header, decode_change(record.header, record.meta)) for record in moving])
        for query, number in _plans(segments[-1], path):
            planned.setdefault(query, set()).add(number)
        advance(length)
        # One more is needed: what belongs to a batch follows its plan.
        if planned and all(len(numbers) > last or 0 in numbers for numbers in planned.values()):
            break
    history = BatchHistory()
    for header, change in (one for segment in reversed(segments) for one in segment):
        history.note(header, change)
    return history.of(path, last=last)


def with_moved(found: list[Batch], image: Image, path: str, last: int) -> list[Batch]:
    """Batches that came with an import or fork, too: their files keep their times, the log has no records of them."""
    if image.tree.find(path) is None:
        return found
    known = {(batch.query, batch.number): batch for batch in found}
    for status in image.tree.walk(path):
        place = None if status.is_directory else batch_of(status.path)
        if place is None or ((place[0], place[2]) in known and known[place[0], place[2]].committed_lsn):
            continue
        query, log, number = place
        batch = known.setdefault((query, number), Batch(query=query, number=number))
        if log == "commits" and batch.committed_ms is None:
            batch.committed_ms = status.modified_ms
        elif log == "offsets" and batch.planned_ms is None:
            batch.planned_ms = batch.began_ms = status.modified_ms
    queries: dict[str, list[Batch]] = {}
    for _, batch in sorted(known.items()):
        queries.setdefault(batch.query, []).append(batch)
    return [batch for batches in queries.values() for batch in batches[-last:]]


def _plans(changes: Iterable[tuple[RecordHeader, Change]], path: str) -> Iterator[tuple[str, int]]:
    """(query, number) of each batch at or below the path that was planned."""
    for _, change in changes:
        found = batch_of(content_path(change) or "")
        if found is not None and found[1] == "offsets" and (not path or f"{found[0]}/".startswith(f"{path}/")):
            yield found[0], found[2]


async def _plan_of(reader: VolumeReader, batch: Batch) -> OffsetFile | None:
    """What offsets/N says, read where the log has it, even if Spark has purged it since."""
    if batch.plan is None:
        return None
    try:
        return parse_offsets(await reader.read_payload(batch.plan))
    except LogFormatError as error:
        note(f"warning: offsets/{batch.number}: {error}")
    except JournalError as error:
        note(f"warning: offsets/{batch.number}: {error.message}")
    return None


def _offsets_text(plan: OffsetFile | None) -> str:
    if plan is None:
        return ""
    if not plan.names:
        return "  ".join(plan.sources)
    return "  ".join(f"{name}: {offset}" for name, offset in zip(plan.names, plan.sources, strict=True))


def _row(batch: Batch, plan: OffsetFile | None, style: Style, *, several: bool) -> list[str]:
    committed = time_text(batch.committed_ms, style.zone)
    if batch.committed_ms is None:
        committed = click.style("not committed", fg=QUIET)
    state = (
        "-"
        if batch.state_versions is None
        else f"version {batch.state_versions}, {count_text(batch.state_files, 'file')}"
    )
    row = [
        str(batch.number),
        time_text(batch.planned_ms, style.zone),
        committed,
        "" if batch.committed_ms is None else ago_text(batch.committed_ms, time.time_ns() // 1_000_000),
        duration_text(batch.duration_ms),
        str(batch.committed_lsn or batch.planned_lsn or "-"),
        state,
        printable(_offsets_text(plan)),
    ]
    return [printable(batch.query), *row] if several else row


def _as_json(batch: Batch, plan: OffsetFile | None) -> dict[str, object]:
    return {
        "query": batch.query,
        "batch": batch.number,
        "planned_ms": batch.planned_ms,
        "committed_ms": batch.committed_ms,
        "duration_ms": batch.duration_ms,
        "planned_lsn": batch.planned_lsn,
        "committed_lsn": batch.committed_lsn,
        "state_version": batch.state_versions,
        "state_files": batch.state_files,
        "real_time": batch.is_real_time,
        "offsets": list(plan.sources) if plan else [],
        "sources": list(plan.names) if plan else [],
    }
