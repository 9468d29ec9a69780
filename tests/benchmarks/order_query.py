"""The paper's pipeline with each way to order it, timed in one JVM. Started by order_suite; a line of JSON asks, one
answers.

Every way ends in the same sink: the driver takes the rows of a batch as Arrow, and notes when each came out.
Throughput: batches as fast as they go. Latency: rows at one rate for all, from the moment at which the source made a
row until it came out.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from examples.ordered_pipeline import pipeline
from spark_integration.order.arrow_rows import arrow_messages, arrow_schema
from spark_integration.order.ordered import ordered
from tests.benchmarks.asked_spark import answer_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

ORDERED: Final = "ordered"
UNORDERED: Final = "no order"
ORDER_BY: Final = "foreachBatch(orderBy)"
ONE_TASK: Final = "repartition(1).sortWithinPartitions"
WINDOW: Final = "window, collect_list, sort_array"
WAYS: Final = (ORDERED, UNORDERED, ORDER_BY, ONE_TASK, WINDOW)
SOURCE_TASKS: Final = 15
SECONDS_MAX: Final = 300.0
SHARES: Final = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99)
"""Per cent of the rows: the points of a latency's distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRun:
    """One query. `rows_per_second` at 0: as fast as it goes, `rows_per_batch` at a time."""

    way: str
    rows_per_batch: int = 100_000
    rows_per_second: int = 0
    seconds: float = 10.0
    cycles: int = 50
    last_cycles: int = 0
    """Of the operator after the rebalance; 0: as the others."""
    parallelism: int = 2
    warm_up: int = 2


@dataclass(slots=True, kw_only=True)
class Emitted:
    """What came out of the sink."""

    times: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    latencies: list[Any] = field(default_factory=list)
    falls: int = 0
    _last: int = -1

    def take(self, batches: Iterator[Any], _: int = 0) -> None:
        count = 0
        for batch in batches:
            now = time.time()
            values = batch.column("value").to_numpy()
            if len(values):
                self.falls += int(np.count_nonzero(np.diff(values) < 0)) + int(values[0] < self._last)
                self._last = int(values[-1])
                made = batch.column("timestamp").cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() / 1e6
                self.latencies.append(now - made)
            count += len(values)
        self.times.append(time.time())
        self.counts.append(count)


def sink_of(way: str, emitted: Emitted) -> Callable[[DataFrame, int], None]:
    def fetched(frame: DataFrame) -> None:
        schema = arrow_schema(frame)
        emitted.take(pa.ipc.read_record_batch(pa.py_buffer(one), schema) for one in arrow_messages(frame))

    if way == ORDERED:
        return ordered(emitted.take, by="value")
    if way == ORDER_BY:
        return lambda frame, _: fetched(frame.orderBy("value"))
    if way == ONE_TASK:
        return lambda frame, _: fetched(frame.repartition(1).sortWithinPartitions("value"))
    if way == WINDOW:
        return lambda frame, _: fetched(frame.orderBy("window").selectExpr("explode(rows) AS r").select("r.*"))
    return lambda frame, _: fetched(frame)


def query_of(spark: SparkSession, run: OrderRun) -> DataFrame:
    if run.rows_per_second:
        source = spark.readStream.format("rate").option("rowsPerSecond", run.rows_per_second)
    else:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", run.rows_per_batch)
    rows = pipeline(
        source.option("numPartitions", SOURCE_TASKS).load(),
        cycles=run.cycles,
        last_cycles=run.last_cycles or run.cycles,
        parallelism=run.parallelism,
    )
    if run.way != WINDOW:
        return rows
    collected = sql.sort_array(sql.collect_list(sql.struct("value", "timestamp", "first", "second"))).alias("rows")
    return rows.withWatermark("timestamp", "0 seconds").groupBy(sql.window("timestamp", "1 second")).agg(collected)


def measured(spark: SparkSession, run: OrderRun) -> dict[str, Any]:
    emitted = Emitted()
    writer = query_of(spark, run).writeStream.outputMode("append").foreachBatch(sink_of(run.way, emitted))
    with tempfile.TemporaryDirectory() as folder:
        query = writer.option("checkpointLocation", folder).start()
        deadline = time.monotonic() + SECONDS_MAX
        while _filled(emitted) < run.warm_up and query.isActive and time.monotonic() < deadline:
            time.sleep(0.02)
        begin = len(emitted.times)
        end = time.monotonic() + run.seconds
        while (time.monotonic() < end or len(emitted.times) < begin + 2) and query.isActive:
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        query.stop()
    if (failed := query.exception()) is not None or len(emitted.times) < begin + 2:
        raise RuntimeError(f"{run.way}: {failed or 'too few batches'}")
    if run.way != UNORDERED and emitted.falls:
        raise RuntimeError(f"{run.way}: {emitted.falls} rows came out of order")
    first = max(begin, 1)
    taken = sum(emitted.counts[first:])
    latencies = np.concatenate(emitted.latencies[len(emitted.latencies) // 4 :])
    return {
        "rows_per_second": taken / (emitted.times[-1] - emitted.times[first - 1]),
        "mean_ms": float(latencies.mean() * 1000),
        "latency_ms": [float(one * 1000) for one in np.percentile(latencies, SHARES)],
    }


def _filled(emitted: Emitted) -> int:
    return sum(count > 0 for count in emitted.counts)


def main() -> None:
    builder = SparkSession.builder.master("local[2]").appName("order").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.log.level", "ERROR")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    try:
        answer_all(spark.version, lambda asked: measured(spark, OrderRun(**asked)))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
