"""Arrow batches in order: any rows in any batches, kinds of sequences, what is refused, and memory. No Spark."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_integration.order.arrow_spool import RUNS_OF_BATCH_MAX, ArrowSpool
from spark_integration.order.errors import OrderError
from spark_integration.order.sequence import column_names, packing_of, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).resolve().parents[3]


@pytest.fixture
def spools() -> Iterator[list[ArrowSpool]]:
    opened: list[ArrowSpool] = []
    yield opened
    for spool in opened:
        spool.close()


def filled(batches: Sequence[Any], by: str | tuple[str, ...] = "sequence") -> ArrowSpool:
    spool = ArrowSpool(batches[0].schema, column_names(by))
    for batch in batches:
        spool.add(batch.serialize().to_pybytes())
    spool.cut()
    return spool


def batch(sequences: Sequence[Any], **more: Sequence[Any]) -> Any:
    return pa.RecordBatch.from_pydict({"sequence": sequences, "text": [f"row {one}" for one in sequences], **more})


def given_out(spool: ArrowSpool) -> list[Any]:
    try:
        return [row for rows in spool.in_order() for row in rows.to_pylist()]
    finally:
        spool.close()


@given(st.lists(st.lists(st.integers(0, 2**40), max_size=60), min_size=1, max_size=8), st.randoms())
def test_any_rows_in_any_batches(lists: list[list[int]], chance: Any) -> None:
    distinct = list(dict.fromkeys(sequence for one in lists for sequence in one))
    cuts = sorted(chance.choices(range(len(distinct) + 1), k=5))
    batches = [distinct[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(distinct)], strict=True)]
    typed = [batch(one) if one else batch([0]).slice(1) for one in batches]
    spool = filled(typed)
    assert spool.bounds() == (((min(distinct),), (max(distinct),)) if distinct else None)
    assert given_out(spool) == [{"sequence": one, "text": f"row {one}"} for one in sorted(distinct)]


def test_batches_that_do_not_overlap_are_not_copied() -> None:
    spool = filled([batch([10, 11, 12]), batch([1, 2, 3])])
    assert [rows.column("sequence").to_pylist() for rows in spool.in_order()] == [[1, 2, 3], [10, 11, 12]]
    assert spool.sorted_batches == 0
    spool.close()


def test_short_runs_are_sorted_first() -> None:
    down = list(range(2 * RUNS_OF_BATCH_MAX, 0, -1))
    spool = filled([batch(down), batch([100, 99]), batch([3000, 2000])])
    assert (spool.sorted_batches, len(spool.runs)) == (1, 3)
    assert [row["text"] for row in given_out(spool)] == [f"row {one}" for one in [*sorted(down), 99, 100, 2000, 3000]]


def test_a_part_tells_rows_of_one_sequence_apart() -> None:
    rows = [batch([5, 7, 5], part=[1, 0, 0]), batch([6, 5], part=[-3, 2])]
    told = [(row["sequence"], row["part"]) for row in given_out(filled(rows, ("sequence", "part")))]
    assert told == [(5, 0), (5, 1), (5, 2), (6, -3), (7, 0)]
    spool = filled(rows, ("sequence", "part"))
    assert spool.bounds() == ((5, 0), (7, 0))
    spool.close()
    with pytest.raises(OrderError, match="by=\\('sequence', 'pos'\\)"):
        given_out(filled(rows))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([3, 1, 2], pa.int32()),
        ([datetime.date(2026, 1, day) for day in (3, 1, 2)], pa.date32()),
        (
            [datetime.datetime(2026, 1, 1, 0, 0, day, tzinfo=datetime.UTC) for day in (3, 1, 2)],
            pa.timestamp("us", "UTC"),
        ),
        ([decimal.Decimal(one) for one in (3, 1, 2)], pa.decimal128(20, 0)),
    ],
    ids=["int", "date", "timestamp", "decimal"],
)
def test_kinds_of_sequences(values: list[Any], kind: Any) -> None:
    spool = filled([pa.RecordBatch.from_pydict({"sequence": pa.array(values, kind)})])
    assert [row["sequence"] for row in given_out(spool)] == sorted(values)


def test_what_is_no_sequence_is_refused() -> None:
    with pytest.raises(OrderError, match="1 rows have no 'sequence'"):
        whole_numbers(pa.array([1, None]), "sequence")
    with pytest.raises(OrderError, match="'sequence' is double"):
        whole_numbers(pa.array([1.5]), "sequence")
    with pytest.raises(OrderError, match="no column 'offset'; they have sequence, text"):
        ArrowSpool(batch([1]).schema, ("offset",))
    with pytest.raises(OrderError, match="one column, or two"):
        column_names(("a", "b", "c"))
    far = whole_numbers(pa.array([0, 2**62]), "sequence")
    with pytest.raises(OrderError, match="more than 2\\^63"):
        packing_of([(far, whole_numbers(pa.array([0, 9]), "part"))])


MANY_RUNS: Final = """
import resource, sys
import numpy as np, pyarrow as pa
from spark_integration.order.arrow_spool import ArrowSpool

runs, rows = int(sys.argv[1]), int(sys.argv[2])
chance = np.random.default_rng(7)
owner = chance.integers(0, runs, rows).astype(np.int16)
by_owner = np.argsort(owner, kind="stable")
ends = np.searchsorted(owner[by_owner], np.arange(runs + 1))
spool = None
for run in range(runs):
    own = pa.array(by_owner[ends[run] : ends[run + 1]])
    batch = pa.record_batch({"sequence": own, "payload": own.cast(pa.string())})
    spool = spool or ArrowSpool(batch.schema, ("sequence",))
    spool.add(batch.serialize().to_pybytes())
del owner, by_owner
spool.cut()
expected = 0
for batch in spool.in_order():
    sequences = batch.column(0).to_numpy()
    assert sequences[0] == expected and (np.diff(sequences) == 1).all()
    assert batch.column(1)[0].as_py() == str(expected)
    expected += len(sequences)
assert expected == rows, expected
print(len(spool.runs), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_ten_million_rows_in_4096_runs_on_one_gibibyte() -> None:
    """All of the process counts: Python, the pages of the mapped file, and making the input."""
    command = [sys.executable, "-c", MANY_RUNS, "4096", "10000000"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    runs, mebibytes = (int(word) for word in told.split())
    assert runs >= 4095  # two may follow each other by chance
    assert mebibytes < 1024
