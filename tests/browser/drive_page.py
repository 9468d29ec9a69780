"""A driver as a user writes it, with a page: runs a stateful query until its standard input ends.

python -m tests.browser.drive_page DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from spark_integration import with_sos_checkpoints

if __name__ == "__main__":
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.ui.enabled", "false")
    builder = with_sos_checkpoints(builder, volume="payments", directory=Path(sys.argv[1]), web="127.0.0.1:0")
    spark = builder.getOrCreate()
    rates = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    counts = rates.selectExpr("value % 7 AS customer").groupBy("customer").count()
    query = (
        counts.writeStream.outputMode("complete")
        .format("noop")
        .option("checkpointLocation", "sos://payments/totals")
        .trigger(processingTime="300 milliseconds")
        .start()
    )
    sys.stdin.read()
    query.stop()
    spark.stop()
