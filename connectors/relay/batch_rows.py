"""The rows of a batch for one of its sinks, in their order, from the staged files. Memory is bounded.

`partition`: file after file, as the manifest names them. `sequence`: merged, each file being ascending in itself.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from connectors.relay.manifest import BatchManifest, RowOrder, StagedPart
from connectors.relay.spool import READ_BYTES, lost
from connectors.relay.staged_rows import StagedRowReader, StagedRun, merged
from journal.errors import JournalCode, refused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from connectors.relay.spool import Spool

MERGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""What all files that are merged have in memory, unless there are tens of thousands of them."""
PIECE_BYTES_MIN: Final = 4096


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

    async def of_sink(self, sink: int, sinks: int) -> AsyncGenerator[StagedRun, None]:
        """In runs. RefusedByVolumeError when a file is not what the manifest says."""
        merged = self._manifest.order is RowOrder.SEQUENCE
        rows = self._merged() if merged else self._one_after_another()
        async with aclosing(rows):
            async for some in rows:
                own = some.of_sink(sink, sinks)
                if own.values:
                    yield own

    async def _one_after_another(self) -> AsyncGenerator[StagedRun, None]:
        for part in self._manifest.parts:
            async with aclosing(self._of_part(part, READ_BYTES)) as runs:
                async for run in runs:
                    yield run

    async def _of_part(self, part: StagedPart, piece_bytes: int) -> AsyncGenerator[StagedRun, None]:
        reader = StagedRowReader(part.name)
        count = 0
        async with aclosing(self._spool.read(self._place(part), piece_bytes)) as pieces:
            async for piece in pieces:
                run = reader.feed(piece)
                count += len(run.values)
                if run.values:
                    yield run
        reader.end()
        if count != part.rows:
            message = f"staged file {part.name} has {count:,} rows, and the manifest says {part.rows:,}"
            raise refused(JournalCode.BAD_REQUEST, message)

    async def _merged(self) -> AsyncGenerator[StagedRun, None]:
        """Again and again, of all files what is not above the least of their last sequences that were read."""
        parts = self._manifest.parts
        piece_bytes = min(READ_BYTES, max(PIECE_BYTES_MIN, MERGE_BYTES_MAX // max(1, len(parts))))
        files = [AscendingFile(part.name, self._of_part(part, piece_bytes)) for part in parts]
        try:
            reading = [file for file in files if await file.has_more()]
            while reading:
                least = min(file.last for file in reading)
                yield merged([file.up_to(least) for file in reading])
                reading = [file for file in reading if await file.has_more()]
        finally:
            for file in files:
                await file.aclose()

    def _place(self, part: StagedPart) -> tuple[str, ...]:
        manifest = self._manifest
        return manifest.place, str(manifest.batch), manifest.run, part.name


class AscendingFile:
    """A staged file that is merged with others."""

    def __init__(self, name: str, runs: AsyncGenerator[StagedRun, None]) -> None:
        self.last = 0
        self._name = name
        self._runs = runs
        self._run = StagedRun([], None, [])
        self._sequences: list[int] = []
        self._at = 0

    async def has_more(self) -> bool:
        """Whether rows are left, after reading on if need be. BAD_REQUEST when their sequences fall."""
        if self._at < len(self._sequences):
            return True
        run = await anext(self._runs, None)
        if run is None:
            return False
        sequences = run.sequences
        if sequences is None or sequences[0] < self.last or sorted(sequences) != sequences:
            raise refused(JournalCode.BAD_REQUEST, f"the rows of staged file {self._name} are not in order of sequence")
        self._run, self._sequences, self._at, self.last = run, sequences, 0, sequences[-1]
        return True

    def up_to(self, sequence: int) -> StagedRun:
        """The next rows up to this sequence, with it."""
        start, self._at = self._at, bisect_right(self._sequences, sequence, self._at)
        return self._run.cut(start, self._at)

    async def aclose(self) -> None:
        await self._runs.aclose()
