"""The JVM of this process, if there is one already: whether the shim is in it, and what spark-submit told it.

Nothing here starts Spark.
"""

from __future__ import annotations

import os
import shlex
from typing import Final

import pyspark
from py4j.protocol import Py4JJavaError

from spark_integration.jar import jar_path, java_runtime
from spark_integration.pyspark_private import connect_to_submitted_jvm, process_jvm, running_context

SHIM_JAR: Final = "sos-spark"
"""How the names of the shim's jars begin."""
_SHIM_CLASS: Final = "io.sos.spark.SosFileSystem"


class SessionError(RuntimeError):
    """The session cannot be given checkpoints on a volume as asked; the text says what to do."""


def check_jvm() -> None:
    """The jar must be there when the JVM starts, and there must be a Java before anything is started beside it.

    NoJavaError, SessionError.
    """
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if is_submitted:
        connect_to_submitted_jvm()
    else:
        java_runtime()
        _check_submit_arguments()
    is_late = process_jvm() is not None or running_context() is not None
    if not is_late or _jvm_has_shim():
        return
    if is_submitted:
        raise SessionError(
            f"This driver was started by spark-submit, whose JVM runs already: add `--jars {jar_path()}` to it."
        )
    raise SessionError(
        "The JVM of this process was started without the shim, and stays when Spark is stopped. Call "
        "with_sos_checkpoints() before the first getOrCreate() of a process; in a notebook, restart the kernel."
    )


def _check_submit_arguments() -> None:
    """What PySpark starts its JVM with; --jars among them wins over the setting."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    if any(word.partition("=")[0] == "--jars" for word in words) and not any(SHIM_JAR in word for word in words):
        raise SessionError(
            f"The environment's PYSPARK_SUBMIT_ARGS has --jars, which wins over settings: add {jar_path()} to it, or "
            "give those jars to the builder, as spark.jars."
        )


def _jvm_has_shim() -> bool:
    """Spark looks for the class in the same way."""
    jvm = process_jvm()
    if jvm is None:
        return False
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName(_SHIM_CLASS, False, loader)  # noqa: FBT003 - Java's
    except Py4JJavaError:
        return False
    return True


def submitted(key: str) -> str | None:
    """A setting given to spark-submit, whose JVM runs already; None in a plain Python process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    connect_to_submitted_jvm()
    value = pyspark.SparkConf().get(key)
    return None if value is None else str(value)
