"""Rows that wait for a later batch, because a source partition has not come as far yet, and how far each has come.

One file for each batch, `ordered/N` in the query's checkpoint: what batch N left. Batch N + 1 begins with it, also when
it is run again. An Arrow IPC stream with the rows' schema, whose metadata `sos-held` is JSON:

    {"version": 1, "marks": {"0": 118, "1": 97}, "end": [97]}

`marks` is the highest sequence that each partition has given; `end` is that of the last row that was given out (with
the part, if there is one), or null. The rows are in order, above `end`. A reader refuses any other version.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from spark_integration.order.errors import OrderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

VERSION: Final = 1
METADATA: Final = b"sos-held"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMarks:
    """How far the partitions of a source have come."""

    marks: Mapping[str, int] = field(default_factory=dict)
    """The highest sequence that each has given."""
    end: tuple[int, ...] | None = None
    """Of the last row that was given out."""

    def after(self, given: Mapping[str, int]) -> SourceMarks:
        """After a batch with these highest sequences."""
        marks = {name: max(mark, self.marks.get(name, mark)) for name, mark in given.items()}
        return SourceMarks(marks={**self.marks, **marks}, end=self.end)

    def complete_up_to(self, partitions: int) -> int | None:
        """No partition gives a row up to this one any more. None: a partition has not given any. OrderError if there
        are more than so many."""
        if len(self.marks) > partitions:
            raise OrderError(
                f"rows of {len(self.marks)} partitions have come, and there should be {partitions}: "
                f"{', '.join(sorted(self.marks)[:20])}"
            )
        return min(self.marks.values()) if len(self.marks) == partitions else None

    def waits_for(self, partitions: int) -> str:
        """Which one, for people."""
        if len(self.marks) < partitions:
            return f"{partitions - len(self.marks)} of {partitions} partitions, which have given nothing yet"
        name, mark = min(self.marks.items(), key=lambda one: one[1])
        return f"partition {name}, whose last sequence is {mark}"


def write_held(file: Any, schema: Any, marks: SourceMarks, batches: Iterable[Any]) -> None:
    end = list(marks.end) if marks.end is not None else None
    told = json.dumps({"version": VERSION, "marks": dict(marks.marks), "end": end})
    with pa.ipc.new_stream(pa.PythonFile(file, mode="w"), schema.with_metadata({METADATA: told})) as stream:
        for batch in batches:
            stream.write_batch(batch)


def read_held(file: Any, schema: Any, add: Callable[[bytes], None]) -> SourceMarks:
    """`add` gets each batch as a message without its schema. OrderError if the file is of another version, or its rows
    have other columns."""
    with pa.ipc.open_stream(pa.PythonFile(file, mode="r")) as stream:
        told = json.loads((stream.schema.metadata or {}).get(METADATA, b"{}"))
        if told.get("version") != VERSION:
            raise OrderError(f"held rows of version {told.get('version')} cannot be read, only those of {VERSION}")
        if not stream.schema.equals(schema):
            raise OrderError(
                "rows that the batch before has held back have other columns than those of this one: "
                f"{', '.join(stream.schema.names)}. Change the columns of a query that holds nothing back."
            )
        for batch in stream:
            add(batch.serialize().to_pybytes())
    end = told["end"]
    return SourceMarks(marks=told["marks"], end=tuple(end) if end is not None else None)
