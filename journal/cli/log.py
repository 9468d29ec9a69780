"""`sos-journal log`."""

from __future__ import annotations

import fnmatch
from collections import deque
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click
import trio

from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, moment_of, style_options
from journal.cli.views import open_log
from journal.records.change import (
    AppendChange,
    Change,
    CommitChange,
    MakeDirectoryChange,
    MarkChange,
    PinChange,
    PutChange,
    RelocateChange,
    TrimChange,
    TruncateChange,
    decode_change,
    paths_of,
)
from journal.records.paths import is_within
from journal.records.record import Kind
from journal.records.segment import SegmentHeader, decode_segment_header
from sos_client.command.output import print_json, size_text, time_text
from sos_client.command.running import run_async
from sos_client.declarations import values_of
from sos_client.printable import printable

if TYPE_CHECKING:
    from journal.copies.volume_reader import VolumeReader
    from journal.records.location import Location
    from journal.records.record import Record

FOLLOW_SECONDS: Final = 1.0
_KINDS: Final = [kind.name.lower() for kind in Kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which records are shown."""

    path: str
    glob: str | None
    kinds: frozenset[str]

    def lets_pass(self, kind: str, paths: tuple[str, ...]) -> bool:
        if self.kinds and kind not in self.kinds:
            return False
        if self.path and not any(is_within(path, self.path) for path in paths):
            return False
        return self.glob is None or any(fnmatch.fnmatchcase(path, self.glob) for path in paths)


@click.command()
@click.argument("location", type=LocationType())
@click.option("--path", "glob", metavar="GLOB", help="Only records about paths that match, e.g. '*/commits/*'.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(_KINDS), help="Only this kind; may be repeated.")
@click.option("--since", metavar="MOMENT", help="From this LSN, time or batch:N on.")
@click.option("--until", metavar="MOMENT", default="now", help="Up to this moment.")
@click.option("-n", "--last", type=click.IntRange(1, 1_000_000), help="Only the last N of them.")
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows.")
@style_options
@access_options
def log(
    *,
    location: Location,
    glob: str | None,
    kinds: tuple[str, ...],
    since: str | None,
    until: str,
    last: int | None,
    follow: bool,
    style: Style,
    access: Access,
) -> None:
    """Show the records of the log: what was changed, and when.

    With a path, only those about it or what is below.

    \b
    sos-journal log sos://payments/q1 --kind put -n 20
    sos-journal log payments --path '*/commits/*' --since 15m -f
    """
    chosen = Filter(path=location.path, glob=glob, kinds=frozenset(kinds))
    run_async(_log, location, chosen, (since, until), last, follow, style, access)


async def _log(
    location: Location,
    chosen: Filter,
    moments: tuple[str | None, str],
    last: int | None,
    follow: bool,  # noqa: FBT001
    style: Style,
    access: Access,
) -> None:
    async with open_log(access, location.volume) as reader:
        since, until = moments
        start = 0 if since is None else await reader.lsn_of(moment_of(since, style), path=location.path)
        end = await reader.lsn_of(moment_of(until, style), path=location.path)
        kept: deque[Record] = deque(maxlen=last)
        async with aclosing(reader.records(start, end)) as records:
            async for record in records:
                if not chosen.lets_pass(record.header.kind.name.lower(), _paths(record)):
                    continue
                if last is None:
                    print_record(record, style)
                else:
                    kept.append(record)
        for record in kept:
            print_record(record, style)
        if follow:
            await _follow(reader, chosen, end, style)


async def _follow(reader: VolumeReader, chosen: Filter, lsn: int, style: Style) -> None:
    while True:
        await trio.sleep(FOLLOW_SECONDS)
        await reader.refresh()
        async with aclosing(reader.records(lsn)) as records:
            async for record in records:
                lsn = record.header.end_lsn
                if chosen.lets_pass(record.header.kind.name.lower(), _paths(record)):
                    print_record(record, style)


def print_record(record: Record, style: Style) -> None:
    """One line."""
    if style.json:
        print_json(value_of_record(record))
    else:
        click.echo(line_of_record(record, style))


def value_of_record(record: Record) -> dict[str, object]:
    """A record for a program."""
    header = record.header
    value = {"lsn": header.lsn, "end_lsn": header.end_lsn, "time_ms": header.time_ms, "kind": header.kind.name.lower()}
    extra = {"bytes": header.payload_bytes, "chain": header.chain.hex(), "operation": _operation(record)}
    return value | extra | _described(record)


def line_of_record(record: Record, style: Style) -> str:
    """A record for a person."""
    header, what = record.header, _described(record)
    kind = header.kind.name.lower()
    shown = " ".join(printable(f"{value}") for value in what.values() if value not in (None, ""))
    size = size_text(header.payload_bytes) if header.payload_bytes else ""
    return f"{header.lsn:>14}  {time_text(header.time_ms, style.zone)}  {kind:<8}  {size:>10}  {shown}".rstrip()


def _operation(record: Record) -> str | None:
    header = record.header
    return f"{header.client.hex()}:{header.sequence}" if any(header.client) else None


def _decoded(record: Record) -> Change | SegmentHeader:
    if record.header.kind == Kind.HEADER:
        return decode_segment_header(record.meta)
    return decode_change(record.header, record.meta)


def _paths(record: Record) -> tuple[str, ...]:
    return () if record.header.kind == Kind.HEADER else paths_of(decode_change(record.header, record.meta))


def _described(record: Record) -> dict[str, object]:
    """What a record says, in the order in which a person wants to read it: all its fields, or those that matter."""
    match _decoded(record):
        case PutChange(path=path) | MakeDirectoryChange(path=path) | AppendChange(path=path):
            return {"path": path}
        case CommitChange(path=path, size=size):
            return {"path": path, "size": size}
        case TruncateChange(path=path, size=size):
            return {"path": path, "size": size}
        case RelocateChange(path=path, object=name):
            return {"path": path, "from": name}
        case MarkChange(values=values):
            return dict(values)
        case TrimChange(lsn=lsn):
            return {"to_lsn": lsn}
        case PinChange(name=name, lsn=lsn, expires_ms=expires_ms):
            return {"pin": name, "at_lsn": lsn, "expires_ms": expires_ms}
        case SegmentHeader() as segment:
            return {"epoch": segment.epoch, "holder": segment.holder.hex(), "accepted_loss": segment.accepted_loss}
        case change:
            return values_of(change)
