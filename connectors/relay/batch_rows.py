"""The rows of a batch for one of its sinks, in their order, from the staged files. Memory is bounded.

`partition`: file after file, as the manifest names them. `sequence`: merged, each file being ascending in itself.
"""

from __future__ import annotations

import heapq
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from connectors.relay.manifest import BatchManifest, RowOrder, StagedPart
from connectors.relay.spool import READ_BYTES, lost
from connectors.relay.staged_rows import StagedRow, StagedRowReader, sink_of
from journal.errors import JournalCode, refused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from connectors.relay.spool import Spool

MERGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""What all files that are merged have in memory, unless there are tens of thousands of them."""
PIECE_BYTES_MIN: Final = 4096
MERGED_ROWS: Final = 1000


class BatchRows:
    """What is staged of a batch. `check` first; `of_sink` as often as needed."""

    def __init__(self, spool: Spool, manifest: BatchManifest) -> None:
        self._spool = spool
        self._manifest = manifest

    def check(self) -> None:
        """NOT_FOUND, CHANGED: a file is not what the manifest says."""
        for part in self._manifest.parts:
            size = self._spool.size(self._place(part))
            if size is None:
                raise lost("/".join(self._place(part)))
            if size != part.bytes:
                raise refused(
                    JournalCode.CHANGED,
                    f"staged file {part.name} has {size:,} bytes, not {part.bytes:,} as was said: run the batch again",
                    path="/".join(self._place(part)),
                )

    async def of_sink(self, sink: int, sinks: int) -> AsyncGenerator[list[StagedRow], None]:
        """In lists of some. RefusedByVolumeError when a file is not what the manifest says."""
        merged = self._manifest.order is RowOrder.SEQUENCE
        rows = self._merged() if merged else self._one_after_another()
        async with aclosing(rows):
            async for some in rows:
                own = some if sinks == 1 else [row for row in some if sink_of(row, sinks) == sink]
                if own:
                    yield own

    async def _one_after_another(self) -> AsyncGenerator[list[StagedRow], None]:
        for part in self._manifest.parts:
            async with aclosing(self._of_part(part, READ_BYTES)) as pieces:
                async for rows in pieces:
                    yield rows

    async def _of_part(self, part: StagedPart, piece_bytes: int) -> AsyncGenerator[list[StagedRow], None]:
        reader = StagedRowReader(part.name)
        count = 0
        async with aclosing(self._spool.read(self._place(part), piece_bytes)) as pieces:
            async for piece in pieces:
                rows = reader.feed(piece)
                count += len(rows)
                if rows:
                    yield rows
        reader.end()
        if count != part.rows:
            message = f"staged file {part.name} has {count:,} rows, and the manifest says {part.rows:,}"
            raise refused(JournalCode.BAD_REQUEST, message)

    async def _merged(self) -> AsyncGenerator[list[StagedRow], None]:
        parts = self._manifest.parts
        piece_bytes = min(READ_BYTES, max(PIECE_BYTES_MIN, MERGE_BYTES_MAX // max(1, len(parts))))
        sources = [self._of_part(part, piece_bytes) for part in parts]
        heap: list[tuple[int, int, int, list[StagedRow]]] = []  # sequence, file, position in rows, rows
        out: list[StagedRow] = []
        try:
            for number, source in enumerate(sources):
                rows = await anext(source, None)
                if rows:
                    heapq.heappush(heap, (rows[0].sequence, number, 0, rows))
            while heap:
                sequence, number, position, rows = heap[0]
                out.append(rows[position])
                if len(out) >= MERGED_ROWS:
                    yield out
                    out = []
                following = position + 1
                if following == len(rows):
                    rows = await anext(sources[number], None) or []
                    following = 0
                if not rows:
                    heapq.heappop(heap)
                    continue
                if rows[following].sequence < sequence:
                    name = parts[number].name
                    raise refused(
                        JournalCode.BAD_REQUEST, f"the rows of staged file {name} are not in order of sequence"
                    )
                heapq.heapreplace(heap, (rows[following].sequence, number, following, rows))
            if out:
                yield out
        finally:
            for source in sources:
                await source.aclose()

    def _place(self, part: StagedPart) -> tuple[str, ...]:
        manifest = self._manifest
        return manifest.place, str(manifest.batch), manifest.run, part.name
