"""Driver, executors and listener are killed in the middle of batches: a batch has the same rows whenever it is read."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from spark_integration.pipelines.batch_folder import conflicts, stored_batches
from spark_integration.pipelines.driver_process import QUICK_START, descendants, wait_until
from tests.connectors.wallaroo_source import CutOffError, SourceStream, WallarooSource
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.spark
PER_ROUND: Final = 150
EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
LISTENER: Final = b"connectors\0listen"


class Machine:
    """A driver and what runs beside it, again and again on the same disk."""

    def __init__(self, folder: Path, master: str, environment: dict[str, str]) -> None:
        self.folder = folder
        self.port = free_port()
        self._master = master
        self._environment = QUICK_START | {"PYSPARK_PYTHON": sys.executable} | environment
        self._log = folder / "driver.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.spark_integration.drive_source", str(self.folder)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, f"127.0.0.1:{self.port}", self._master],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | self._environment,
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "running\n", self.said()

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]

    def kill(self, kind: bytes) -> None:
        """One of what runs below the driver."""
        assert self._process is not None
        for pid in descendants(self._process.pid):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as command:
                    if kind in command.read():
                        os.kill(pid, signal.SIGKILL)
                        return
            except OSError:
                continue
        raise AssertionError(f"there is no {kind!r}\n{self.said()}")

    def end(self) -> None:
        """The driver, and with it everything else."""
        if self._process is None:
            return
        below = descendants(self._process.pid)
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        wait_until(
            lambda: not any(_lives(pid) for pid in below), seconds=600, what="the end of what the driver started"
        )

    def batches(self) -> list[list[int]]:
        stored = sorted(stored_batches(self.folder / "batches").items())
        return [sorted(row["sequence"] for row in rows) for _, rows in stored]


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def machine(folder: Path, master: str, environment: dict[str, str]) -> Iterator[Machine]:
    running = Machine(folder, master, environment)
    try:
        running.start()
        yield running
    finally:
        running.end()


def send(to: Machine, rounds: int) -> None:
    """All messages up to this round's, durable when this returns, whatever is killed meanwhile."""
    payloads = [b"message %d" % number for number in range(rounds * PER_ROUND)]
    stream = SourceStream(1, b"stream", payloads)
    source = WallarooSource(("127.0.0.1", to.port), [stream])
    deadline = time.monotonic() + 600
    connected = False
    while not source.done:
        assert time.monotonic() < deadline, to.said()
        try:
            if not connected:
                source.connect()
                connected = True
            source.take()
            source.send_some(50)
        except (CutOffError, OSError):
            connected = False
            time.sleep(0.1)
    source.close()


def play(folder: Path, master: str, victims: list[str], seed: int, environment: dict[str, str] | None = None) -> None:
    """Send a round, kill the next victim in the middle of things, and so on; then all was read, batch by batch."""
    chance = random.Random(seed)
    with machine(folder, master, environment or {}) as running:
        for rounds, victim in enumerate(victims, 1):
            send(running, rounds)
            time.sleep(chance.uniform(0.0, 2.0))
            if victim == "driver":
                running.end()
                running.start()
            else:
                running.kill(EXECUTOR if victim == "executor" else LISTENER)
        total = len(victims) * PER_ROUND
        wait_until(
            lambda: sum(map(len, running.batches())) >= total, seconds=600, what=f"{total} rows\n{running.said()}"
        )
        assert conflicts(running.folder / "batches") == []
        assert [number for batch in running.batches() for number in batch] == list(range(total))
        rows = [row for rows in stored_batches(running.folder / "batches").values() for row in rows]
        assert {row["value"] for row in rows} == {f"message {number}" for number in range(total)}
        assert {row["stream_name"] for row in rows} == {"stream"}


def test_driver_executors_and_listener_are_killed(tmp_path: Path) -> None:
    play(tmp_path, "local-cluster[2,1,1024]", ["executor", "listener", "driver"], seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_kills(tmp_path: Path) -> None:
    victims = random.Random(5).choices(["executor", "listener", "driver"], k=60)
    play(tmp_path, "local-cluster[2,1,1024]", victims, seed=2)
