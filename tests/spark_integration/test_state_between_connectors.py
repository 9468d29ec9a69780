"""Each kind of query between a listener and sinks, its driver killed again and again: the answer of an undisturbed run.

One driver runs all of them, since starting Spark is most of the work. The answers are computed from what was sent,
without Spark. What a query keeps in order is in order at its sink.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest

from connectors.sink.file_sink import committed_pieces
from spark_integration.pipelines.driver_process import QUICK_START, descendants
from spark_integration.pipelines.queries import PASSTHROUGH
from spark_integration.pipelines.records import all_records
from spark_integration.pipelines.service_process import ServiceProcess, real_service
from tests.spark_integration.drive_between import KINDS
from tests.spark_integration.ingest_service import listeners, send
from tests.spark_integration.sink_place import SinkPlace

if TYPE_CHECKING:
    from pathlib import Path

    from spark_integration.pipelines.records import SentRecord

pytestmark = pytest.mark.spark
PER_FILE: Final = 40
FILES_IN_A_LIFE: Final = 2
LIVES_IN_SOAK: Final = int(os.environ.get("SOS_BETWEEN_LIVES", "20"))
SECONDS_MAX: Final = 600


class Between:
    """Everything but the driver, and the driver of the present life."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self._lives = 0
        service = stack.enter_context(real_service(folder, "payments"))
        (self.listener,) = stack.enter_context(listeners(folder, "records"))
        command = [sys.executable, "-m", "connectors", "relay", "--service", service.address]
        self.relay = ServiceProcess.start([*command, "--spool", str(folder / "spool")], folder / "relay.log")
        stack.callback(self.relay.stop)
        self.place = SinkPlace(folder=folder, stack=stack, ports={}, sinks={})
        for query in KINDS:
            self.place.serve(query.name)
        self._specification = {
            "master": "local[2]",
            "connect": False,
            "service": service.address,
            "files": self.listener.addresses["files"],
            "relay": self.relay.address,
            "sinks": {query.name: self.place.connect(query.name) for query in KINDS},
        }

    def start_driver(self) -> subprocess.Popen[str]:
        """Its queries have started."""
        self._lives += 1
        local = self.folder / f"machine{self._lives}"
        local.mkdir()
        path = local / "specification.json"
        path.write_text(json.dumps(self._specification | {"local": str(local)}))
        with (self.folder / "driver.log").open("ab") as log:
            driver = subprocess.Popen(
                [sys.executable, "-m", "tests.spark_integration.drive_between", str(path)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | QUICK_START | {"PYSPARK_PYTHON": sys.executable, "TMPDIR": str(local)},
            )
        self._stack.callback(kill, driver)
        assert driver.stdout is not None
        line = driver.stdout.readline()
        assert line == "running\n", line + (self.folder / "driver.log").read_text()[-5000:]
        return driver

    def send(self, records: list[SentRecord]) -> None:
        """Those that the listener has already are passed over."""
        lines = [
            json.dumps(asdict(each) | {"at": datetime.fromtimestamp(each.at, UTC).isoformat()}) for each in records
        ]
        send(self.listener, {0: [line.encode() for line in lines]}, at_once=30)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """What the query's sink has committed, in its order."""
        out, log = self.folder / f"{name}.out", self.folder / f"{name}.jsonl"
        return [json.loads(row) for row in b"".join(committed_pieces(out, log)).splitlines()]

    def wrong(self, records: list[SentRecord]) -> dict[str, object]:
        """The queries whose answer is not that of these records, and what it is."""
        shown = {query: query.shown({0: self.rows(query.name)}) for query in KINDS}
        return {query.name: answer for query, answer in shown.items() if answer != query.answer(records)}


def kill(driver: subprocess.Popen[str]) -> None:
    """With its JVM and workers."""
    if driver.returncode is None:
        for pid in [driver.pid, *descendants(driver.pid)]:
            os.kill(pid, signal.SIGKILL)
        driver.wait()
        assert driver.stdout is not None
        driver.stdout.close()


@pytest.mark.parametrize(
    "lives",
    [
        2,
        pytest.param(LIVES_IN_SOAK, marks=[pytest.mark.soak, pytest.mark.timeout(180 * LIVES_IN_SOAK)]),
    ],
)
def test_each_kind_of_query_gives_the_answer_of_an_undisturbed_run(tmp_path: Path, lives: int) -> None:
    chance = random.Random(lives)
    with ExitStack() as stack:
        between = Between(tmp_path, stack)
        for life in range(1, lives + 1):
            records = all_records(life * FILES_IN_A_LIFE, per_file=PER_FILE)
            driver = between.start_driver()
            between.send(records)
            if life < lives:
                time.sleep(chance.uniform(0.0, 8.0))  # in the middle of a batch, of most of the queries
                kill(driver)
        deadline = time.monotonic() + SECONDS_MAX
        while wrong := between.wrong(records):
            assert driver.poll() is None, driver.stdout.read() if driver.stdout else ""
            assert time.monotonic() < deadline, wrong
            time.sleep(0.5)
        in_order = [row["id"] for row in between.rows(PASSTHROUGH.name)]
        assert in_order == [record.id for record in records]
