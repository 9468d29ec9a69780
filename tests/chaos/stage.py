"""What a crash test plays on: three SOS servers, a journal service, a driver with executors, a producer.

Everything is a process of its own and is killed with -9. A server that is killed also loses what it had not synced, as
in a power cut, where there is a C compiler to make the shim with.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spark_integration.pipelines.driver_process import DriverProcess
from spark_integration.pipelines.records import write_file
from spark_integration.pipelines.service_process import ProcessError, ServiceProcess, journal_command
from spark_integration.pipelines.truth import OutputJudge
from tests.chaos.bystander import Bystander
from tests.system.power_cut.power_cut import PowerCut

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from contextlib import ExitStack
    from pathlib import Path

VOLUME: Final = "chaos"
PER_FILE: Final = 20
QUERIES: Final = ("passthrough", "totals")
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
    "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Killed executors are what this is about: neither Spark nor its local cluster may give up on them.
    "spark.task.maxFailures": "20",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.executor.memory": "512m",
}
START_SECONDS_MAX: Final = 900.0
"""Of a driver: that it starts is judged, not when."""
_BACKLOG: Final = 4
_PRODUCER_SECONDS: Final = 0.1
PYTHON: Final = (sys.executable, "-m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How a run differs from the usual one: other code in its processes, other settings, a query that may fail."""

    launcher: Sequence[str] = PYTHON
    settings: dict[str, str] = field(default_factory=dict)
    master: str = "local-cluster[1,2,1024]"
    driver_may_fail: bool = False


class Server:
    """An SOS server and the power that it can lose."""

    def __init__(self, folder: Path, name: str, launcher: Sequence[str]) -> None:
        root, scratch = folder / name, folder / f"{name}-power"
        root.mkdir()
        scratch.mkdir()
        self._power = PowerCut(root, scratch) if shutil.which("cc") else None
        self.process = ServiceProcess.start(
            [*launcher, "sos_server", "serve", "--root", str(root)],
            folder / f"{name}.log",
            environment=self._power.environment if self._power else {},
        )

    @property
    def address(self) -> str:
        return self.process.address

    def cut_power(self, chance: random.Random) -> None:
        self.process.kill()
        if self._power is not None:
            self._power.cut(chance)


