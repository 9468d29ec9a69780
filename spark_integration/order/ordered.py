"""ordered: a function for foreachBatch whose writer gets the rows of each batch in the source's order.

Safe whatever the plan does to order: rows are brought into order here, after the last task. What the plan decides is
only how many runs there are to merge.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_integration.order.arrow_rows import arrow_messages, arrow_schema
from spark_integration.order.arrow_spool import ArrowSpool
from spark_integration.order.errors import OrderError
from spark_integration.order.sequence import column_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)


def ordered(
    write: Callable[[Iterator[Any], int], object],
    *,
    by: str | Sequence[str] = "sequence",
    directory: Path | None = None,
) -> Callable[[DataFrame, int], None]:
    """For `writeStream.foreachBatch(ordered(write, by="sequence"))`.

    `write(batches, batch_id)` gets an iterator of `pyarrow.RecordBatch`, in order within and among them, and the
    number of the micro-batch. It runs in the driver. A micro-batch that failed is run again with the same rows in the
    same order, as always with foreachBatch.

    `by` is a whole number, date or timestamp that no two rows share; or two columns, the second for rows that were
    made of one. `directory` is where a batch waits on disk.

    OrderError ends the query: two rows share a sequence, a row has none, or a batch begins before the end of the one
    before it.
    """
    return OrderedWriter(write, column_names(by), directory)


@dataclass(slots=True)
class OrderedWriter:
    """Called with each micro-batch; remembers where the last one ended."""

    write: Callable[[Iterator[Any], int], object]
    by: tuple[str, ...]
    directory: Path | None = None
    sorts_first: bool = False
    """Tasks sort their rows, because a batch came with too many runs."""
    _last_batch: int = -1
    _end: tuple[int, ...] | None = None
    """Of the batches before the last one."""
    _last_end: tuple[int, ...] | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        spool = ArrowSpool(arrow_schema(frame), self.by, self.directory)
        try:
            rows = frame.sortWithinPartitions(*self.by) if self.sorts_first else frame
            for message in arrow_messages(rows):
                spool.add(message)
            spool.cut()
            self._check_follows(spool, batch_id)
            self.write(spool.in_order(), batch_id)
            if spool.sorted_batches and not self.sorts_first:
                self.sorts_first = True
                _log.warning(
                    "ordered: the tasks of batch %d gave out rows in short runs, as after repartition(n); from now on "
                    "each task sorts its own rows first",
                    batch_id,
                )
        finally:
            spool.close()

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
                "several partitions numbers each of them by itself: there is no total order then, only one per "
                "partition or key, for which there is preserve_order()."
            )
        self._last_end = last


def _told(sequence: tuple[int, ...]) -> str:
    return str(sequence[0]) if len(sequence) == 1 else str(sequence)
