"""A driver between listener and relay, in a process of its own, until it is killed or a query fails.

    python -m tests.chaos.connectors.drive SPECIFICATION.json

Two queries: lines as they came, to two sinks by their number; and of each stream the count and total so far, which
takes a shuffle and state, to one sink. Says `running {...}` and `failed {...}` as spark_integration.pipelines.run does.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from spark_integration.session import with_sos_checkpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

EXIT_QUERY_FAILED: Final = 3
FORMAT: Final = "sos-connector"
_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedSpecification:
    """What the driver is told."""

    local: str
    volume: str
    service: list[str]
    ingest_volume: str
    files: str
    relay: str
    sinks: dict[str, str]
    """By query: the option connect."""
    master: str = "local[2]"
    trigger_milliseconds: int = 200
    settings: dict[str, str] = field(default_factory=dict)


def plain(messages: DataFrame) -> DataFrame:
    """Each line, and its number as the key."""
    value = F.col("value").cast("string")
    return messages.select("value", F.split(value, " ")[1].alias("key"))


def totals(messages: DataFrame) -> DataFrame:
    """STREAM COUNT SUM."""
    words = F.split(F.col("value").cast("string"), " ")
    lines = messages.select(words[0].alias("stream"), words[2].cast("long").alias("amount"))
    summed = lines.groupBy("stream").agg(F.count("*").alias("count"), F.sum("amount").alias("sum"))
    return summed.select(F.concat_ws(" ", "stream", "count", "sum").alias("value"))


QUERIES: Final = {"plain": (plain, "append"), "totals": (totals, "update")}


def start_session(specification: ConnectedSpecification) -> SparkSession:
    """Spark with its checkpoints on the volume."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": specification.local,
        **specification.settings,
    }
    builder = SparkSession.builder.master(specification.master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    builder = with_sos_checkpoints(builder, volume=specification.volume, service=specification.service)
    spark: SparkSession = builder.getOrCreate()
    return spark


def start_query(spark: SparkSession, specification: ConnectedSpecification, name: str) -> StreamingQuery:
    """From the listener to this query's sinks."""
    build, output_mode = QUERIES[name]
    source = spark.readStream.format(FORMAT)
    messages = source.options(volume=specification.ingest_volume, service=specification.files).load()
    sink = build(messages).writeStream.format(FORMAT).outputMode(output_mode)
    return (
        sink.option("connect", specification.sinks[name])
        .option("relay", specification.relay)
        .option("checkpointLocation", f"sos://{specification.volume}/queries/{name}")
        .queryName(name)
        .trigger(processingTime=f"{specification.trigger_milliseconds} milliseconds")
        .start()
    )


def main() -> None:
    """Run until something fails."""
    specification = ConnectedSpecification(**json.loads(Path(sys.argv[1]).read_text()))
    spark = start_session(specification)
    queries = [start_query(spark, specification, name) for name in specification.sinks]
    _tell(f"running {json.dumps({'service': specification.service[0]})}")
    while True:
        for query in queries:
            try:
                ended = query.awaitTermination(_LOOK_SECONDS)
                reason = "it ended"
            except StreamingQueryException as error:
                ended, reason = True, str(error)
            if ended:
                _tell(f"failed {json.dumps({'query': query.name, 'error': reason})}")
                sys.exit(EXIT_QUERY_FAILED)


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
