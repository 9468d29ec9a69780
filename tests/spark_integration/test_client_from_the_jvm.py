"""The Java client when connections are cut, services silent, elsewhere or superseded, and threads are interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_integration.pipelines.service_process import real_service
from tests.spark_integration.java_checks import run_checks
from tests.spark_integration.memory_service import memory_service

if TYPE_CHECKING:
    from pathlib import Path


def _check(service: str) -> None:
    outcome = run_checks("io.sos.spark.gateway.ClientChecks", service)
    assert not outcome.failed, outcome.summary()
    assert len(outcome.passed) >= 50


def test_java_client_against_faults() -> None:
    with memory_service("payments", "other") as address:
        _check(address)


def test_java_client_against_faults_of_the_way_to_the_real_service(tmp_path: Path) -> None:
    with real_service(tmp_path, "payments", "other") as real:
        _check(real.address)
