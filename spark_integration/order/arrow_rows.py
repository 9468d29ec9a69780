"""The rows of a DataFrame as Arrow batches, as Spark's tasks encode them, in the order of its partitions.

Nothing runs in Python on the executors, and nothing is exchanged: the plan's last stage encodes its rows, and the
driver's JVM hands them over. A bounded number of partitions is asked for at a time, each once, so that the driver
holds no more than these.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from pyspark.serializers import NoOpSerializer
from pyspark.sql.pandas.types import to_arrow_schema

from spark_integration.order.errors import OrderError
from spark_integration.pyspark_private import arrow_batches, is_frame, opened_stream, run_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

TASKS_AT_ONCE: Final = 2
"""Times what runs in parallel; more would only wait in the driver's memory."""


def arrow_schema(frame: DataFrame) -> Any:
    """How the batches are laid out."""
    zoned = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(frame.schema, **zoned)


def arrow_messages(frame: DataFrame) -> Iterator[bytes]:
    """Every batch, one after the other. OrderError if this is not a DataFrame of the driver's own JVM."""
    if not is_frame(frame):
        raise OrderError("ordered() works where the driver runs, not through Spark Connect")
    context = frame.sparkSession.sparkContext
    batches = arrow_batches(frame)
    at_once = TASKS_AT_ONCE * max(1, context.defaultParallelism)
    partitions = batches.getNumPartitions()
    for first in range(0, partitions, at_once):
        chosen = range(first, min(first + at_once, partitions))
        yield from _load(run_partitions(frame, batches, chosen))


def _load(answer: Any) -> Iterator[bytes]:
    stream = opened_stream(answer)
    try:
        yield from NoOpSerializer().load_stream(stream)
    finally:
        stream.close()
    answer[2].getResult()  # what went wrong on the JVM's side looks like an end on this one
