"""Spark's event log on a volume: what a killed application wrote until then is there to be read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio

from journal.gateway.client.client import open_volume
from spark_integration.pipelines.driver_process import DriverProcess, wait_batches
from spark_integration.pipelines.records import write_file
from spark_integration.pipelines.service_process import real_service

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark


async def _make_directory(service: str) -> None:
    async with open_volume([service], "payments") as volume:
        await volume.mkdirs("events", operation=volume.new_operation())


async def _events(service: str) -> list[dict[str, Any]]:
    """Of all files of the one application's log, in order."""
    async with open_volume([service], "payments") as volume:
        (log,) = (await volume.list("events")).entries
        parts = [entry for entry in (await volume.list(log.path)).entries if entry.path.rpartition("/")[2] != ""]
        lines: list[bytes] = []
        for part in parts:
            lines += (await volume.read_file(part.path))[1].splitlines()
        return [json.loads(line) for line in lines]


def test_event_log_of_a_killed_application_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    with real_service(tmp_path) as real:
        trio.run(_make_directory, real.address)
        driver = DriverProcess(
            tmp_path / "driver",
            volume="payments",
            checkpoint="q",
            queries=["totals"],
            input=str(tmp_path / "input"),
            output=str(tmp_path / "output"),
            service=[real.address],
            master="local[2]",
            settings={
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": "sos://payments/events",
                "spark.eventLog.compress": "false",
            },
        )
        try:
            driver.wait_running()
            for number in range(3):
                write_file(tmp_path / "input", number, per_file=40)
                wait_batches(tmp_path / "output" / "totals", number + 1)
        finally:
            driver.lose_machine()
        events = [event["Event"] for event in trio.run(_events, real.address)]
        assert events[0] == "SparkListenerLogStart"
        assert "SparkListenerApplicationStart" in events
        assert events.count("SparkListenerJobEnd") >= 2
        assert "SparkListenerApplicationEnd" not in events
