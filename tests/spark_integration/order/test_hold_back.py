"""Several source partitions under one sequence: what a slower one may still come before waits in the checkpoint."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_integration import OrderError, ordered
from spark_integration.order.arrow_spool import ArrowSpool
from spark_integration.order.held_rows import SourceMarks, read_held, write_held
from spark_integration.order.hold_back import HoldBack
from spark_integration.order.ordered import OrderedWriter
from tests.spark_integration.order.conftest import run_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    Stream = Callable[..., DataFrame]

pytestmark = pytest.mark.spark

ROWS = 60
PARTITIONS = 3
SCHEMA = pa.schema([("sequence", pa.int64()), ("text", pa.string())])


def uneven(stream: Stream) -> DataFrame:
    """Partition p goes p + 1 times as fast through a sequence that belongs to all of them."""
    rows = stream(rows=ROWS).selectExpr(f"sequence % {PARTITIONS} AS partition", "sequence AS value")
    faster = "CAST(value DIV 3 * (partition + 1) * 3 + partition AS long)"
    return rows.selectExpr("partition", f"{faster} AS sequence").repartition(4)


def expected(batches: int) -> tuple[list[int], list[int]]:
    """What is given out after so many batches, and what is held, computed from the rows alone."""
    sequences = [value // 3 * (value % 3 + 1) * 3 + value % 3 for value in range(ROWS * batches)]
    mark = min(max(one for one in sequences if one % 3 == partition) for partition in range(PARTITIONS))
    return sorted(one for one in sequences if one <= mark), sorted(one for one in sequences if one > mark)


class Ledger:
    """A writer that keeps each batch under its number, as documented."""

    def __init__(self, fails_at: Sequence[int] = ()) -> None:
        self.batches: dict[int, list[int]] = {}
        self.fails_at = set(fails_at)

    def write(self, batches: Iterator[Any], number: int) -> None:
        rows = [one for batch in batches for one in batch.column("sequence").to_pylist()]
        assert self.batches.setdefault(number, rows) == rows, "run again, and not the same"
        if number in self.fails_at:
            self.fails_at.remove(number)
            raise RuntimeError("the ledger is away")

    @property
    def rows(self) -> list[int]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]


def writer(ledger: Ledger, partitions: int = PARTITIONS) -> Any:
    return ordered(ledger.write, by="sequence", partition="partition", partitions=partitions)


def test_without_it_batches_overlap_and_with_it_they_do_not(stream: Stream) -> None:
    with pytest.raises(Exception, match="does not grow from batch to batch"):
        run_batches(uneven(stream), ordered(Ledger().write))
    ledger = Ledger()
    run_batches(uneven(stream), writer(ledger), batches=4)
    given, held = expected(len(ledger.batches))
    assert ledger.rows == given
    assert held, "nothing waited, so nothing was tested"


def test_a_later_driver_goes_on_with_what_was_held(stream: Stream, tmp_path: Path) -> None:
    """And a batch that failed gives the same rows again."""
    ledger = Ledger(fails_at=[2])
    with pytest.raises(Exception, match="the ledger is away"):
        run_batches(uneven(stream), writer(ledger), batches=9, checkpoint=tmp_path)
    assert sorted(ledger.batches) == [0, 1, 2]
    for _ in range(2):
        run_batches(uneven(stream), writer(ledger), batches=2, checkpoint=tmp_path)
    assert len(ledger.batches) >= 6
    assert ledger.rows == expected(len(ledger.batches))[0]
    assert (tmp_path / "ordered").is_dir()


def test_held_rows_are_dropped_with_the_batches_that_a_checkpoint_keeps(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = stream().sparkSession
    session.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    try:
        ledger = Ledger()
        run_batches(uneven(stream), writer(ledger), batches=6, checkpoint=tmp_path)
    finally:
        session.conf.unset("spark.sql.streaming.minBatchesToRetain")
    kept = {int(path.name) for path in (tmp_path / "ordered").iterdir() if path.name.isdigit()}
    last = max(ledger.batches)
    assert kept <= {last - 3, last - 2, last - 1, last}
    assert {last - 2, last - 1} <= kept
    for number in kept:
        (tmp_path / "ordered" / str(number)).rename(tmp_path / "ordered" / str(max(0, number - 7)))
    with pytest.raises(Exception, match="has held back is not in the checkpoint"):
        run_batches(uneven(stream), writer(ledger), checkpoint=tmp_path)


def test_what_is_refused(stream: Stream) -> None:
    with pytest.raises(OrderError, match="give both, or neither"):
        ordered(Ledger().write, partition="partition")
    with pytest.raises(OrderError, match="has to be called by foreachBatch"):
        writer(Ledger())(stream().sparkSession.range(3).selectExpr("id AS sequence", "0 AS partition"), 0)
    with pytest.raises(Exception, match="rows of 3 partitions have come, and there should be 2"):
        run_batches(uneven(stream), writer(Ledger(), 2))
    few = HoldBack(column="partition", partitions=5, held_rows_max=100)
    with pytest.raises(Exception, match="rows wait for 2 of 5 partitions, which have given nothing yet"):
        run_batches(uneven(stream), OrderedWriter(Ledger().write, ("sequence",), hold_back=few), batches=4)
    again = stream(rows=ROWS).selectExpr("sequence % 60 AS sequence", "0 AS partition")
    with pytest.raises(Exception, match="does not ascend inside each 'partition'"):
        run_batches(again, writer(Ledger(), 1))
    nowhere = stream().selectExpr("sequence", "nullif(0, 0) AS partition")
    with pytest.raises(Exception, match="rows have no 'partition'"):
        run_batches(nowhere, writer(Ledger(), 1))
    with pytest.raises(Exception, match="no column 'partition'; they have sequence, key"):
        run_batches(stream(), writer(Ledger(), 1))


def test_a_file_of_held_rows() -> None:
    file = io.BytesIO()
    rows = pa.record_batch({"sequence": [98, 118], "text": ["a", None]}, schema=SCHEMA)
    marks = SourceMarks(marks={"0": 118, "t-1": 97}, end=(97, 3))
    write_held(file, SCHEMA, marks, [rows])
    messages: list[bytes] = []
    assert read_held(io.BytesIO(file.getvalue()), SCHEMA, messages.append) == marks
    assert [pa.ipc.read_record_batch(pa.py_buffer(one), SCHEMA) for one in messages] == [rows]
    with pytest.raises(OrderError, match="other columns than those of this one: sequence, text"):
        read_held(io.BytesIO(file.getvalue()), pa.schema([("sequence", pa.int32())]), messages.append)
    newer = file.getvalue().replace(b'"version": 1', b'"version": 2')
    with pytest.raises(OrderError, match="of version 2 cannot be read"):
        read_held(io.BytesIO(newer), SCHEMA, messages.append)
    assert marks.after({"0": 5, "t-1": 120}) == SourceMarks(marks={"0": 118, "t-1": 120}, end=(97, 3))
    assert marks.waits_for(2) == "partition t-1, whose last sequence is 97"


def test_one_time_in_two_partitions_is_told_apart_by_the_partition() -> None:
    """And is given out when both have come as far."""
    rows = pa.record_batch({"sequence": [5, 7, 5, 6], "partition": [0, 1, 1, 1]})
    spool = ArrowSpool(rows.schema, ("sequence", "partition"))
    spool.add(rows.serialize().to_pybytes())
    spool.cut()
    marks = HoldBack(column="partition", partitions=2).hold(SourceMarks(), 0, spool)
    assert marks == SourceMarks(marks={"0": 5, "1": 7}, end=(5, 1))
    given, held = (
        [row for batch in some for row in batch.to_pylist()] for some in (spool.in_order(), spool.held_in_order())
    )
    assert [(row["sequence"], row["partition"]) for row in given] == [(5, 0), (5, 1)]
    assert [row["sequence"] for row in held] == [6, 7]
    spool.close()
