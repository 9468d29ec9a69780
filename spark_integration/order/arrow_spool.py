"""Arrow batches on disk, and their rows in the order of the sequence.

The batches of a micro-batch come as the tasks give them out and lie in one unnamed file, which is mapped into memory:
how much of it is in memory is the kernel's decision. What Python holds is a few kilobytes for each batch of 10,000
rows, and what the merge holds (connectors/order/run_merge.py).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from connectors.order.natural_runs import RunCutter, split_at, starts_of_runs
from connectors.order.run_merge import STEP_ROWS, merge_steps
from spark_integration.order.errors import OrderError
from spark_integration.order.sequence import Packing, packing_of, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from connectors.order.natural_runs import NaturalRun, Sequences
    from connectors.order.run_merge import MergeStep

ALIGNMENT: Final = 64
"""Arrow's buffers are read where they lie only if they are aligned."""
RUNS_OF_BATCH_MAX: Final = 16
"""A batch that is cut into more is sorted first: merging that many runs costs as much."""
STEP_BYTES: Final = 32 << 20
"""About as much is put together at once, whatever the width of a row."""
PAD: Final = bytes(ALIGNMENT)


@dataclass(slots=True, eq=False)
class _Batch:
    """One Arrow batch in the file."""

    rows: Any
    columns: tuple[Sequences, ...]
    sorted_by: npt.NDArray[np.uint32] | None = None

    def sequences(self, packing: Packing, start: int, stop: int) -> Sequences:
        if self.sorted_by is None:
            return packing.packed([column[start:stop] for column in self.columns])
        chosen = self.sorted_by[start:stop]
        return packing.packed([column[chosen] for column in self.columns])

    def slice(self, start: int, stop: int) -> Any:
        if self.sorted_by is None:
            return self.rows.slice(start, stop - start)
        return self.rows.take(pa.array(self.sorted_by[start:stop]))


@dataclass(slots=True)
class ArrowSpool:
    """Takes batches, then gives their rows out in order. `directory` is where the file is; without it, where temporary
    files are."""

    schema: Any
    by: tuple[str, ...]
    directory: Path | None = None
    sorted_batches: int = 0
    """Batches that had so many runs that they were sorted."""
    runs: list[NaturalRun[_Batch]] = field(default_factory=list)
    """Of the rows that in_order() gives out."""
    held: list[NaturalRun[_Batch]] = field(default_factory=list)
    """Of the rows that hold_above() has kept from it."""
    row_count: int = 0
    packing: Packing = field(default_factory=Packing)
    _file: IO[bytes] | None = None
    _places: list[tuple[int, int]] = field(default_factory=list)
    _end: int = 0

    def __post_init__(self) -> None:
        missing = [name for name in self.by if name not in self.schema.names]
        if missing:
            raise OrderError(f"the rows have no column {missing[0]!r}; they have {', '.join(self.schema.names)}")
        self._file = tempfile.TemporaryFile(dir=self.directory, prefix="sos-order-")  # noqa: SIM115 - close() closes it

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def add(self, message: bytes) -> None:
        """One batch as Spark's tasks encode it: an Arrow record batch message without its schema."""
        assert self._file is not None
        self._file.write(message)
        self._places.append((self._end, len(message)))
        padding = -len(message) % ALIGNMENT
        self._file.write(PAD[:padding])
        self._end += len(message) + padding

    def cut(self) -> None:
        """After the last batch: find the runs. OrderError if a row has no sequence."""
        batches = self._decoded()
        self.packing = packing_of(batch.columns for batch in batches)
        cutter = RunCutter[_Batch]()
        for batch in batches:
            sequences = self.packing.packed(batch.columns)
            if len(starts_of_runs(sequences)) >= RUNS_OF_BATCH_MAX:
                batch.sorted_by = np.argsort(sequences).astype(np.uint32)  # not stable: rows that are equal are refused
                sequences = sequences[batch.sorted_by]
                self.sorted_batches += 1
            self.row_count += len(sequences)
            cutter.add(sequences, batch)
        self.runs = cutter.runs()

    def highest_by(self, column: str) -> dict[str, int]:
        """For each value of a column the highest sequence of its rows. OrderError if there is none or a row has no
        value."""
        if column not in self.schema.names:
            raise OrderError(f"the rows have no column {column!r}; they have {', '.join(self.schema.names)}")
        highest: dict[str, int] = {}
        for batch in dict.fromkeys(segment.place for run in self.runs for segment in run.segments):
            values = batch.rows.column(column)
            if values.null_count:
                raise OrderError(f"{values.null_count} rows have no {column!r}: it says of which partition they are")
            found = pa.table({"value": values, "sequence": batch.columns[0]}).group_by("value")
            for row in found.aggregate([("sequence", "max")]).to_pylist():
                name = str(row["value"])
                highest[name] = max(row["sequence_max"], highest.get(name, row["sequence_max"]))
        return highest

    def hold_above(self, sequence: int | None) -> None:
        """Rows with a higher sequence, or all without one, are moved from `runs` to `held`."""
        if sequence is None:
            self.runs, self.held = [], self.runs
            return
        bound = self.packing.highest_of(sequence, len(self.by))
        self.runs, self.held = split_at(self.runs, bound, self._sequences)

    def bounds(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The lowest and the highest sequence; None if there are no rows."""
        if not self.runs:
            return None
        low, high = min(run.first for run in self.runs), max(run.last for run in self.runs)
        return self.packing.told(low, len(self.by)), self.packing.told(high, len(self.by))

    def in_order(self) -> Iterator[Any]:
        """Record batches, in order. OrderError at the first two rows that have the same sequence."""
        yield from self._in_order(self.runs)

    def held_in_order(self) -> Iterator[Any]:
        """The same of what is held."""
        yield from self._in_order(self.held)

    def _sequences(self, batch: _Batch, start: int, stop: int) -> Sequences:
        return batch.sequences(self.packing, start, stop)

    def _in_order(self, runs: list[NaturalRun[_Batch]]) -> Iterator[Any]:
        rows_wide = max(1, STEP_BYTES // max(1, self._end // max(1, self.row_count)))
        for step in merge_steps(runs, self._sequences, step_rows=min(STEP_ROWS, rows_wide)):
            if step.repeats:
                raise OrderError(
                    f"{step.repeats + 1} rows or more share a sequence ({', '.join(self.by)}), so their order is not "
                    "defined: name a column that tells them apart as the second one, such as the position that "
                    "posexplode gives: by=('sequence', 'pos')"
                )
            yield from self._rows_of(step)

    def _rows_of(self, step: MergeStep[_Batch]) -> Iterator[Any]:
        pieces = [piece.place.slice(piece.start, piece.stop) for piece in step.pieces]
        if step.order is None:
            yield from pieces
            return
        rows = pa.Table.from_batches(pieces, schema=self.schema).combine_chunks().take(pa.array(step.order))
        yield from rows.combine_chunks().to_batches()

    def _decoded(self) -> list[_Batch]:
        assert self._file is not None
        self._file.flush()
        if not self._end:
            return []
        mapped = pa.memory_map(f"/proc/self/fd/{self._file.fileno()}").read_buffer()
        batches = []
        for start, size in self._places:
            rows = pa.ipc.read_record_batch(mapped.slice(start, size), self.schema)
            columns = tuple(whole_numbers(rows.column(name), name) for name in self.by)
            batches.append(_Batch(rows, columns))
        return batches
