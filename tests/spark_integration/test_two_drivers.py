"""Two drivers on one checkpoint: the later one has it, the older one fails and says so, nothing is mixed."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
import trio

from journal.gateway.client.client import open_volume
from spark_integration.pipelines.batch_folder import conflicts, stored_batches
from spark_integration.pipelines.driver_process import DriverProcess, wait_batches
from spark_integration.pipelines.queries import TOTALS
from spark_integration.pipelines.records import all_records, write_file
from spark_integration.pipelines.service_process import real_service

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark
_PER_FILE = 40
_SAYS_SO = ("FENCED", "Multiple streaming jobs detected")
"""Ours, when it tries to change something; Spark's, when it first sees that another driver was there."""


def _driver(tmp_path: Path, name: str, service: str, *, master: str) -> DriverProcess:
    return DriverProcess(
        tmp_path / name,
        volume="payments",
        checkpoint="q",
        queries=["totals"],
        input=str(tmp_path / "input"),
        output=str(tmp_path / "output"),
        service=[service],
        master=master,
        # Nothing may change by itself while the tree is compared.
        settings={"spark.sql.streaming.stateStore.maintenanceInterval": "3600s"},
    )


def _feed(tmp_path: Path, begin: int, end: int) -> None:
    for number in range(begin, end):
        write_file(tmp_path / "input", number, per_file=_PER_FILE)


def _tree(service: str) -> dict[str, tuple[int, int, bytes]]:
    """Every file of the volume: size, time, content."""
    files: dict[str, tuple[int, int, bytes]] = {}

    async def walk() -> None:
        async with open_volume([service], "payments") as volume:
            folders = [""]
            while folders:
                page = await volume.list(folders.pop())
                assert not page.more
                for entry in page.entries:
                    if entry.is_directory:
                        folders.append(entry.path)
                    else:
                        status, content = await volume.read_file(entry.path)
                        files[entry.path] = (status.size, status.modified_ms, content)

    trio.run(walk)
    return files


def _tree_at_rest(service: str) -> dict[str, tuple[int, int, bytes]]:
    tree = _tree(service)
    while True:
        trio.run(trio.sleep, 1.5)
        before, tree = tree, _tree(service)
        if before == tree:
            return tree


def _check_answer(tmp_path: Path, files: int) -> None:
    folder = tmp_path / "output" / "totals"
    assert conflicts(folder) == []
    assert TOTALS.shown(stored_batches(folder)) == TOTALS.answer(all_records(files, per_file=_PER_FILE))


def test_later_driver_wins_and_the_earlier_one_says_why_it_stops(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    _feed(tmp_path, 0, 2)
    with real_service(tmp_path, server_count=3) as real:
        service = real.address
        earlier = _driver(tmp_path, "earlier", service, master="local[2]")
        later = None
        try:
            earlier.wait_running()
            wait_batches(tmp_path / "output" / "totals", 2)
            later = _driver(tmp_path, "later", service, master="local[2]")
            later.wait_running()
            _feed(tmp_path, 2, 5)
            reason = earlier.failure()
            assert any(words in reason["error"] for words in _SAYS_SO)
            if "FENCED" in reason["error"]:
                assert reason["error"].count("local-") >= 2, "the error names both applications"
            wait_batches(tmp_path / "output" / "totals", 5)
            _check_answer(tmp_path, 5)
        finally:
            earlier.lose_machine()
            if later is not None:
                later.lose_machine()


def test_zombie_driver_with_executors_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    _feed(tmp_path, 0, 2)
    with real_service(tmp_path, server_count=3) as real:
        service = real.address
        zombie = _driver(tmp_path, "zombie", service, master="local-cluster[1,2,1024]")
        heir = None
        try:
            zombie.wait_running()
            wait_batches(tmp_path / "output" / "totals", 2)
            _feed(tmp_path, 2, 4)
            time.sleep(0.4)  # in the middle of a batch, its executors about to write state
            zombie.signal_all(signal.SIGSTOP)
            heir = _driver(tmp_path, "heir", service, master="local[2]")
            heir.wait_running()
            wait_batches(tmp_path / "output" / "totals", 4)
            tree = _tree_at_rest(service)
            zombie.signal_all(signal.SIGCONT)
            error = zombie.failure()["error"]
            assert any(said in error for said in _SAYS_SO), error + zombie.log_tail()
            assert _tree_at_rest(service) == tree
            _check_answer(tmp_path, 4)
        finally:
            zombie.lose_machine()
            if heir is not None:
                heir.lose_machine()
