"""ordered: a function for foreachBatch whose writer gets the rows of each batch in the source's order.

Safe whatever the plan does to order: rows are brought into order here, after the last task. What the plan decides is
only how many runs there are to merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_integration.order.arrow_rows import arrow_messages, arrow_schema
from spark_integration.order.arrow_spool import ArrowSpool
from spark_integration.order.errors import OrderError
from spark_integration.order.hold_back import HoldBack
from spark_integration.order.sequence import column_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame


def ordered(
    write: Callable[[Iterator[Any], int], object],
    *,
    by: str | Sequence[str] = "sequence",
    directory: Path | None = None,
    partition: str | None = None,
    partitions: int = 0,
) -> Callable[[DataFrame, int], None]:
    """For `writeStream.foreachBatch(ordered(write, by="sequence"))`.

    `write(batches, batch_id)` gets an iterator of `pyarrow.RecordBatch`, in order within and among them, and the
    number of the micro-batch. It runs in the driver. A micro-batch that failed is run again with the same rows in the
    same order, as always with foreachBatch.

    `by` is a whole number, date or timestamp that no two rows share; or two columns, the second for rows that were
    made of one. `directory` is where a batch waits on disk.

    For a source of several partitions under one sequence: the column `partition` says of which one a row is, and there
    are `partitions` of them. Inside each the sequence ascends. Rows above what the slowest one has given are held back
    to the next batch, in the query's checkpoint.

    OrderError ends the query: two rows share a sequence, a row has none, or a batch begins before the end of the one
    before it; with `partitions`, ten million rows wait for one of them.
    """
    if (partition is None) != (partitions < 1):
        raise OrderError("partition= names the column, and partitions= says how many there are: give both, or neither")
    hold_back = HoldBack(column=partition, partitions=partitions) if partition is not None else None
    return OrderedWriter(write, column_names(by), directory, hold_back)


@dataclass(slots=True)
class OrderedWriter:
    """Called with each micro-batch; remembers where the last one ended."""

    write: Callable[[Iterator[Any], int], object]
    by: tuple[str, ...]
    directory: Path | None = None
    hold_back: HoldBack | None = None
    _last_batch: int = -1
    _end: tuple[int, ...] | None = None
    """Of the batches before the last one."""
    _last_end: tuple[int, ...] | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        spool = ArrowSpool(arrow_schema(frame), self.by, self.directory)
        try:
            if self.hold_back is None:
                self._fill(spool, frame)
                self._check_follows(spool, batch_id)
            else:
                files = self.hold_back.files(frame.sparkSession)
                before = self.hold_back.take(files, batch_id, spool)
                self._fill(spool, frame)
                self.hold_back.keep(files, batch_id, spool, self.hold_back.hold(before, batch_id, spool))
            self.write(spool.in_order(), batch_id)
        finally:
            spool.close()

    def _fill(self, spool: ArrowSpool, frame: DataFrame) -> None:
        for message in arrow_messages(frame):
            spool.add(message)
        spool.cut()

    def _check_follows(self, spool: ArrowSpool, batch_id: int) -> None:
        if batch_id != self._last_batch:  # else the same one again, after a failure
            self._end, self._last_batch = self._last_end, batch_id
        bounds = spool.bounds()
        if bounds is None:
            return
        first, last = bounds
        if self._end is not None and first <= self._end:
            raise OrderError(
                f"batch {batch_id} begins with sequence {_told(first)}, and a batch before it ended with "
                f"{_told(self._end)}: the sequence {self.by[0]!r} does not grow from batch to batch. A source with "
                "several partitions that numbers each of them by itself has no total order, only one per partition "
                "or key, for which there is preserve_order(); with one sequence over all of them, name them: "
                "partition=, partitions=."
            )
        self._last_end = last


def _told(sequence: tuple[int, ...]) -> str:
    return str(sequence[0]) if len(sequence) == 1 else str(sequence)
