"""Streaming queries in one warm Spark, timed. Started by spark_suite; one line of JSON asks for a run, one answers.

A query reads from `rate-micro-batch` (a batch of 100 rows whenever the one before is done) and writes nowhere, so
what a batch costs is Spark's own work and the checkpoint. Both sides of a comparison run in the same JVM, in turn:
neither profits from a warmer one.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

from journal.checkpoint.spark_settings import MANAGER_SETTING
from tests.benchmarks.asked_spark import answer_all, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

DEFAULT_MANAGER: Final = "default"
FILE_SYSTEM_MANAGER: Final = "file-system"
SOS_MANAGER: Final = "sos"
SECONDS_MAX: Final = 600.0
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STATE_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
FILE_SYSTEM_CLASS: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
PARTITIONS_KEY: Final = "spark.sql.shuffle.partitions"
PARTITIONS: Final = 2
SERVICE_KEY: Final = "fs.sos.service"
MANAGERS: Final = {FILE_SYSTEM_MANAGER: FILE_SYSTEM_CLASS, DEFAULT_MANAGER: None}
"""Those that are not ours, by name; None: what Spark takes when nobody asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One query: where its checkpoint is, who keeps it, how many batches count."""

    checkpoint: str
    manager: str
    service: str = ""
    stateful: bool = False
    joined_partitions: int = 0
    """Not 0: two sources are joined, with four stores of state in each of so many partitions."""
    batches: int = 20
    warm_up: int = 5
    rows: int = 100
    row_bytes: int = 0
    """0: rows are as the source makes them; else texts of so many bytes."""
    relay: str = ""
    connect: str = ""
    """Where a connector sink listens; none: the rows go nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Medians of the batches of one run, in milliseconds."""

    batch_ms: float
    """triggerExecution: all of a batch."""
    checkpoint_ms: float
    """walCommit and commitOffsets: what the driver waits for its two files. State is written within the tasks."""


def main() -> None:
    """The first argument is the address of a journal service, for the settings that stay."""
    spark = session(sys.argv[1])
    ours = spark.conf.get(MANAGER_SETTING)
    try:
        answer_all(spark.version, lambda asked: asdict(timed_run(spark, configured(spark, Run(**asked), ours))))
    finally:
        spark.stop()


def session(service: str) -> SparkSession:
    from spark_integration import with_sos_checkpoints

    builder = SparkSession.builder.master("local[2]").appName("bench").config("spark.ui.enabled", "false")
    builder = builder.config(PARTITIONS_KEY, PARTITIONS).config("spark.log.level", "ERROR")
    builder = builder.config("spark.sql.streaming.numRecentProgressUpdates", "1000")
    builder = builder.config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    return with_sos_checkpoints(builder, volume="bench", service=[service]).getOrCreate()


def configured(spark: SparkSession, run: Run, ours: str | None) -> Run:
    """What a query takes over from its session when it starts: the manager, the service, the state store."""
    managers = {SOS_MANAGER: ours} | MANAGERS
    wanted = {
        MANAGER_SETTING: managers[run.manager],
        SERVICE_KEY: run.service or None,
        STATE_PROVIDER: ROCKSDB if run.stateful else None,
        PARTITIONS_KEY: str(run.joined_partitions or PARTITIONS),
    }
    for key, value in wanted.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)
    return run


def timed_run(spark: SparkSession, run: Run) -> Timing:
    """Of the batches after the warm-up."""
    query = start(spark, run)
    done = counted(query, warm_up=run.warm_up, batches=run.batches, seconds_max=SECONDS_MAX)
    return Timing(
        batch_ms=statistics.median(durations["triggerExecution"] for durations in done),
        checkpoint_ms=statistics.median(durations["walCommit"] + durations["commitOffsets"] for durations in done),
    )


def start(spark: SparkSession, run: Run) -> StreamingQuery:
    source = numbers(spark, run)
    frame: DataFrame = source
    mode = "append"
    if run.joined_partitions:
        frame = source.join(numbers(spark, run), "value").select("value")
    if run.stateful:
        frame, mode = source.groupBy((source.value % 1000).alias("key")).count(), "update"
    if run.row_bytes:
        frame = frame.selectExpr(f"lpad(string(value), {run.row_bytes}, '-') AS value")
    writer: Any = frame.writeStream.outputMode(mode).option("checkpointLocation", run.checkpoint)
    if run.connect:
        return writer.format("sos-connector").option("connect", run.connect).option("relay", run.relay).start()
    return writer.format("noop").start()


def numbers(spark: SparkSession, run: Run) -> DataFrame:
    made = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", run.rows)
    return made.option("numPartitions", 2).load()


if __name__ == "__main__":
    main()
