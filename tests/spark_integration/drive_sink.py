"""A driver in a process of its own that sends lines of files to connector sinks, one query after the other.

    python -m tests.spark_integration.drive_sink SPECIFICATION.json

Each query runs until it has taken what its input folder has, or fails. Then it prints `done {"NAME": REASON, ...}`, the
reason of a query that did not fail being null, and ends.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_integration import with_sos_checkpoints

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from pyspark.sql import DataFrame

FORMAT = "sos-connector"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkQuery:
    """Lines of the files of a folder, a batch for each file, through these SQL expressions."""

    name: str
    input: str
    select: list[str]
    options: dict[str, str]
    output_mode: str = "append"
    group_by: str | None = None
    partitions: int | None = None
    fails_first: bool = False
    """The first attempt of each task fails, with half of its rows written."""
    is_stream: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSpecification:
    """What the driver is told. `service` None: what it needs is started beside it, the relay, too."""

    service: str | None
    local: str
    queries: list[SinkQuery]
    master: str = "local[2]"
    settings: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> SinkSpecification:
        told: dict[str, Any] = json.loads(path.read_text())
        return cls(**told | {"queries": [SinkQuery(**query) for query in told["queries"]]})

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))


def run(spark: SparkSession, query: SinkQuery) -> str | None:
    """Why it failed, if it did."""
    try:
        if not query.is_stream:
            lines = spark.read.text(query.input).selectExpr(*query.select)
            lines.write.format(FORMAT).options(**query.options).mode("append").save()
            return None
        lines = _rows(spark.readStream.option("maxFilesPerTrigger", 1).text(query.input), query)
        stream = lines.writeStream.format(FORMAT).options(**query.options).outputMode(query.output_mode)
        stream.queryName(query.name).trigger(availableNow=True).start().awaitTermination()
    except PySparkException as error:
        return str(error)
    return None


def _rows(lines: DataFrame, query: SinkQuery) -> DataFrame:
    if query.partitions is not None:
        lines = lines.repartition(query.partitions)
    if query.fails_first:
        lines = lines.mapInPandas(_failing_first, "value string")
    if query.group_by is not None:
        lines = lines.selectExpr("*", f"{query.group_by} AS grouped").groupBy("grouped").count()
    return lines.selectExpr(*query.select)


def _failing_first(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    context = TaskContext.get()
    assert context is not None
    for frame in frames:
        if context.attemptNumber() == 0:
            yield frame.head(len(frame) // 2)
            raise RuntimeError("the first attempt fails")
        yield frame


def main() -> None:
    specification = SinkSpecification.read(Path(sys.argv[1]))
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": specification.local,
        "spark.sql.session.timeZone": "UTC",
        **specification.settings,
    }
    builder = SparkSession.builder.master(specification.master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    service = [] if specification.service is None else [specification.service]
    directory = Path(specification.local) / "volume" if specification.service is None else None
    spark = with_sos_checkpoints(builder, volume="payments", service=service, directory=directory).getOrCreate()
    reasons = {query.name: run(spark, query) for query in specification.queries}
    spark.stop()
    sys.stdout.write(f"done {json.dumps(reasons)}\n")


if __name__ == "__main__":
    main()
