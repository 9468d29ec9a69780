"""Queries over one of two sources in one warm Spark, timed. Started by source_suite; a line of JSON asks for a run.

python -m tests.benchmarks.source_query FILES_ADDRESS FOLDER
"""

from __future__ import annotations

import itertools
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

from spark_integration.jar import jar_path
from tests.benchmarks.asked_spark import answer_all, counted

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
    done = counted(query, warm_up=run["warm_up"], batches=run["batches"], seconds_max=SECONDS_MAX)
    return float(statistics.median(one["addBatch"] for one in done))


def main() -> None:
    """Until its input ends."""
    service, folder = sys.argv[1], Path(sys.argv[2])
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars", str(jar_path())).config("spark.log.level", "OFF")
    spark = builder.config("spark.sql.streaming.numRecentProgressUpdates", "1000").getOrCreate()
    numbers = itertools.count()

    def answer(run: dict[str, Any]) -> float:
        return add_batch_ms(rows_of(spark, service, run), folder / f"checkpoint-{next(numbers)}", run)

    answer_all(spark.version, answer)
    spark.stop()


if __name__ == "__main__":
    main()
