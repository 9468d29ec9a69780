"""A driver in a process of its own, to be killed: runs queries over the input folder, then says so and waits.

One Spark runs all of them, a state store provider after the other, because starting Spark is most of the work.

python -m tests.spark_integration.drive_queries SPECIFICATION.json
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

from spark_integration import with_sos_checkpoints
from spark_integration.pipelines.batch_folder import batch_writer
from spark_integration.pipelines.queries import EVERYWHERE, ON_ROCKSDB, records_stream
from spark_integration.pipelines.records import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

STATE_STORE: Final = "spark.sql.streaming.stateStore"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_HDFS: Final = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_DEFAULTS: Final = {
    f"{STATE_STORE}.providerClass": _HDFS,
    f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "false",
    f"{STATE_STORE}.checkpointFormatVersion": "1",
    f"{STATE_STORE}.minDeltasForSnapshot": "10",
}
_ON_ROCKSDB: Final = _DEFAULTS | {f"{STATE_STORE}.providerClass": ROCKSDB}
_CHANGELOG: Final = _ON_ROCKSDB | {f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true"}
PROVIDERS: Final[dict[str, dict[str, str]]] = {
    "hdfs": _DEFAULTS,
    "rocksdb": _ON_ROCKSDB,
    "changelog": _CHANGELOG,
    "changelog_v2": _CHANGELOG
    | {f"{STATE_STORE}.checkpointFormatVersion": "2", f"{STATE_STORE}.minDeltasForSnapshot": "2"},
}
"""Each says all that any of them sets: the session that they share keeps what the one before has set."""


def queries_of(provider: str) -> list[str]:
    """What this provider can run."""
    return [query.name for query in EVERYWHERE] + ([] if provider == "hdfs" else [ON_ROCKSDB.name])


def session(specification: dict[str, Any]) -> SparkSession:
    """The session that the specification asks for."""
    builder = SparkSession.builder
    if specification["connect"]:
        builder = builder.remote(specification["master"]).config("spark.connect.grpc.binding.address", "127.0.0.1")
    else:
        builder = builder.master(specification["master"])
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": specification["local"],
        "spark.sql.warehouse.dir": specification["local"] + "/warehouse",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    builder = with_sos_checkpoints(builder, volume="payments", service=[specification["service"]])
    return builder.getOrCreate()


def start_all(spark: SparkSession, specification: dict[str, Any], provider: str) -> dict[str, StreamingQuery]:
    """Those of the queries that this provider can run, over what is in the input folder now."""
    started = {}
    for query in (*EVERYWHERE, ON_ROCKSDB):
        if query.name not in queries_of(provider) or query.name not in specification["queries"]:
            continue
        folder = Path(specification["output"]) / provider / query.name
        folder.mkdir(parents=True, exist_ok=True)
        stream = query.build(records_stream(spark, specification["input"]))
        started[query.name] = (
            stream.writeStream.outputMode(query.output_mode)
            .queryName(f"{provider} {query.name}")
            .option("checkpointLocation", f"sos://payments/{provider}/{query.name}")
            .foreachBatch(batch_writer(folder))
            .trigger(availableNow=True)
            .start()
        )
    return started


def run_file_sink(spark: SparkSession, specification: dict[str, Any]) -> dict[str, list[int]]:
    """Parquet under sos://, written by one query and read by another; metadata, data and checkpoints in the volume."""
    root = "sos://payments/files"
    first = (
        records_stream(spark, specification["input"]).select("id", "key", "value", "at").writeStream.format("parquet")
    )
    first = first.option("checkpointLocation", f"{root}/checkpoint").option("path", f"{root}/data")
    first.trigger(availableNow=True).start().awaitTermination()
    second = spark.readStream.schema(SCHEMA).parquet(f"{root}/data").select("id").writeStream.format("json")
    second = second.option("checkpointLocation", f"{root}/checkpoint2").option("path", f"{root}/again")
    second.trigger(availableNow=True).start().awaitTermination()
    return {
        "data": sorted(row["id"] for row in spark.read.parquet(f"{root}/data").collect()),
        "again": sorted(row["id"] for row in spark.read.schema("id long").json(f"{root}/again").collect()),
    }


def run_async(spark: SparkSession, specification: dict[str, Any]) -> int:
    """Progress is written behind the query's back; how many rows it read in this life. Spark allows few sinks here."""
    stream = records_stream(spark, specification["input"]).writeStream.format("noop")
    stream = stream.option("checkpointLocation", "sos://payments/async")
    stream = stream.option("asyncProgressTrackingEnabled", "true")
    query = stream.option("asyncProgressTrackingCheckpointIntervalMs", "1").trigger(processingTime="0 seconds").start()
    query.processAllAvailable()
    query.stop()
    return sum(progress.numInputRows for progress in query.recentProgress)


def read_state(spark: SparkSession, provider: str) -> dict[str, Any]:
    """The totals as the state data source reads them out of the checkpoint, and which operator its metadata names."""
    checkpoint = f"sos://payments/{provider}/totals"
    rows = spark.read.format("statestore").load(checkpoint).select("key.key", "value.*").collect()
    operators = spark.read.format("state-metadata").load(checkpoint).select("operatorName").distinct().collect()
    return {"totals": {row[0]: row[1] for row in rows}, "operators": [row[0] for row in operators]}


def run_provider(spark: SparkSession, specification: dict[str, Any], provider: str) -> dict[str, Any]:
    """All queries at once, then a look into their state."""
    for key, value in PROVIDERS[provider].items():
        spark.conf.set(key, value)
    queries = start_all(spark, specification, provider)
    for query in queries.values():
        query.awaitTermination()
    return read_state(spark, provider) if "state" in specification["queries"] else {}


def main() -> None:
    """One life: run, report, wait to be killed."""
    specification = json.loads(Path(sys.argv[1]).read_text())
    spark = session(specification)
    report: dict[str, Any] = {"version": spark.version, "state": {}}
    for provider in specification["providers"]:
        report["state"][provider] = run_provider(spark, specification, provider)
    if "files" in specification["queries"]:
        report["files"] = run_file_sink(spark, specification)
    if "async" in specification["queries"]:
        report["async"] = run_async(spark, specification)
    sys.stdout.write(f"done {json.dumps(report)}\n")
    sys.stdout.flush()
    time.sleep(600)


if __name__ == "__main__":
    main()
