"""What docs/order.md promises users, on Spark: total order, the switch, functions of a key, the metric."""

from __future__ import annotations

import contextlib
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions

from spark_integration import OrderError, explain_order, in_sequence, order_violations, ordered, preserve_order
from tests.spark_integration.order.conftest import run_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    Stream = Callable[..., DataFrame]

pytestmark = pytest.mark.spark

PLANS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "narrow": lambda rows: rows.filter("sequence % 7 != 0"),
    "coalesce": lambda rows: rows.coalesce(2),
    "repartition(n)": lambda rows: rows.repartition(4),
    "repartition(key)": lambda rows: rows.repartition(4, "key"),
    "two exchanges": lambda rows: rows.repartition(4).filter("key != 1").repartition(2, "key"),
    "no rows": lambda rows: rows.filter("key > 9"),
}


@pytest.mark.parametrize("plan", PLANS)
def test_ordered_gives_each_batch_in_order(stream: Stream, plan: str) -> None:
    frame = PLANS[plan](stream(rows=3000, partitions=5)).withColumn(
        "text", functions.concat(functions.lit("r"), "sequence")
    )
    seen: list[tuple[int, str]] = []

    def write(batches: Iterator[Any], _: int) -> None:
        for batch in batches:
            seen.extend(zip(batch.column("sequence").to_pylist(), batch.column("text").to_pylist(), strict=True))

    run_batches(frame, ordered(write, by="sequence"), batches=3)
    passes = {"narrow": lambda n: n % 7 != 0, "two exchanges": lambda n: n % 5 != 1, "no rows": lambda _: False}
    kept: Callable[[int], bool] = passes.get(plan, lambda _: True)
    end = seen[-1][0] + 1 if seen else 0
    assert seen == [(number, f"r{number}") for number in range(end) if kept(number)]
    assert end >= 8990 or plan == "no rows"


