"""The Java codec speaks the same bytes as the Python one."""

from __future__ import annotations

from pathlib import Path

from tests.spark_integration.java_checks import run_checks

_VECTORS = Path(__file__).parents[1] / "vectors"


def test_java_codec_agrees_with_the_vectors() -> None:
    outcome = run_checks(
        "io.sos.spark.gateway.VectorChecks",
        str(_VECTORS / "gateway_messages.json"),
        str(_VECTORS / "gateway_invalid.json"),
        str(_VECTORS / "gateway_tagged.json"),
        str(_VECTORS / "shards.json"),
    )
    assert not outcome.failed, outcome.summary()
    assert len(outcome.passed) > 150
