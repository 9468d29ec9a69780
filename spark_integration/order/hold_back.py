"""Holds back what a slower partition of the source may still come before: for one sequence over several partitions.

A partition's rows ascend, so it gives nothing below the highest sequence that it has given: its mark. Rows up to the
lowest mark are complete; the others wait for the next batch in the query's checkpoint (held_rows).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from spark_integration.order.errors import OrderError
from spark_integration.order.held_rows import SourceMarks, read_held, write_held
from spark_integration.order.running_query import BatchFiles, running_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_integration.order.arrow_spool import ArrowSpool

DIRECTORY: Final = "ordered"
"""In the checkpoint."""
HELD_ROWS_MAX: Final = 10_000_000
"""Each batch reads and writes what is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldBack:
    """`column` says of which partition a row is, and there are `partitions` of them."""

    column: str
    partitions: int
    held_rows_max: int = HELD_ROWS_MAX

    def files(self, session: SparkSession) -> BatchFiles:
        """OrderError outside foreachBatch."""
        query = running_query(session)
        if query is None:
            raise OrderError("rows are held back in a query's checkpoint: ordered() has to be called by foreachBatch")
        return BatchFiles(session, query, DIRECTORY)

    def take(self, files: BatchFiles, batch: int, spool: ArrowSpool) -> SourceMarks:
        """The rows that the batch before has left are added. OrderError if they are gone."""
        reader = files.reader(batch - 1)
        if reader is not None:
            with reader:
                return read_held(reader, spool.schema, spool.add)
        if any(number < batch for number in files.numbers()):
            raise OrderError(
                f"what batch {batch - 1} has held back is not in the checkpoint, and that of older ones is: the query "
                "has run without partitions= meanwhile, or its checkpoint was put back too far"
            )
        return SourceMarks()

    def hold(self, before: SourceMarks, batch: int, spool: ArrowSpool) -> SourceMarks:
        """What is not complete is held. OrderError: a row came after a higher one was given out, or too many wait."""
        marks = before.after(spool.highest_by(self.column))
        spool.hold_above(marks.complete_up_to(self.partitions))
        bounds = spool.bounds()
        if bounds is not None:
            first, last = bounds
            if before.end is not None and first <= before.end:
                raise OrderError(
                    f"batch {batch} has sequence {first[0]}, and {before.end[0]} was given out before: the sequence "
                    f"does not ascend inside each {self.column!r}, or there are more than {self.partitions} of them"
                )
            marks = replace(marks, end=last)
        held = sum(run.count for run in spool.held)
        if held > self.held_rows_max:
            raise OrderError(
                f"{held:,} rows wait for {marks.waits_for(self.partitions)}; at most {self.held_rows_max:,} may: a "
                "partition that has nothing to say has to say so, by a row that carries the sequence on"
            )
        return marks

    def keep(self, files: BatchFiles, batch: int, spool: ArrowSpool, marks: SourceMarks) -> None:
        """What is held waits in the checkpoint, durably, for the next batch."""
        with files.writer(batch) as file:
            write_held(file, spool.schema, marks, spool.held_in_order())
        files.drop(batch - files.retained - 1)