def test_rows_of_one_row_are_told_apart_by_a_part(stream: Stream) -> None:
    parts = functions.posexplode(functions.array(functions.lit("a"), functions.lit("b")))
    frame = stream(rows=500).select("sequence", parts).repartition(3)
    seen: list[tuple[int, int]] = []

    def write(batches: Iterator[Any], _: int) -> None:
        for batch in batches:
            seen.extend(zip(batch.column("sequence").to_pylist(), batch.column("pos").to_pylist(), strict=True))

    run_batches(frame, ordered(write, by=("sequence", "pos")))
    assert seen == [(number // 2, number % 2) for number in range(len(seen))]
    with pytest.raises(Exception, match="name a column that tells them apart"):
        run_batches(frame, ordered(write, by="sequence"))


def test_a_join_of_two_streams_is_ordered_by_the_later_row(stream: Stream) -> None:
    """Spark gives a pair out when its second row comes: the higher sequence of both grows from batch to batch."""
    left = stream().filter("sequence % 3 = 0").withColumnRenamed("sequence", "bid")
    right = stream().filter("sequence % 3 = 1").withColumnRenamed("sequence", "ask")
    joined = left.join(right, "key")
    batches: dict[int, list[tuple[int, int]]] = {}

    def as_they_come(rows: DataFrame, number: int) -> None:
        batches[number] = [(row["bid"], row["ask"]) for row in rows.collect()]

    def write(given: Iterator[Any], number: int) -> None:
        batches[number] = [(row["bid"], row["ask"]) for batch in given for row in batch.to_pylist()]

    def pairs(of: int) -> list[tuple[int, int]]:
        rows = range(60 * of)
        return [(bid, ask) for bid in rows if bid % 3 == 0 for ask in rows if ask % 3 == 1 and bid % 5 == ask % 5]

    run_batches(joined, as_they_come)
    come = [pair for number in sorted(batches) for pair in batches[number]]
    assert sorted(come) == pairs(len(batches))
    assert come != sorted(come)
    assert min(batches[1]) < max(batches[0]), "no side keeps its order from batch to batch"
    with pytest.raises(OrderError, match=r"StreamingSymmetricHashJoin.*the left side's rows first"):
        preserve_order(joined, sequence="bid", key="key")
    with pytest.raises(Exception, match="does not grow from batch to batch"):
        run_batches(joined, ordered(write, by=("bid", "ask")))
    batches.clear()
    later = joined.selectExpr("bid", "ask", "greatest(bid, ask) AS later", "least(bid, ask) AS earlier")
    run_batches(later, ordered(write, by=("later", "earlier")))
    given = [pair for number in sorted(batches) for pair in batches[number]]
    assert given == sorted(pairs(len(batches)), key=lambda pair: (max(pair), min(pair)))


def test_joins_with_tables_are_passed_where_the_streamed_side_keeps_its_order(
    stream: Stream, spark: SparkSession
) -> None:
    names = spark.range(5).selectExpr("id AS key", "'n' || id AS name")

    def judged(how: str, kind: str = "inner", **more: Any) -> DataFrame:
        return preserve_order(stream().join(names.hint(how), "key", kind), key="key", **more)

    for kind in ("inner", "left", "left_semi", "left_anti"):
        judged("broadcast", kind)
        judged("shuffle_hash", kind, source="keys")
    with pytest.raises(OrderError, match="the blocks of several tasks come in any order"):
        judged("shuffle_hash")
    with pytest.raises(OrderError, match="stable only until it spills"):
        judged("merge", source="keys")
    seen: list[int] = []

    def write(batches: Iterator[Any], _: int) -> None:
        seen.extend(one for batch in batches for one in batch.column("sequence").to_pylist())

    run_batches(stream().join(names.hint("merge"), "key"), ordered(write))
    assert seen == list(range(len(seen)))


def test_what_a_sequence_is_not(stream: Stream) -> None:
    def write(batches: Iterator[Any], _: int) -> None:
        list(batches)

    with pytest.raises(Exception, match="does not grow from batch to batch"):
        run_batches(stream().withColumn("sequence", functions.col("sequence") % 60), ordered(write, by="sequence"))
    with pytest.raises(Exception, match="have no 'sequence'"):
        run_batches(stream().withColumn("sequence", functions.expr("nullif(sequence, 3)")), ordered(write))
    with pytest.raises(Exception, match="no column 'offset'; they have sequence, key"):
        run_batches(stream(), ordered(write, by="offset"))


def test_a_writer_that_fails_gets_the_same_batch_again(stream: Stream) -> None:
    """As Spark's foreachBatch does: the function is called again with the same number."""
    seen: list[tuple[int, int]] = []

    def write(batches: Iterator[Any], number: int) -> None:
        rows = [one for batch in batches for one in batch.column("sequence").to_pylist()]
        seen.append((number, rows[0]))

    function = ordered(write)
    run_batches(stream(), lambda rows, number: [function(rows, number) for _ in range(2)])
    assert seen[:4] == [(0, 0), (0, 0), (1, 60), (1, 60)]


def test_the_switch_passes_and_refuses_at_the_start(stream: Stream) -> None:
    kept = stream().filter("key > 1").coalesce(2)
    assert preserve_order(kept, key="key") is kept
    assert preserve_order(kept) is kept
    by_key = stream().repartition(4, "key")
    assert preserve_order(by_key, key="key", source="keys") is by_key
    with pytest.raises(OrderError, match=r"line 3 of the plan, 'Exchange RoundRobin.*is broken.*Three ways out"):
        preserve_order(stream().repartition(4), key="key")
    with pytest.raises(OrderError, match="blocks of several tasks come in any order"):
        preserve_order(by_key, key="key")
    with pytest.raises(OrderError, match="no column 'offset'"):
        preserve_order(kept, sequence="offset")
    with pytest.raises(OrderError, match='source="keys" needs key='):
        preserve_order(kept, source="keys")
    with pytest.raises(OrderError, match="source is"):
        preserve_order(kept, source="topics")  # type: ignore[arg-type]


def test_a_wide_row_does_not_hide_its_key(stream: Stream, spark: SparkSession) -> None:
    wide = (
        stream().select(*[functions.lit(n).alias(f"c{n}") for n in range(40)], "sequence", "key").repartition(2, "key")
    )
    assert preserve_order(wide, key="key", source="keys") is wide
    assert spark.conf.get("spark.sql.debug.maxToStringFields") == "25"


def test_stages_that_deal_out_differently_when_run_again_are_refused(stream: Stream, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.execution.sortBeforeRepartition", "false")
    try:
        with pytest.raises(OrderError, match="loses and doubles rows"):
            preserve_order(stream().repartition(4), key="key")
    finally:
        spark.conf.unset("spark.sql.execution.sortBeforeRepartition")


def test_the_switch_sees_the_plan_of_each_batch_before_it_is_written(stream: Stream) -> None:
    written: list[int] = []

    def write(rows: DataFrame, number: int) -> None:
        preserve_order(rows, key="key", source="keys")
        written.append(number)

    run_batches(stream().repartition(3, "key"), write)
    assert written[:2] == [0, 1]
    with pytest.raises(Exception, match="RoundRobinPartitioning"):
        run_batches(stream().repartition(3), write)
    assert written == list(range(len(written)))


def test_the_switch_sees_what_foreachbatch_adds(stream: Stream) -> None:
    with pytest.raises(Exception, match="hashpartitioning"):
        run_batches(stream(), lambda rows, _: preserve_order(rows.repartition(2, "key"), key="key"))
    run_batches(stream(), lambda rows, _: preserve_order(rows.filter("key > 1"), key="key"))


def test_the_switch_stops_a_running_query(stream: Stream, tmp_path: Any) -> None:
    def started(frame: DataFrame, name: str) -> Any:
        return frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / name)).start()

    fine = started(stream(), "fine")
    broken = started(stream().repartition(2), "broken")
    try:
        assert preserve_order(fine, key="key") is fine
        with contextlib.suppress(OrderError):  # raised if it had a batch already
            preserve_order(broken, key="key")
        deadline = time.monotonic() + 600
        while broken.isActive and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not broken.isActive
        assert fine.isActive
    finally:
        fine.stop()
        broken.stop()


def test_the_plan_is_explained(stream: Stream, capsys: pytest.CaptureFixture[str]) -> None:
    frame = stream().repartition(2, "key")
    explain_order(frame, key="key")
    assert "OUT OF ORDER" in capsys.readouterr().out
    explain_order(frame, key="key", source="keys", as_json=True)
    assert json.loads(capsys.readouterr().out)["order"] == "kept"


def test_functions_of_a_key_get_their_rows_in_order(spark: SparkSession) -> None:
    """A sort by key that spills: half of a key's rows come out of order without the wrapper."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    rows = spark.range(0, 20000, 1, 4).selectExpr("id AS sequence", "id % 3 AS key")

    def falls(group: Any) -> Any:
        import pandas as pd

        return pd.DataFrame({"key": [group["key"].iloc[0]], "falls": [int((group["sequence"].diff() < 0).sum())]})

    def falls_with_key(_: Any, group: Any) -> Any:
        return falls(group)

    try:
        grouped = rows.repartition(3, "key").groupBy("key")
        for function in (falls, falls_with_key):
            assert {
                row.falls for row in grouped.applyInPandas(in_sequence(function), "key long, falls long").collect()
            } == {0}
        with pytest.raises(OrderError, match="of one to three arguments"):
            in_sequence(lambda: None)
        frame = rows.groupBy("key").applyInPandas(in_sequence(lambda group: group), rows.schema)
        assert preserve_order(frame, key="key") is frame
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


def test_the_examples_of_the_document_run(spark: SparkSession, tmp_path: Path) -> None:
    """One after the other, as a reader types them."""
    text = (Path(__file__).parents[3] / "docs/order.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"spark": spark, "__name__": "__main__"}
    try:
        for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            exec(code.replace("/data/", f"{tmp_path}/"), names)
        for query in (names["ledger"], names["orders"]):
            while query.isActive and (query.lastProgress or {"batchId": 0})["batchId"] < 2:
                time.sleep(0.1)
            assert query.exception() is None
    finally:
        for query in spark.streams.active:
            query.stop()
    rows = [json.loads(line) for batch in (0, 1) for line in (tmp_path / f"ledger-{batch}.jsonl").open()]
    assert [(row["sequence"], row["price"]) for row in rows] == [(number, number * 1.5) for number in range(2000)]
    latest = spark.read.parquet(str(tmp_path / "orders")).filter("sequence < 2000")
    assert sorted(row["sequence"] for row in latest.collect()) == [
        995,
        996,
        997,
        998,
        999,
        1995,
        1996,
        1997,
        1998,
        1999,
    ]


def test_violations_are_counted(stream: Stream, spark: SparkSession) -> None:
    from tests.spark_integration.order.counting import falls_in_tasks

    in_order = spark.range(0, 1000, 1, 2).selectExpr("id AS sequence", "id % 7 AS key")
    assert falls_in_tasks(in_order, "key") == 0
    turned = in_order.orderBy(functions.desc("sequence")).coalesce(1)
    assert falls_in_tasks(turned, None) == 999
    assert falls_in_tasks(turned, "key") == 1000 - 7
    seen: list[int] = []
    query = order_violations(stream(rows=300).repartition(2), key="key").writeStream.format("noop").start()
    deadline = time.monotonic() + 600
    while not seen and time.monotonic() < deadline:
        seen = [
            one["observedMetrics"]["order_violations"].violations for one in query.recentProgress if one["numInputRows"]
        ]
        time.sleep(0.1)
    query.stop()
    assert seen[0] > 0
