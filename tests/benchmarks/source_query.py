"""Queries over one of two sources in one warm Spark, timed. Started by source_suite; a line of JSON asks for a run.

python -m tests.benchmarks.source_query FILES_ADDRESS FOLDER
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

from spark_integration.jar import jar_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SECONDS_MAX: Final = 120.0


def rows_of(spark: SparkSession, service: str, run: dict[str, Any]) -> DataFrame:
    """So many in each batch."""
    if run["own"]:
        own = spark.readStream.format("sos-connector").options(volume="bench", service=service)
        return own.option("maxRowsPerBatch", run["rows"]).load()
    made = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", run["rows"])
    return made.option("numPartitions", 2).load()


def add_batch_ms(rows: DataFrame, checkpoint: Path, run: dict[str, Any]) -> float:
    """The median of those that count."""
    query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    wanted, deadline = run["warm_up"] + run["batches"], time.monotonic() + SECONDS_MAX
    while True:
        done = [dict(one["durationMs"])["addBatch"] for one in query.recentProgress if one["numInputRows"] > 0]
        if len(done) >= wanted:
            break
        if not query.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"only {len(done)} of {wanted} batches: {query.exception()}")
        time.sleep(0.1)
    query.stop()
    return float(statistics.median(done[run["warm_up"] : wanted]))


def main() -> None:
    """Until its input ends."""
    service, folder = sys.argv[1], Path(sys.argv[2])
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars", str(jar_path())).config("spark.log.level", "OFF")
    spark = builder.config("spark.sql.streaming.numRecentProgressUpdates", "1000").getOrCreate()
    for number, line in enumerate(sys.stdin):
        run = json.loads(line)
        print(add_batch_ms(rows_of(spark, service, run), folder / f"checkpoint-{number}", run), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
