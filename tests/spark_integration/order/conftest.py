"""One Spark for each module, and streams whose rows a test knows."""

from __future__ import annotations

import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

SECONDS_MAX: Final = 600


def new_session(folder: Any, master: str = "local[2]", **settings: str) -> SparkSession:
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.local.dir", str(folder)).config("spark.sql.shuffle.partitions", "3")
    builder = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.driver.host", "127.0.0.1")
    for key, value in settings.items():
        builder = builder.config(key.replace("__", "."), value)
    return builder.getOrCreate()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = new_session(tmp_path_factory.mktemp("spark"))
        yield session
        session.stop()


@pytest.fixture
def stream(spark: SparkSession) -> Callable[..., DataFrame]:
    """Rows (sequence, key): each partition of a batch is a range of the sequence."""

    def of(rows: int = 60, keys: int = 5, partitions: int = 3) -> DataFrame:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
        source = source.option("numPartitions", partitions)
        return source.load().selectExpr("value AS sequence", f"value % {keys} AS key")

    return of


def run_batches(
    frame: DataFrame, function: Callable[[Any, int], object], batches: int = 2, checkpoint: Path | None = None
) -> None:
    """Until so many batches were given to the function, or the query failed, which is raised."""
    seen = 0

    def counted(rows: DataFrame, number: int) -> None:
        nonlocal seen
        function(rows, number)
        seen += 1

    with tempfile.TemporaryDirectory() as folder:
        query = frame.writeStream.foreachBatch(counted).option("checkpointLocation", str(checkpoint or folder)).start()
        deadline = time.monotonic() + SECONDS_MAX
        while seen < batches and query.isActive and time.monotonic() < deadline:
            time.sleep(0.05)
        query.stop()
        if seen < batches:
            raise query.exception() or TimeoutError(f"{seen} batches in {SECONDS_MAX:g} s")
