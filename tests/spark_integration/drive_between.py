"""A driver that runs each kind of query between a listener and sinks, until it is killed.

python -m tests.spark_integration.drive_between SPECIFICATION.json

Says `running` when all have started, `failed REASON` when one fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from spark_integration.pipelines.queries import EVERYWHERE, ON_ROCKSDB
from spark_integration.pipelines.records import SCHEMA
from tests.spark_integration.drive_queries import PROVIDERS, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from spark_integration.pipelines.queries import Query

FORMAT: Final = "sos-connector"
KINDS: Final = (*EVERYWHERE, ON_ROCKSDB)
PROVIDER: Final = "changelog"
_LOOK_SECONDS: Final = 0.2


def messages(spark: SparkSession, specification: dict[str, Any]) -> DataFrame:
    """The records that were sent, as the queries want them."""
    source = spark.readStream.format(FORMAT)
    source = source.options(volume="records", service=specification["files"], maxRowsPerBatch="40")
    record = F.from_json(F.col("value").cast("string"), SCHEMA).alias("record")
    return source.load().select(record).select("record.*")


def start(spark: SparkSession, specification: dict[str, Any], query: Query) -> StreamingQuery:
    """Each row of it is a JSON object at the sink."""
    rows = query.build(messages(spark, specification)).select(F.to_json(F.struct("*")).alias("value"))
    return (
        rows.writeStream.format(FORMAT)
        .outputMode(query.output_mode)
        .queryName(query.name)
        .option("connect", specification["sinks"][query.name])
        .option("relay", specification["relay"])
        .option("checkpointLocation", f"sos://payments/between/{query.name}")
        .trigger(processingTime="0 seconds")
        .start()
    )


def main() -> None:
    specification = json.loads(Path(sys.argv[1]).read_text())
    spark = session(specification)
    for key, value in PROVIDERS[PROVIDER].items():
        spark.conf.set(key, value)
    queries = [start(spark, specification, query) for query in KINDS]
    sys.stdout.write("running\n")
    sys.stdout.flush()
    while True:
        for query in queries:
            try:
                query.awaitTermination(_LOOK_SECONDS)
            except StreamingQueryException as error:
                sys.stdout.write(f"failed {json.dumps(f'{query.name}: {error}')}\n")
                sys.exit(1)


if __name__ == "__main__":
    main()
