"""A driver that uses with_sos_checkpoints as a user would, in a process of its own: prints what a test wants to know.

python -m tests.spark_integration.drive_session embedded|shards|elsewhere|asleep DIRECTORY
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from pyspark.sql import SparkSession

from spark_integration import session, with_sos_checkpoints
from spark_integration.pipelines.batch_folder import batch_writer
from spark_integration.pipelines.driver_process import descendants
from spark_integration.pipelines.queries import TOTALS, records_stream

PLAIN_TOKEN: Final = "5ec7e7" * 10 + "5ec7"


def pretend_executors_are_elsewhere() -> None:
    """As with a cluster: certificate and token for the run. The address is still this host's loopback, by its name."""
    session._Target.executors_are_here = property(lambda _: False)  # type: ignore[assignment, method-assign]
    session._own_host = lambda _: "localhost"  # type: ignore[assignment]


def told_settings(place: Path) -> dict[str, str]:
    """Spark tells all that it can, and knows a token as those who use plain settings give it."""
    (place / "events").mkdir(exist_ok=True)
    return {
        "spark.hadoop.fs.sos.token": PLAIN_TOKEN,
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.logConf": "true",
        "spark.log.level": "INFO",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{place}/events",
    }


def stop_while_the_service_sleeps(spark: SparkSession, companion: int) -> float:
    """How long query.stop() takes when the query waits for an answer that does not come."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = source.writeStream.format("noop").option("checkpointLocation", "sos://payments/endless").start()
    while query.lastProgress is None:
        time.sleep(0.1)
    (service,) = [
        pid for pid in descendants(companion) if b"journal\0serve" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(service, signal.SIGSTOP)
    try:
        time.sleep(2)  # long enough for it to wait
        began = time.monotonic()
        query.stop()
        return time.monotonic() - began
    finally:
        os.kill(service, signal.SIGCONT)


def main() -> None:
    mode, place = sys.argv[1], Path(sys.argv[2])
    if mode == "elsewhere":
        pretend_executors_are_elsewhere()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.local.dir", str(place / "spark"))
    if mode == "elsewhere":
        for key, value in told_settings(place).items():
            builder = builder.config(key, value)
    shards = 2 if mode == "shards" else None
    spark = with_sos_checkpoints(builder, volume="payments", directory=place / "volume", shards=shards).getOrCreate()
    output = place / "output"
    output.mkdir(exist_ok=True)
    query = (
        TOTALS.build(records_stream(spark, place / "input"))
        .writeStream.outputMode("update")
        .option("checkpointLocation", "sos://payments/q")
        .foreachBatch(batch_writer(output))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    beside = session._running["payments"]
    stopped_seconds = stop_while_the_service_sleeps(spark, beside.companion_pid) if mode == "asleep" else 0.0
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    report = {
        "companion": beside.companion_pid,
        "service": beside.address,
        "settings": dict(spark.sparkContext.getConf().getAll()),
        "stopped_seconds": stopped_seconds,
        "token": hadoop.get("fs.sos.token"),
        "told": _told(spark) if mode == "elsewhere" else "",
    }
    sys.stdout.write(f"done {json.dumps(report)}\n")
    sys.stdout.flush()
    time.sleep(600)


def _told(spark: SparkSession) -> str:
    """What the page of settings shows, as its REST interface gives it."""
    context = spark.sparkContext
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/environment"
    with urlopen(url) as answer:
        text: str = answer.read().decode()
    return text


if __name__ == "__main__":
    main()
