"""A warm Spark between a listener and a sink, or on its own sources and sinks. Started by end_to_end_suite.

python -m tests.benchmarks.end_to_end_query FOLDER

A line of JSON asks: {"start": {"files", "relay", "connect", "checkpoint"}} begins a query that goes on, {"stop": true}
ends it and answers what its batches took, {"rows", "batches", "warm_up"} runs `rate-micro-batch` into files and answers
rows a second.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks.asked_spark import answer_all, counted, took
from tests.benchmarks.spark_query import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

SECONDS_MAX: Final = 300.0
ROW_BYTES: Final = 100
SHOWN: Final = ("triggerExecution", "addBatch", "walCommit", "commitOffsets", "latestOffset")


def passthrough(spark: SparkSession, told: dict[str, str]) -> StreamingQuery:
    """From the listener to the sink, one batch after the other."""
    source = spark.readStream.format("sos-connector")
    source = source.options(volume="ingest", service=told["files"], startingOffsets="latest")
    sink = source.load().select("value").writeStream.format("sos-connector").option("connect", told["connect"])
    return sink.option("relay", told["relay"]).option("checkpointLocation", told["checkpoint"]).start()


def medians(query: StreamingQuery) -> dict[str, float]:
    """Of its batches with rows, in milliseconds."""
    batches = took(query)
    return {name: statistics.median(one.get(name, 0) for one in batches) for name in SHOWN} if batches else {}


def made_rows_per_second(spark: SparkSession, folder: Path, run: dict[str, Any]) -> float:
    """`rate-micro-batch` into a directory of files of lines."""
    made = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", run["rows"]).option("numPartitions", 2)
    lines = made.load().selectExpr(f"lpad(string(value), {ROW_BYTES}, '-') AS value")
    writer = lines.writeStream.format("text").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.option("path", str(folder / "out")).start()
    done = counted(query, warm_up=run["warm_up"], batches=run["batches"], seconds_max=SECONDS_MAX)
    return float(1000 * run["rows"] * run["batches"] / sum(one["triggerExecution"] for one in done))


def main() -> None:
    """Until its input ends."""
    service, folder = sys.argv[1], Path(sys.argv[2])
    spark = session(service)
    running: list[StreamingQuery] = []
    numbers = itertools.count()

    def answer(asked: dict[str, Any]) -> Any:
        if "start" in asked:
            return running.append(passthrough(spark, asked["start"]))
        if "stop" in asked:
            query = running.pop()
            found = medians(query)
            query.stop()
            return found
        return made_rows_per_second(spark, folder / f"made-{next(numbers)}", asked)

    answer_all(spark.version, answer)
    spark.stop()


if __name__ == "__main__":
    main()
