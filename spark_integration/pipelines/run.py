"""A driver: one process that runs queries over a folder of records until it is killed or a query fails.

    python -m spark_integration.pipelines.run SPECIFICATION.json

Prints `running {"service": ...}` when the queries have started, and `failed {"query": ..., "error": ...}` when one has
failed; then it exits with 3. What it writes goes to a folder per query, which stands for the world outside.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_integration.pipelines.batch_folder import batch_writer
from spark_integration.pipelines.queries import EVERYWHERE, ON_ROCKSDB, Query, records_stream
from spark_integration.session import with_sos_checkpoints

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

QUERIES: Final[dict[str, Query]] = {query.name: query for query in (*EVERYWHERE, ON_ROCKSDB)}
EXIT_QUERY_FAILED: Final = 3
_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """What a driver is told. `directory` and `local` are lost with its machine; `input` and `output` are not."""

    volume: str
    checkpoint: str
    queries: list[str]
    input: str
    output: str
    local: str
    master: str = "local[2]"
    servers: list[str] = field(default_factory=list)
    service: list[str] = field(default_factory=list)
    directory: str | None = None
    trigger_seconds: float = 0.2
    settings: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Specification:
        return cls(**json.loads(path.read_text()))


def start_session(specification: Specification) -> SparkSession:
    """Spark with checkpoints on the volume."""
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
    builder = with_sos_checkpoints(
        builder,
        volume=specification.volume,
        servers=specification.servers,
        service=specification.service,
        directory=specification.directory,
    )
    spark: SparkSession = builder.getOrCreate()
    return spark


def start_query(spark: SparkSession, specification: Specification, query: Query) -> StreamingQuery:
    """A batch for each file of records (after a crash perhaps for a few), so that its output is known to the byte."""
    folder = Path(specification.output) / query.name
    folder.mkdir(parents=True, exist_ok=True)
    stream = query.build(records_stream(spark, specification.input))
    return (
        stream.writeStream.outputMode(query.output_mode)
        .queryName(query.name)
        .option("checkpointLocation", f"sos://{specification.volume}/{specification.checkpoint}/{query.name}")
        .foreachBatch(batch_writer(folder))
        .trigger(processingTime=f"{round(specification.trigger_seconds * 1000)} milliseconds")
        .start()
    )


def main() -> None:
    """Run until something fails."""
    specification = Specification.read(Path(sys.argv[1]))
    spark = start_session(specification)
    queries = [start_query(spark, specification, QUERIES[name]) for name in specification.queries]
    _tell(f"running {json.dumps({'service': spark.sparkContext.getConf().get('spark.hadoop.fs.sos.service')})}")
    while True:
        for query in queries:
            try:
                if query.awaitTermination(_LOOK_SECONDS):
                    _tell(f"failed {json.dumps({'query': query.name, 'error': 'it ended'})}")
                    sys.exit(EXIT_QUERY_FAILED)
            except StreamingQueryException as error:
                _tell(f"failed {json.dumps({'query': query.name, 'error': str(error)})}")
                sys.exit(EXIT_QUERY_FAILED)


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
