"""Where in a shard's log a moment of the whole volume is: the *cut*.

Belongs here: what of a shard belongs to a batch of HOME's. docs/decisions/1702 says why this is exact, without clocks:

- all state of batch N (version N+1) was acknowledged before HOME's `commits/N` was sent, and nothing of version N+2 was
  written before that was acknowledged: the cut is before the first file of version N+2;
- where the checkpoint was deleted, moved or put back (rewind), all shards have a mark with the same token: versions are
  looked for only between the two marks that HOME has around the moment.
"""

from __future__ import annotations

import itertools
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from journal.checkpoint.layout import batch_of, state_file_of
from journal.errors import JournalCode, refused
from journal.records.change import CONTENT_KINDS, MarkChange, content_path, decode_change
from journal.records.paths import is_within
from journal.records.record import Kind, Lsn
from journal.records.shards import SpreadChange, is_in_partition, query_of_partition

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from journal.checkpoint.layout import StateFile
    from journal.copies.volume_reader import VolumeReader
    from journal.image.image import Image
    from journal.records.record import RecordHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    """The part of the history between two changes of a whole checkpoint, by the tokens of their marks."""

    query: str
    batch: int
    after: str | None
    before: str | None
    known: frozenset[str] = frozenset()  # tokens of all changes that HOME's log still has
    is_all: bool = True  # HOME's log goes back to its beginning: what it has no token of, there was not


async def era_of(home: VolumeReader, image: Image, path: str, batch: int) -> Era:
    """What a batch that is the last one of `image` belongs to. NOT_FOUND if no query there has it as its last."""
    last: dict[str, int] = {}
    for status in image.tree.walk(""):
        found = None if status.is_directory else batch_of(status.path)
        if found is not None and found[1] == "commits":
            last[found[0]] = max(found[2], last.get(found[0], -1))
    queries = [query for query, number in last.items() if number == batch and _belong(query, path)]
    if len(queries) != 1:
        raise refused(JournalCode.NOT_FOUND, f"no single query at {path or '/'} has batch {batch} as its last then")
    changes = await _changes_of(home, queries[0])
    return Era(
        query=queries[0],
        batch=batch,
        after=next((token for token, lsn in reversed(changes) if lsn <= image.lsn), None),
        before=next((token for token, lsn in changes if lsn > image.lsn), None),
        known=frozenset(token for token, _ in changes),
        is_all=home.chain.links[0].start == 0,
    )


def _belong(query: str, path: str) -> bool:
    return is_within(query, path) or is_within(path, query)


async def _changes_of(reader: VolumeReader, query: str) -> list[tuple[str, Lsn]]:
    """The token of each change of the whole query, or of what it lies in, and where its mark ends."""
    found = []
    async with aclosing(reader.records(reader.chain.links[0].start)) as records:
        async for record in records:
            if record.header.kind is Kind.MARK:
                change = decode_change(record.header, record.meta)
                assert isinstance(change, MarkChange)
                spread = SpreadChange.read(change.values)
                if spread is not None and spread.concerns(query):
                    found.append((spread.token, record.header.end_lsn))
    return found


async def cut_of(reader: VolumeReader, era: Era) -> Lsn:
    """The end of what a shard has of the batch. OUT_OF_RETENTION if it keeps that no more."""
    changes = await _changes_of(reader, era.query)
    marks = dict(changes)
    start = marks.get(era.after or "", reader.chain.links[0].start)
    if era.after is None and not era.is_all:  # what HOME has forgotten came before all that it knows
        forgotten = itertools.takewhile(lambda change: change[0] not in era.known, changes)
        start = max((lsn for _, lsn in forgotten), default=start)
    end = reader.acknowledged_lsn if era.before is None else marks.get(era.before, Lsn(-1))  # HOME gets its mark last
    async with aclosing(_state_records(reader, start, end)) as found:
        async for header, query, state in found:
            if query == era.query and state.version > era.batch + 1:
                end = header.lsn
                break
    if end < reader.oldest_lsn:
        message = f"what {reader.volume} had at batch {era.batch} is not kept any more"
        raise refused(JournalCode.OUT_OF_RETENTION, message, oldest=reader.oldest_lsn)
    return end


async def state_files(reader: VolumeReader, end: int) -> AsyncGenerator[tuple[str, StateFile], None]:
    """Every file of a state store that the log has up to there, with its query."""
    async for _, query, state in _state_records(reader, reader.chain.links[0].start, end):
        yield query, state


async def _state_records(
    reader: VolumeReader, start: int, end: int
) -> AsyncGenerator[tuple[RecordHeader, str, StateFile], None]:
    async with aclosing(reader.records(start, end)) as records:
        async for record in records:
            if record.header.kind in CONTENT_KINDS:
                path = content_path(decode_change(record.header, record.meta)) or ""
                query, inside = query_of_partition(path) if is_in_partition(path) else ("", "")
                state = state_file_of(inside)
                if state is not None:
                    yield record.header, query, state
