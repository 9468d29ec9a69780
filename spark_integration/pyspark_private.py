"""All that is used of PySpark's private names, in one place: what a new line of Spark may rename, is looked for here.

PySpark has no public name for these: its JVM, a builder's options, a plan, Arrow batches one at a time. What comes back
from the JVM is Java's own object, so it has no type here. Nothing here decides anything, and PySpark is imported only
where a function needs it.
"""

# ruff: noqa: SLF001 - that is what this module is for

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession


def connect_to_submitted_jvm() -> None:
    """Connect to the JVM that spark-submit started, without starting Spark in it."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()


def process_jvm() -> Any:
    """The JVM of this process; None if it has none yet."""
    from pyspark import SparkContext

    return SparkContext._jvm


def running_context() -> Any:
    """The SparkContext of this process; None if none runs. A session of Spark Connect does not lead to it."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def set_hadoop_setting(context: Any, key: str, value: str) -> None:
    """Inside the JVM only: a setting of Spark would stand on a command line, and in the page of settings."""
    context._jsc.hadoopConfiguration().set(key, value)


def builder_options(builder: SparkSession.Builder) -> dict[str, Any]:
    """The options themselves, not a copy."""
    options: dict[str, Any] = builder._options
    return options


def share_options(builder: SparkSession.Builder, options: dict[str, Any]) -> None:
    """Let this builder have another one's options."""
    builder._options = options


def is_query(value: Any) -> bool:
    """Whether this is a streaming query of this process's JVM."""
    return hasattr(value, "_jsq")


def is_frame(value: Any) -> bool:
    """Whether this is a DataFrame of this process's JVM, and not one of Spark Connect."""
    return hasattr(value, "_jdf")


def last_execution(query: Any) -> Any:
    """How the newest micro-batch of a streaming query is executed; None before the first one."""
    return query._jsq.streamingQuery().lastExecution()


def execution_of(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution()


def explained(session: SparkSession, execution: Any) -> str:
    """The text of a plan, also of one that has not begun."""
    return str(session.sparkContext._jvm.PythonSQLUtils.explainString(execution, "simple"))


def query_with_id(session: SparkSession, query_id: str) -> Any:
    """Spark's own StreamExecution of a running query; None if there is no such query."""
    number = session.sparkContext._jvm.java.util.UUID.fromString(query_id)
    return session._jsparkSession.sharedState().activeStreamingQueries().get(number)


def hadoop_path(session: SparkSession, parent: str, name: str) -> Any:
    """Hadoop's Path of what has this name in a directory."""
    return session.sparkContext._jvm.org.apache.hadoop.fs.Path(parent, name)


def arrow_batches(frame: DataFrame) -> Any:
    """Java's RDD of a DataFrame's rows as Arrow batches; PySpark itself hands them out as one list only."""
    return frame._jdf.toArrowBatchRdd().toJavaRDD()


def run_partitions(frame: DataFrame, batches: Any, numbers: Iterable[int]) -> Any:
    """Run these partitions; the answer is for `opened_stream`."""
    context = frame.sparkSession.sparkContext
    chosen = context._jvm.java.util.ArrayList()
    for number in numbers:
        chosen.add(number)
    return context._jvm.PythonRDD.runJob(context._jsc.sc(), batches, chosen)


def opened_stream(answer: Any) -> Any:
    """The local stream on which the JVM sends what it computed."""
    try:
        from pyspark.util import _create_local_socket
    except ImportError:  # Spark 3.5
        from pyspark.rdd import _create_local_socket
    opened = _create_local_socket(answer)
    return opened[0] if isinstance(opened, tuple) else opened  # since Spark 4.2 the socket comes with it
