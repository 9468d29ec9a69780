"""The pipeline of the Conflux paper (Listing 1): parallel work, a rebalance, more work, and a sink that needs the
source's order.

    python examples/ordered_pipeline.py --rows 200000 --batches 5

filter (15 tasks) → map (15) → rebalance → map (2) → sink. Each step does some work for each row. The sink checks that
the rows come in the order of the source. `--without-order` shows how many do not, if they are written as they come.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from spark_integration import ordered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame


def work(column: str, cycles: int) -> str:
    """As much work for a row as the paper's while loop: hashes of hashes."""
    text = column
    for _ in range(cycles):
        text = f"xxhash64({text})"
    return text


def pipeline(source: DataFrame, *, cycles: int = 50, last_cycles: int = 50, parallelism: int = 2) -> DataFrame:
    """Listing 1, on rows with `value` and `timestamp`. The source has 15 partitions; `parallelism` and `last_cycles`
    are those after the rebalance."""
    filtered = source.filter(f"{work('value', cycles)} != 0 AND value % 7 != 0")
    mapped = filtered.selectExpr("*", f"{work('value + 1', cycles)} AS first")
    return mapped.repartition(parallelism).selectExpr("*", f"{work('first + 2', last_cycles)} AS second")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=200_000, help="of a batch (200000)")
    parser.add_argument("--batches", type=int, default=5, help="(5)")
    parser.add_argument("--without-order", action="store_true", help="write rows as they come, and count")
    options = parser.parse_args()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", options.rows)
    rows = pipeline(source.option("numPartitions", 15).load())
    counts: list[tuple[int, int]] = []

    def write(batches: Iterator[Any], number: int) -> None:
        count = falls = 0
        last = -1
        for batch in batches:
            for value in batch.column("value").to_pylist():
                falls += value < last
                last = value
                count += 1
        counts.append((count, falls))
        sys.stdout.write(f"batch {number}: {count} rows, {falls} of them after one that the source gave later\n")

    def as_they_come(frame: DataFrame, number: int) -> None:
        write(iter(frame.toArrow().to_batches()), number)

    with tempfile.TemporaryDirectory() as folder:
        function = as_they_come if options.without_order else ordered(write, by="value")
        query = rows.writeStream.foreachBatch(function).option("checkpointLocation", folder).start()
        while len(counts) < options.batches and query.isActive:
            time.sleep(0.1)
        query.stop()
        if (failed := query.exception()) is not None:
            raise failed
    spark.stop()
    return 1 if not options.without_order and any(falls for _, falls in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
