"""A query that notes when it has each row, and says how old the rows were and where that time went.

python -m tests.benchmarks.latency_query FILES_ADDRESS CHECKPOINT_SERVICE

It prints `running` when it reads, and `enough` when it has seen batches that count. At the end of its input it stops
and prints its findings as a line of JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks.spark_query import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

MILLISECONDS: Final = 1e-6
"""Of nanoseconds."""
WARM_UP_BATCHES: Final = 10
"""Do not count: the JVM compiles what it runs often, and messages wait for the first ones."""
COUNTED_BATCHES_MIN: Final = 5


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """Rows of one batch in the hands of the user's code: (sent, taken by the listener), and now."""

    number: int
    rows: list[tuple[float, float]]
    seen_ms: float


def main() -> None:
    """Until its input ends."""
    files, service = sys.argv[1], sys.argv[2]
    spark = session(service)
    seen: list[SeenBatch] = []

    def look(batch: DataFrame, number: int) -> None:
        sent = batch.selectExpr("event_time / 1e6", "unix_micros(received) / 1e3").collect()
        if sent:
            seen.append(SeenBatch(number, [(row[0], row[1]) for row in sent], time.time_ns() * MILLISECONDS))
        if sent and len(seen) == WARM_UP_BATCHES + COUNTED_BATCHES_MIN:
            print("enough", flush=True)

    source = spark.readStream.format("sos-connector").options(volume="bench", service=files, startingOffsets="latest")
    query = source.load().writeStream.foreachBatch(look).option("checkpointLocation", "sos://bench/latency").start()
    print("running", flush=True)
    sys.stdin.read()
    query.processAllAvailable()
    query.stop()
    print(json.dumps(findings(seen[WARM_UP_BATCHES:], query)), flush=True)
    spark.stop()


def findings(batches: list[SeenBatch], query: StreamingQuery) -> dict[str, float]:
    """Percentiles of all rows, and the median of each part of the way, in milliseconds."""
    progress = {entry["batchId"]: entry for entry in query.recentProgress}
    ages = sorted(batch.seen_ms - sent for batch in batches for sent, _ in batch.rows)
    taken, waited, planned, handed, ended = [], [], [], [], []
    for batch in batches:
        entry: Any = progress[batch.number]
        began_ms = 1000 * datetime.fromisoformat(entry["timestamp"].replace("Z", "+00:00")).timestamp()
        took = dict(entry["durationMs"])
        before = sum(took.get(part, 0) for part in ("latestOffset", "getBatch", "queryPlanning", "walCommit"))
        taken += [received - sent for sent, received in batch.rows]
        waited += [began_ms + took.get("latestOffset", 0) - received for _, received in batch.rows]
        planned.append(before)
        handed.append(batch.seen_ms - began_ms - before)
        ended.append(took["triggerExecution"] - (batch.seen_ms - began_ms))
    return {
        "rows": len(ages),
        "batches": len(batches),
        "p50": ages[len(ages) // 2],
        "p99": ages[len(ages) * 99 // 100],
        "send to listener": statistics.median(taken),
        "waiting for the batch before": statistics.median(waited),
        "offsets, planning, their entry in the checkpoint": statistics.median(planned),
        "tasks, and handing the rows over": statistics.median(handed),
        "after the rows: the batch's entry in the checkpoint": statistics.median(ended),
    }


if __name__ == "__main__":
    main()
