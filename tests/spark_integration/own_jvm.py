"""A Spark session inside of a test, with the shim's jar: in a JVM of its own, as a running one takes no other jar."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyspark
import pytest
from pyspark.sql import SparkSession

from spark_integration.jar import jar_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def session_with_jar(folder: Path, **settings: str) -> Iterator[SparkSession]:
    """Two cores of this machine. The JVM that other tests of this process may have is ended, and this one is, too."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.local.dir", str(folder)).config("spark.jars", str(jar_path()))
    for key, value in settings.items():
        builder = builder.config(key.replace("_", "."), value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        _end_jvm()
        session = builder.getOrCreate()
        yield session
        session.stop()
        _end_jvm()


def _end_jvm() -> None:
    gateway = pyspark.SparkContext._gateway
    if gateway is None:
        return
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait(60)
    pyspark.SparkContext._gateway = None
    pyspark.SparkContext._jvm = None
