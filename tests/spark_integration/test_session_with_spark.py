"""with_sos_checkpoints with Spark and everything that it starts: embedded, and as for executors on other hosts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_integration.pipelines.batch_folder import conflicts, stored_batches
from spark_integration.pipelines.driver_process import QUICK_START, wait_until
from spark_integration.pipelines.queries import TOTALS
from spark_integration.pipelines.records import all_records, write_file
from tests.spark_integration.drive_session import PLAIN_TOKEN

pytestmark = pytest.mark.spark
_PER_FILE = 30


class _Driver:
    """One life of the driver; what it reported."""

    def __init__(self, place: Path, mode: str) -> None:
        with (place / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark_integration.drive_session", mode, str(place)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | QUICK_START | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            )
        assert self.process.stdout is not None
        word, _, rest = self.process.stdout.readline().partition(" ")
        assert word == "done", (place / "driver.log").read_text()[-4000:]
        self.report: dict[str, Any] = json.loads(rest)

    def kill(self) -> None:
        """kill -9 of the Python driver alone: the JVM and all else must end by themselves."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def is_everything_gone(self) -> bool:
        return not Path(f"/proc/{self.report['companion']}").exists() and not _listens(self.report["service"])


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def _two_lives(tmp_path: Path, mode: str) -> list[dict[str, Any]]:
    (tmp_path / "input").mkdir()
    reports = []
    for life, files in enumerate((2, 4)):
        for number in range(2 * life, files):
            write_file(tmp_path / "input", number, per_file=_PER_FILE)
        driver = _Driver(tmp_path, mode)
        try:
            assert conflicts(tmp_path / "output") == []
            answer = TOTALS.answer(all_records(files, per_file=_PER_FILE))
            assert TOTALS.shown(stored_batches(tmp_path / "output")) == answer
        finally:
            driver.kill()
        wait_until(driver.is_everything_gone, seconds=600, what="the end of what was started")
        reports.append(driver.report)
    return reports


def test_embedded_survives_the_end_of_its_driver_and_leaves_nothing_running(tmp_path: Path) -> None:
    _two_lives(tmp_path, "embedded")
    assert "does not survive" in (tmp_path / "driver.log").read_text().replace("do not", "does not")


def test_an_embedded_volume_of_two_shards_survives_the_end_of_its_driver(tmp_path: Path) -> None:
    for report in _two_lives(tmp_path, "shards"):
        assert report["settings"]["spark.hadoop.fs.sos.service"].count(",") == 1
    log = tmp_path / "volume" / "journal"
    assert {path.name for path in log.iterdir()} == {"payments.shard-0-of-2", "payments.shard-1-of-2"}


def _check_not_shown(place: Path, report: dict[str, Any], token: str) -> None:
    """Neither on Spark's page of settings, nor in its event log, nor in what it logs."""
    assert "fs.sos.service" in report["told"]
    assert token not in report["told"]
    events = "".join(path.read_text() for path in (place / "events").rglob("*") if path.is_file())
    log = (place / "driver.log").read_text()
    assert "fs.sos.service" in events
    assert "INFO" in log
    assert token not in events + log


def test_executors_elsewhere_get_a_certificate_and_a_token_for_the_run(tmp_path: Path) -> None:
    reports = _two_lives(tmp_path, "elsewhere")
    for report in reports:
        token = report["token"]
        assert len(token) == 64
        assert token not in json.dumps(report["settings"])
        assert "BEGIN CERTIFICATE" in report["settings"]["spark.hadoop.fs.sos.tls.authorities"]
        assert report["service"].startswith("localhost:")
        _check_not_shown(tmp_path, report, token)
        _check_not_shown(tmp_path, report, PLAIN_TOKEN)
    assert reports[0]["token"] != reports[1]["token"]


def test_a_query_stops_at_once_though_the_service_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    write_file(tmp_path / "input", 0, per_file=_PER_FILE)
    driver = _Driver(tmp_path, "asleep")
    try:
        # An operation is tried for 120 s, a silent service given up after 20.
        assert driver.report["stopped_seconds"] < 15
    finally:
        driver.kill()
    wait_until(driver.is_everything_gone, seconds=600, what="the end of what was started")


def test_ctrl_c_is_the_drivers_and_not_the_services(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    write_file(tmp_path / "input", 0, per_file=_PER_FILE)
    driver = _Driver(tmp_path, "embedded")
    try:
        os.kill(driver.report["companion"], signal.SIGINT)
        assert _listens(driver.report["service"])
    finally:
        driver.kill()
    wait_until(driver.is_everything_gone, seconds=600, what="the end of what was started")


_LATE = """
from pyspark import SparkContext
from pyspark.sql import SparkSession
from spark_integration import SessionError, with_sos_checkpoints
SparkContext._ensure_initialized()
try:
    with_sos_checkpoints(SparkSession.builder.master("local[1]"), volume="v")
except SessionError as error:
    print(error)
"""


def _said_by(code: str, place: Path) -> str:
    environment = os.environ | QUICK_START | {"XDG_DATA_HOME": str(place), "SPARK_LOCAL_IP": "127.0.0.1"}
    finished = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_a_jvm_that_was_started_without_the_shim_is_told_before_anything_is_started(tmp_path: Path) -> None:
    assert "started without the shim" in _said_by(_LATE, tmp_path)
    assert not list(tmp_path.iterdir())


_AGAIN = """
from pyspark.sql import SparkSession
from spark_integration import SessionError, with_sos_checkpoints
def builder(port):
    own = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    return with_sos_checkpoints(own, volume="v", service=[f"127.0.0.1:{port}"])
spark = builder(1).getOrCreate()
assert builder(1).getOrCreate() is spark
try:
    builder(2)
except SessionError as error:
    print(error)
spark.stop()
spark = builder(2).getOrCreate()
print(spark.conf.get("spark.hadoop.fs.sos.service"))
"""


def test_the_same_session_may_be_asked_for_again_and_another_service_after_its_end(tmp_path: Path) -> None:
    told, now = _said_by(_AGAIN, tmp_path).splitlines()
    assert "127.0.0.1:1: stop that session first" in told
    assert now == "127.0.0.1:2"


_CONNECT = """
from pyspark import SparkContext
from pyspark.sql import SparkSession
from spark_integration import with_sos_checkpoints
builder = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false")
with_sos_checkpoints(builder, volume="v", service=["127.0.0.1:1"], token="ab" * 32).getOrCreate()
print(SparkContext._active_spark_context._jsc.hadoopConfiguration().get("fs.sos.token"))
"""


def test_a_connect_server_of_this_process_gets_the_token_too(tmp_path: Path) -> None:
    assert _said_by(_CONNECT, tmp_path).split() == ["ab" * 32]
