"""A stateful query on RocksDB whose volume is spread over two shards: services are killed, the machine is lost."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from spark_integration.pipelines.batch_folder import conflicts, stored_batches
from spark_integration.pipelines.driver_process import DriverProcess, wait_batches
from spark_integration.pipelines.queries import TOTALS
from spark_integration.pipelines.records import all_records, write_file
from spark_integration.pipelines.service_process import ServiceProcess, journal_command, start_server
from tests.spark_integration.drive_queries import ROCKSDB, STATE_STORE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark
_PER_FILE = 20
_KILLS = 6
_SHARDS = ["payments.shard-0-of-2", "payments.shard-1-of-2"]
_SETTINGS = {
    f"{STATE_STORE}.providerClass": ROCKSDB,
    f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.shuffle.partitions": "4",
}


class Place:
    """Three servers, a service for each shard, and the drivers that come and go."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack, self._drivers = folder, stack, 0
        (folder / "input").mkdir()
        servers = [start_server(folder, f"server{number}") for number in range(3)]
        for server in servers:
            stack.callback(server.stop)
        self.servers = [server.address for server in servers]
        self.services = [self.serve(name, "first") for name in _SHARDS]

    def serve(self, name: str, machine: str) -> ServiceProcess:
        directory = self.folder / machine / name
        directory.mkdir(parents=True)
        service = ServiceProcess.start(journal_command(self.servers, directory, name), self.folder / f"{name}.log")
        self._stack.callback(service.stop)
        return service

    def driver(self) -> DriverProcess:
        self._drivers += 1
        driver = DriverProcess(
            self.folder / f"machine{self._drivers}",
            volume="payments",
            checkpoint="q",
            queries=["totals"],
            input=str(self.folder / "input"),
            output=str(self.folder / "output"),
            service=[service.address for service in self.services],
            settings=_SETTINGS,
        )
        driver.wait_running()
        return driver

    def tool(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "journal", *arguments, "--servers", ",".join(self.servers)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)

    def states(self, *arguments: str) -> set[str]:
        listed = self.tool("ls", "-R", "sos://payments/q/totals/state", "--json", *arguments)
        assert listed.returncode == 0, listed.stderr
        found: list[dict[str, Any]] = [json.loads(line) for line in listed.stdout.splitlines()]
        return {one["path"] for one in found if one["path"].endswith((".changelog", ".zip"))}


def test_a_query_on_two_shards_outlives_its_services_and_its_machine(tmp_path: Path) -> None:
    chance = random.Random(17)
    output = tmp_path / "output" / "totals"
    with ExitStack() as stack:
        place = Place(tmp_path, stack)
        driver = place.driver()
        try:
            for number in range(_KILLS):
                write_file(tmp_path / "input", number, per_file=_PER_FILE)
                time.sleep(chance.uniform(0.1, 1.0))
                victim = place.services[number % 2]
                victim.kill()
                time.sleep(chance.uniform(0.0, 0.5))
                victim.start_again()
            wait_batches(output, _KILLS)
            assert driver.process.poll() is None, driver.log_tail()
        finally:
            driver.lose_machine()
        for service in place.services:
            service.kill()
        place.services = [place.serve(name, "second") for name in _SHARDS]
        driver = place.driver()
        try:
            for number in range(_KILLS, _KILLS + 2):
                write_file(tmp_path / "input", number, per_file=_PER_FILE)
            wait_batches(output, _KILLS + 2)
        finally:
            driver.kill()
        assert conflicts(output) == []
        assert TOTALS.shown(stored_batches(output)) == TOTALS.answer(all_records(_KILLS + 2, per_file=_PER_FILE))
        verified = place.tool("verify", "sos://payments/q", "--spark", "--restore")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        then = place.states("--at", "batch:3")
        assert {path.split("/")[4] for path in then} == {"0", "1", "2", "3"}
        assert max(int(path.rpartition("/")[2].split(".")[0].split("_")[0]) for path in then) == 4
