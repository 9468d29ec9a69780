"""A query with big state in RocksDB. Started by big_state_suite, for each life of a driver anew.

python -m tests.benchmarks.big_state_query SERVICE FOLDER PARTITIONS: one line of JSON asks for a `Life`, one answers
with what it was like. FOLDER is the machine's own disk: what RocksDB and Spark keep beside the checkpoint.

Rows come from files that say from which number to which they go, so that a batch is as large as its file says, and none
is in progress when the query is stopped. Each row has a text of `ROW_BYTES` that cannot be compressed, and a query that
drops duplicates keeps all of it: a row is read once, written once, and that is what the state store does.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

from journal.checkpoint.spark_settings import MANAGER_SETTING
from spark_integration.pyspark_private import process_jvm
from tests.benchmarks.asked_spark import answer_all
from tests.benchmarks.processes import processor_seconds
from tests.benchmarks.spark_query import MANAGERS, ROCKSDB, STATE_PROVIDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_BYTES: Final = 1024
DRIVER_MEMORY: Final = "4g"
CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
MAINTENANCE: Final = "spark.sql.streaming.stateStore.maintenanceInterval"
UPLOADS_EVERY: Final = "1s"
"""Spark looks every minute for snapshots to upload; here soon, so that a short life has an upload beside batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A query from its start until it has done all that its source has."""

    checkpoint: str
    manager: str
    source: str
    """A directory of files of ranges; each batch takes `files_per_batch` of them."""
    files_per_batch: int = 2
    changelog: bool
    """False: each batch uploads what is new of a snapshot of each partition before it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Milliseconds by what took them, and what RocksDB counted, summed over all partitions."""

    took: dict[str, float]
    counted: dict[str, float]

    @property
    def seconds(self) -> float:
        return self.took["triggerExecution"] / 1000

    @property
    def has_snapshot(self) -> bool:
        """Whether RocksDB was asked for a snapshot of any partition."""
        return self.counted.get("rocksdbCommitCheckpointLatency", 0) > 0


def main() -> None:
    spark = session(sys.argv[1], Path(sys.argv[2]), partitions=int(sys.argv[3]))
    ours = spark.conf.get(MANAGER_SETTING)
    pid = process_jvm().java.lang.ProcessHandle.current().pid()

    def answer(asked: dict[str, Any]) -> Any:
        batches = [asdict(one) for one in live(spark, Life(**asked), ours)]
        return {"batches": batches, "processor_seconds": processor_seconds(pid)}

    try:
        answer_all(spark.version, answer)
    finally:
        spark.stop()


def session(service: str, folder: Path, *, partitions: int) -> SparkSession:
    from spark_integration import with_sos_checkpoints

    builder = SparkSession.builder.master("local[2]").appName("big-state").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", partitions).config("spark.log.level", "ERROR")
    builder = builder.config("spark.local.dir", str(folder)).config("spark.driver.memory", DRIVER_MEMORY)
    builder = builder.config("spark.sql.streaming.numRecentProgressUpdates", "1000")
    builder = builder.config(STATE_PROVIDER, ROCKSDB).config(MAINTENANCE, UPLOADS_EVERY)
    return with_sos_checkpoints(builder, volume="bench", service=[service]).getOrCreate()


def live(spark: SparkSession, life: Life, ours: str | None) -> list[Batch]:
    spark.conf.unset(MANAGER_SETTING)
    if manager := MANAGERS.get(life.manager, ours):
        spark.conf.set(MANAGER_SETTING, manager)
    spark.conf.set(CHANGELOG, str(life.changelog).lower())
    query = rows(spark, life).dropDuplicates().writeStream.format("noop")
    running = query.option("checkpointLocation", life.checkpoint).start()
    running.processAllAvailable()
    running.stop()
    return [batch(one) for one in running.recentProgress if one["numInputRows"] > 0]


def rows(spark: SparkSession, life: Life) -> DataFrame:
    ranges = spark.readStream.schema("first LONG, last LONG").option("maxFilesPerTrigger", life.files_per_batch)
    numbers = ranges.json(life.source).selectExpr("explode(sequence(first, last)) AS number")
    text = f"rpad(string(number), {ROW_BYTES - 1}, '-')"
    return numbers.selectExpr(f"aes_encrypt({text}, '0123456789abcdef', 'CBC', 'PKCS', unhex(repeat('00', 16))) AS row")


def batch(progress: Any) -> Batch:
    counted: dict[str, float] = {}
    for operator in progress["stateOperators"]:
        for name, value in operator["customMetrics"].items():
            counted[name] = counted.get(name, 0) + value
    return Batch(took=dict(progress["durationMs"]), counted=counted)


if __name__ == "__main__":
    main()