class Stage:
    """All the processes, what may be done to them, and what comes out."""

    def __init__(
        self,
        folder: Path,
        stack: ExitStack,
        *,
        variant: Variant,
    ) -> None:
        self.folder = folder
        self.input = folder / "input"
        self.input.mkdir(parents=True)
        self.output = folder / "output"
        self._judging = threading.Lock()
        self._judges = self.judges()
        self._variant = variant
        self._stack = stack
        self._machines = 0
        self._stopped = threading.Event()
        self.servers = [Server(folder, f"server{number}", variant.launcher) for number in range(3)]
        for server in self.servers:
            stack.callback(server.process.stop)
        self.service = self._start_service()
        stack.callback(lambda: self.service.stop())
        self.driver = self.start_driver()
        stack.callback(lambda: self.driver.kill() if self.driver.process.returncode is None else None)
        stack.callback(self._stopped.set)
        self.bystander = Bystander(lambda: self.service.address, VOLUME)
        self.bystander.start()
        stack.callback(self.bystander.end)

    # ── the way of things ─────────────────────────────────────────────────────────────────────────────────────────────

    def produce(self) -> threading.Thread:
        """From now on there is always something to do, and never much."""
        thread = threading.Thread(target=self._produce, daemon=True)
        thread.start()
        return thread

    def stop_producing(self) -> None:
        self._stopped.set()

    @property
    def files(self) -> int:
        """How many were produced."""
        return sum(1 for _ in self.input.glob("*.json"))

    def judges(self) -> list[OutputJudge]:
        """New ones, who have seen nothing yet."""
        return [OutputJudge(self.output, query, per_file=PER_FILE) for query in QUERIES]

    def files_out(self) -> int:
        """How many files both queries have put out, rightly."""
        with self._judging:
            return min(judge.look() for judge in self._judges)

    def findings(self) -> list[str]:
        """What is wrong with the output so far."""
        with self._judging:
            return [finding for judge in self._judges for finding in judge.findings()]

    def _produce(self) -> None:
        number = 0
        while not self._stopped.wait(_PRODUCER_SECONDS):
            if number < self.files_out() + _BACKLOG:
                write_file(self.input, number, per_file=PER_FILE)
                number += 1

    def wait_files_out(self, count: int, *, seconds: float) -> None:
        """Returns early when something is wrong. ProcessError when they do not come, or if the driver has ended."""
        deadline = time.monotonic() + seconds
        while self.files_out() < count and not self.findings():
            if self.driver.process.poll() is not None:
                self._driver_ended_by_itself()
            if time.monotonic() > deadline:
                raise ProcessError(f"file {count - 1} is not out within {seconds:.0f} s:\n{self.driver.log_tail()}")
            time.sleep(0.05)

    def _driver_ended_by_itself(self) -> None:
        said = self.driver.next_line(0)
        if not self._variant.driver_may_fail:
            raise ProcessError(f"the driver ended by itself: {said}\n{self.driver.log_tail()}")
        self.driver.lose_machine()
        self.driver = self.start_driver()

    # ── starting ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _local(self) -> Path:
        return self.folder / f"machine{self._machines}-journal"

    def _start_service(self) -> ServiceProcess:
        addresses = [server.address for server in self.servers]
        command = [*self._variant.launcher, *journal_command(addresses, self._local(), VOLUME)[len(PYTHON) :]]
        return ServiceProcess.start(command, self.folder / "service.log")

    def start_driver(self, *, wait: bool = True) -> DriverProcess:
        """On a machine of its own, whose disk goes with it."""
        self._machines += 1
        driver = DriverProcess(
            self.folder / f"machine{self._machines}",
            launcher=self._variant.launcher,
            volume=VOLUME,
            checkpoint="q",
            queries=list(QUERIES),
            input=str(self.input),
            output=str(self.output),
            master=self._variant.master,
            service=[self.service.address],
            settings=SETTINGS | self._variant.settings,
        )
        if wait:
            driver.wait_running(START_SECONDS_MAX)
        return driver

    # ── what is done to them ──────────────────────────────────────────────────────────────────────────────────────────

    def cut_servers(self, chance: random.Random, count: int) -> None:
        """They are down for a while, some longer than others."""
        victims = chance.sample(self.servers, count)
        for server in victims:
            server.cut_power(chance)
        for server in victims:
            time.sleep(chance.uniform(0.0, 1.0))
            server.process.start_again()

    def kill_service(self, chance: random.Random) -> None:
        self.service.kill()
        time.sleep(chance.uniform(0.0, 1.0))
        self.service.start_again()

    def leave_without_service(self, seconds: float) -> None:
        self.service.kill()
        time.sleep(seconds)
        self.service.start_again()

    def black_out(self, chance: random.Random) -> None:
        """What was acknowledged must be on the disks of the servers, and nowhere else is there anything left."""
        local = self._local_of_service()
        self.service.kill()
        self.driver.lose_machine()
        for server in self.servers:
            server.cut_power(chance)
        shutil.rmtree(local)
        for server in self.servers:
            server.process.start_again()
        self.service = self._start_service()
        self.driver = self.start_driver()

    def kill_executor(self) -> None:
        for pid in self.driver.executors()[:1]:
            os.kill(pid, signal.SIGKILL)

    def kill_driver(self) -> None:
        self.driver.lose_machine()
        self.driver = self.start_driver()

    def lose_machine(self) -> None:
        """The journal service was there, too; its successor has another address and no local copy."""
        local = self._local_of_service()
        self.service.kill()
        self.driver.lose_machine()
        shutil.rmtree(local)
        self.service = self._start_service()
        self.driver = self.start_driver()

    def _local_of_service(self) -> Path:
        command = self.service.command
        return self.folder / os.path.basename(command[command.index("--directory") + 1])

    def sleepwalk(self) -> str:
        """The driver sleeps, another one takes its checkpoint, it wakes up. What its query then failed with."""
        zombie = self.driver
        zombie.signal_all(signal.SIGSTOP)
        begin = self.files_out()
        try:
            self.driver = self.start_driver()
            self.wait_files_out(begin + 1, seconds=START_SECONDS_MAX)
            zombie.signal_all(signal.SIGCONT)
            return zombie.failure(START_SECONDS_MAX)["error"]
        finally:
            zombie.lose_machine()
