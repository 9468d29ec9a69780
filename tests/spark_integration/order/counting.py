"""Counts what is out of order in the rows of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_integration.order.violations import count_violations, order_violations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def falls_in_tasks(frame: DataFrame, key: str | None) -> int:
    """As the metric counts them, task by task."""
    execution = order_violations(frame, key=key)
    execution.collect()
    metrics = execution._jdf.queryExecution().observedMetrics()
    return int(metrics.apply("order_violations").getLong(0))


def falls_when_collected(frame: DataFrame, key: str | None) -> int:
    """Of all rows as collect() gives them: partition after partition, as a sink writes them."""
    rows: Any = frame.toPandas()
    return count_violations(rows, key=key)
