"""The journal service is killed 20 times while queries run: they pause, and do not fail."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from spark_integration.pipelines.batch_folder import conflicts, stored_batches
from spark_integration.pipelines.driver_process import DriverProcess, wait_batches
from spark_integration.pipelines.queries import PASSTHROUGH, TOTALS
from spark_integration.pipelines.records import all_records, write_file
from spark_integration.pipelines.service_process import real_service
from tests.spark_integration.drive_queries import ROCKSDB

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark
_PER_FILE = 20
_KILLS = 20


def test_queries_outlive_twenty_kills_of_the_service(tmp_path: Path) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    chance = random.Random(7)
    with real_service(tmp_path, server_count=3) as service:
        driver = DriverProcess(
            tmp_path / "machine",
            volume="payments",
            checkpoint="q",
            queries=["passthrough", "totals"],
            input=str(folder),
            output=str(tmp_path / "output"),
            service=[service.address],
            settings={"spark.sql.streaming.stateStore.providerClass": ROCKSDB},
        )
        try:
            write_file(folder, 0, per_file=_PER_FILE)
            driver.wait_running()
            for name in ("passthrough", "totals"):
                wait_batches(tmp_path / "output" / name, 1)
            for number in range(1, _KILLS + 1):
                write_file(folder, number, per_file=_PER_FILE)
                time.sleep(chance.uniform(0.1, 1.5))
                service.journal.kill()
                time.sleep(chance.uniform(0.0, 1.0))
                service.journal.start_again()
            for query in (PASSTHROUGH, TOTALS):
                output = tmp_path / "output" / query.name
                wait_batches(output, _KILLS + 1)
                assert conflicts(output) == []
                answer = query.answer(all_records(_KILLS + 1, per_file=_PER_FILE))
                assert query.shown(stored_batches(output)) == answer
            assert driver.process.poll() is None, driver.log_tail()
        finally:
            driver.lose_machine()
