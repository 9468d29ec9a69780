"""Spark's settings for a volume: which class for which Spark, where tokens may stand, and how the text is spelled."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest

from journal.checkpoint.spark_settings import (
    SparkAccess,
    as_arguments,
    as_properties,
    hadoop_settings,
    manager_class,
    redaction_with_tokens,
    spark_settings,
    tokens_in_clear_to,
)


@pytest.mark.parametrize(
    ("version", "package"),
    [
        ("3.5.9", "streaming"),
        ("4.0.0", "streaming"),
        ("4.0.2", "streaming"),
        ("4.1.0", "checkpointing"),
        ("4.10.1", "checkpointing"),
        ("5.0", "checkpointing"),
    ],
)
def test_class_follows_the_package_of_sparks_trait(version: str, package: str) -> None:
    assert manager_class(version) == f"io.sos.spark.{package}.SosCheckpointFileManager"


def test_settings_of_a_plain_service() -> None:
    access = SparkAccess(service=("a:7500", "b:7500"), jar="/opt/sos.jar")
    assert spark_settings(access, spark_version="4.1.0") == {
        "spark.sql.streaming.checkpointFileManagerClass": "io.sos.spark.checkpointing.SosCheckpointFileManager",
        "spark.jars": "/opt/sos.jar",
        "spark.hadoop.fs.sos.impl": "io.sos.spark.SosFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.sos.impl": "io.sos.spark.SosAbstractFileSystem",
        "spark.hadoop.fs.sos.impl.disable.cache": "true",
        "spark.hadoop.fs.sos.service": "a:7500,b:7500",
    }


@pytest.mark.parametrize("address", ["a:1", "10.0.0.1:1", "127.a.example:1", "127.0.0.1.example:1", "[::2]:1"])
def test_a_token_goes_to_another_host_only_with_tls_or_when_told(address: str) -> None:
    access = SparkAccess(service=("localhost:1", address), token="ab" * 32)
    assert tokens_in_clear_to(access) == (address,)
    assert tokens_in_clear_to(replace(access, token=None, token_file="/t")) == (address,)
    for changed in (replace(access, tls=True), replace(access, insecure=True), replace(access, token=None)):
        assert tokens_in_clear_to(changed) == ()
    assert hadoop_settings(replace(access, insecure=True))["fs.sos.insecure"] == "true"


def test_a_token_may_go_to_this_host() -> None:
    access = SparkAccess(service=("localhost:1", "127.0.0.1:1", "127.8.8.8:1", "[::1]:1"), token="ab" * 32)
    assert tokens_in_clear_to(access) == ()


def test_token_is_under_a_key_that_spark_redacts() -> None:
    settings = spark_settings(SparkAccess(service=("a:1",), token="ab" * 32), spark_version="4.1.0")
    (key,) = [key for key, value in settings.items() if value == "ab" * 32]
    assert re.search("(?i)secret|password|token|access[.]?key", key)


@pytest.mark.parametrize("present", [None, "(?i)token", "(?i)secret|password|token|access[.]?key", "fs[.]sos"])
def test_redaction_that_covers_the_token_is_left_alone(present: str | None) -> None:
    assert redaction_with_tokens(present) is None


def test_redaction_that_misses_the_token_is_completed() -> None:
    completed = redaction_with_tokens("(?i)secret")
    assert completed is not None
    for key in ("spark.hadoop.fs.sos.token", "fs.sos.Token", "my.SECRET"):
        assert re.search(completed, key)


def test_arguments_survive_a_shell() -> None:
    settings = {"a.b": "c d'e\"f$g`h", "x": "1"}
    assert shlex.split(as_arguments(settings).replace("\\\n", "")) == ["--conf", "a.b=c d'e\"f$g`h", "--conf", "x=1"]


def test_properties_keep_line_ends_and_backslashes() -> None:
    assert as_properties({"a": "-----\nx\\y\n", "b": "1"}) == "a -----\\nx\\\\y\\n\nb 1\n"
