"""Spark's contract for checkpoint files and Hadoop's for file systems, checked from a JVM against a journal service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_integration.pipelines.service_process import real_service
from tests.spark_integration.java_checks import run_checks
from tests.spark_integration.memory_service import memory_service

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", params=["in memory", "in memory, in three shards", "on servers"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "in memory":
        with memory_service() as address:
            yield address
    elif request.param == "in memory, in three shards":
        with memory_service(*(f"payments.shard-{index}-of-3" for index in range(3))) as address:
            yield address
    else:
        with real_service(tmp_path_factory.mktemp("real"), server_count=3) as real:
            yield real.address


_MANAGERS = {
    "ours": ("io.sos.spark.checkpointing.SosCheckpointFileManager", 25),
    "spark's own over our FileContext": ("", 15),
}


@pytest.mark.parametrize("manager", _MANAGERS)
def test_checkpoint_file_manager_contract(service: str, manager: str) -> None:
    class_name, checks_at_least = _MANAGERS[manager]
    outcome = run_checks("io.sos.spark.checks.CheckpointContract", service, class_name)
    assert not outcome.failed, outcome.summary()
    assert len(outcome.passed) >= checks_at_least


def test_hadoop_file_system_contract(service: str) -> None:
    outcome = run_checks("io.sos.spark.checks.FileSystemContract", service)
    assert not outcome.failed, outcome.summary()
    assert len(outcome.passed) >= 39
