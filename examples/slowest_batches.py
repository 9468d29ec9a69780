"""Which batches of a query were slow, and how fast its state grows: read from the journal, now or later.

    python examples/slowest_batches.py sos://payments/q1 --servers a:7400,b:7400,c:7400

The log knows batches that Spark has purged from the checkpoint long ago.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from spark_integration.datasource import register


def slowest_batches(batches: DataFrame, count: int) -> DataFrame:
    """The longest, from plan to commit."""
    committed = batches.where("committed is not null")
    return (
        committed.select("query", "batch", "planned", "duration_ms", "state_files")
        .orderBy(F.desc("duration_ms"))
        .limit(count)
    )


def state_growth(records: DataFrame) -> DataFrame:
    """For each minute: how many bytes of state were written, and how many in all."""
    state = records.where("kind in ('put', 'commit') and path like '%/state/%'")
    minutes = state.groupBy(F.date_trunc("minute", "time").alias("minute")).agg(
        F.count("*").alias("files"), F.sum("payload_bytes").alias("bytes")
    )
    return minutes.selectExpr("minute", "files", "bytes", "sum(bytes) over (order by minute) as bytes_in_all").orderBy(
        "minute"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("location", help="sos://VOLUME/QUERY")
    parser.add_argument("--servers", required=True, help="the SOS servers, HOST:PORT,…")
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    register(spark)
    journal = spark.read.format("sos-journal").option("servers", options.servers)
    slowest_batches(journal.option("table", "batches").load(options.location), options.count).show(truncate=False)
    state_growth(journal.option("table", "records").load(options.location)).show(100, truncate=False)


if __name__ == "__main__":
    main()
