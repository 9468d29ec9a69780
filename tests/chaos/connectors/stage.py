"""What the crash test of connectors plays on: producers, a listener, Spark, a relay, sinks, and what keeps their state.

Everything is a process of its own and is killed with -9. A server that is killed also loses what it had not synced, as
in a power cut, where there is a C compiler to make the shim with. What is done to them may be done from many threads at
once: who kills a process holds it until it is up again.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from spark_integration.pipelines.driver_process import DriverProcess, wait_until
from spark_integration.pipelines.service_process import ProcessError, ServiceProcess, journal_command
from tests.chaos.connectors.judge import SinkFollower, Verdicts
from tests.chaos.connectors.lines import PLAIN_SINKS, STREAMS, PlainLines, TotalLines, line
from tests.chaos.connectors.watch import Watch
from tests.chaos.stage import PYTHON, SETTINGS, Server, Variant
from tests.system.ports import free_port

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence
    from pathlib import Path

VOLUME: Final = "chaos"
INGEST: Final = "ingest"
LINES_A_TICK: Final = 3
_LOOK_SECONDS: Final = 0.5
TICK_SECONDS: Final = 0.1
BACKLOG_LINES: Final = 300
"""Of each stream: so much may be on its way, and no more is written before some of it has come out."""
START_SECONDS_MAX: Final = 900.0
"""A driver has taken three minutes where forty processes wanted two processors."""
EXECUTOR_SECONDS_MAX: Final = 600.0
KILLED_AGAIN_SHARE: Final = 0.2
"""Of starts after a kill: so many are killed before they serve. They are not counted as events."""
DRIVER: Final = "tests.chaos.connectors.drive"


class ConnectorStage:
    """All the processes, what may be done to them, and what has come out."""

    def __init__(self, folder: Path, stack: ExitStack, *, variant: Variant) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.lines = 0
        """How many of each stream were written."""
        self._variant = variant
        self._machines = 0
        self._counting = threading.Lock()
        self._stopped = threading.Event()
        self._held: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._running_driver: DriverProcess | None = None  # None while somebody kills it or starts it
        self.servers = [Server(folder, f"server{number}", variant.launcher) for number in range(3)]
        for server in self.servers:
            stack.callback(server.process.stop)
        self.service = self._start_service()
        stack.callback(lambda: self.service.stop())
        self.files = f"127.0.0.1:{free_port()}"
        self.listener = self._start_listener()
        stack.callback(lambda: self.listener.stop())
        self.relay = self._start_relay()
        stack.callback(lambda: self.relay.stop())
        self.sinks = {name: self._start_sink(name) for name in [*self._plain_sinks(), "totals"]}
        for sink in self.sinks.values():
            stack.callback(sink.stop)
        self.watch = Watch(*self.followers())
        self.watch.start()
        stack.callback(self.watch.stop)
        self.producers: dict[str, subprocess.Popen[bytes]] = {}
        stack.callback(self._stop_producers)
        for stream in STREAMS:
            self._path(stream).touch()
        self.driver = self._new_driver()
        stack.callback(lambda: self.driver.kill() if self.driver.process.returncode is None else None)
        stack.callback(self._stopped.set)
        self._wait_driver()

    # ── what goes in and comes out ────────────────────────────────────────────────────────────────────────────────────

    def produce(self) -> None:
        """From now on there is always something to do, and never much."""
        for stream in STREAMS:
            self._write(stream, 1)
        self.lines = 1
        for stream in STREAMS:
            self.producers[stream] = self._start_producer(stream)
        threading.Thread(target=self._produce, daemon=True).start()

    def stop_producing(self) -> None:
        self._stopped.set()
        time.sleep(2 * TICK_SECONDS)

    def _produce(self) -> None:
        while not self._stopped.wait(TICK_SECONDS):
            if self.lines < self.watch.position + BACKLOG_LINES:
                for stream in STREAMS:
                    self._write(stream, self.lines + LINES_A_TICK)
                self.lines += LINES_A_TICK

    def _write(self, stream: str, end: int) -> None:
        with self._path(stream).open("a", encoding="utf-8") as file:
            file.write("".join(f"{line(stream, number)}\n" for number in range(self.lines, end)))

    def _path(self, stream: str) -> Path:
        return self.folder / f"{stream}.lines"

    def followers(self) -> tuple[list[SinkFollower], Verdicts]:
        """New ones, who have seen nothing yet."""
        judges = {name: PlainLines(number) for number, name in enumerate(self._plain_sinks())}
        verdicts = Verdicts()
        followers = [
            SinkFollower(self._out(name), self._log(name), judges.get(name, TotalLines()), verdicts)
            for name in self.sinks
        ]
        return followers, verdicts

    def findings(self) -> list[str]:
        """What is wrong so far."""
        return self.watch.findings

    def wait_lines_out(self, count: int, *, seconds: float) -> None:
        """Returns early when something is wrong. ProcessError when they do not come, or if the driver has ended."""
        deadline = time.monotonic() + seconds
        while not self.watch.wait_for(count, _LOOK_SECONDS):
            self._check_driver()
            if time.monotonic() > deadline:
                where = self.watch.positions()
                raise ProcessError(f"{where} of {count} lines are out in {seconds:.0f} s:\n{self.driver.log_tail()}")

    def _check_driver(self) -> None:
        driver = self._running_driver
        if driver is not None and driver.process.poll() is not None and driver is self._running_driver:
            raise ProcessError(f"the driver ended by itself: {driver.next_line(0)}\n{driver.log_tail()}")

    # ── starting ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _plain_sinks() -> list[str]:
        return [f"plain{number}" for number in range(PLAIN_SINKS)]

    def _out(self, name: str) -> Path:
        return self.folder / f"{name}.out"

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log.jsonl"

    def _connector(self, *words: str) -> list[str]:
        return [*self._variant.launcher, "connectors", *words]

    @property
    def _server_addresses(self) -> list[str]:
        return [server.address for server in self.servers]

    def _new_machine(self) -> str:
        with self._counting:
            self._machines += 1
            return f"machine{self._machines}"

    def _start_service(self) -> ServiceProcess:
        local = self.folder / f"{self._new_machine()}-journal"
        command = [*self._variant.launcher, *journal_command(self._server_addresses, local, VOLUME)[len(PYTHON) :]]
        return ServiceProcess.start(command, self.folder / "service.log")

    def _start_listener(self) -> ServiceProcess:
        local = str(self.folder / f"{self._new_machine()}-ingest")
        words = ["listen", "--volume", INGEST, "--create", "--dir", local, "--files", self.files]
        command = self._connector(*words, "--servers", ",".join(self._server_addresses))
        address = f"127.0.0.1:{free_port()}"
        return ServiceProcess.start(command, self.folder / "listener.log", listen=address)

    def _start_relay(self) -> ServiceProcess:
        spool = str(self.folder / f"{self._new_machine()}-relay")
        command = self._connector("relay", "--service", self.service.address, "--spool", spool)
        return ServiceProcess.start(command, self.folder / "relay.log")

    def _start_sink(self, name: str) -> ServiceProcess:
        command = self._connector("receive", "--out", str(self._out(name)), "--log", str(self._log(name)))
        return ServiceProcess.start(command, self.folder / f"{name}.log")

    def _start_producer(self, stream: str) -> subprocess.Popen[bytes]:
        words = ["send", str(self._path(stream)), "--to", self.listener.address, "--follow", "--name", stream]
        with (self.folder / f"producer-{stream}.log").open("ab") as log:
            return subprocess.Popen(
                self._connector(*words, "--program", stream), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _stop_producers(self) -> None:
        for producer in self.producers.values():
            producer.kill()
            producer.wait()

    def _new_driver(self) -> DriverProcess:
        """On a machine of its own, whose disk goes with it. It is not running yet."""
        return DriverProcess(
            self.folder / self._new_machine(),
            launcher=self._variant.launcher,
            program=DRIVER,
            volume=VOLUME,
            service=[self.service.address],
            ingest_volume=INGEST,
            files=self.files,
            relay=self.relay.address,
            sinks={
                "plain": ",".join(self.sinks[name].address for name in self._plain_sinks()),
                "totals": self.sinks["totals"].address,
            },
            master=self._variant.master,
            settings=SETTINGS | self._variant.settings,
        )

    def _wait_driver(self) -> None:
        self.driver.wait_running(START_SECONDS_MAX)
        self._running_driver = self.driver

    # ── what is done to them ──────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _holding(self, names: Sequence[str]) -> Iterator[None]:
        """These processes are one event's until the block ends; who wants one of them waits."""
        with ExitStack() as stack:
            for name in sorted(names):
                stack.enter_context(self._held[name])
            yield

    def cut_servers(self, chance: random.Random, count: int) -> None:
        """They are down for a while, some longer than others."""
        numbers = chance.sample(range(len(self.servers)), count)
        with self._holding([f"server{number}" for number in numbers]):
            for number in numbers:
                self.servers[number].cut_power(chance)
            for number in numbers:
                time.sleep(chance.uniform(0.0, 1.0))
                self.servers[number].process.start_again()

    def kill_service(self, chance: random.Random) -> None:
        with self._holding(["service"]):
            _kill(self.service, chance)

    def kill_relay(self, chance: random.Random) -> None:
        with self._holding(["relay"]):
            _kill(self.relay, chance)

    def kill_listener(self, chance: random.Random) -> None:
        with self._holding(["listener"]):
            _kill(self.listener, chance)

    def kill_sink(self, chance: random.Random) -> None:
        name = chance.choice(sorted(self.sinks))
        with self._holding([name]):
            _kill(self.sinks[name], chance)

    def kill_sinks(self, chance: random.Random) -> None:
        with self._holding(list(self.sinks)):
            for sink in self.sinks.values():
                sink.kill()
            time.sleep(chance.uniform(2.0, 6.0))
            for sink in self.sinks.values():
                sink.start_again()

    def kill_producer(self, chance: random.Random) -> None:
        stream = chance.choice(STREAMS)
        with self._holding([f"producer {stream}"]):
            self.producers[stream].kill()
            self.producers[stream].wait()
            self.producers[stream] = self._start_producer(stream)

    def kill_executor(self) -> None:
        with self._holding(["driver"]):
            wait_until(lambda: bool(self.driver.executors()), seconds=EXECUTOR_SECONDS_MAX, what="an executor")
            with suppress(ProcessLookupError):
                os.kill(self.driver.executors()[0], signal.SIGKILL)

    def kill_driver(self) -> None:
        with self._holding(["driver"]):
            self._lose_driver()
            self.driver = self._new_driver()
            self._wait_driver()

    def lose_machine(self) -> None:
        """Driver, journal service and relay were there, with their disk; their successors know only the servers."""
        with self._holding(["driver", "relay", "service"]):
            self._lose_machine()

    def black_out(self, chance: random.Random) -> None:
        """All of that, and the servers and the listener at once. What was acknowledged is on the servers' disks."""
        servers = [f"server{number}" for number in range(len(self.servers))]
        with self._holding(["driver", "listener", "relay", "service", *servers]):
            self.listener.kill()
            for server in self.servers:
                server.cut_power(chance)
            for server in self.servers:
                server.process.start_again()
            self.listener.start_again()
            self._lose_machine()

    def sleepwalk(self) -> str:
        """The driver sleeps, another one takes its queries, it wakes up. What a query of it then failed with."""
        with self._holding(["driver"]):
            zombie, self._running_driver = self.driver, None
            zombie.signal_all(signal.SIGSTOP)
            begin = self.lines
            try:
                self.driver = self._new_driver()
                self._wait_driver()
                self.wait_lines_out(begin, seconds=START_SECONDS_MAX)
                zombie.signal_all(signal.SIGCONT)
                return zombie.failure(START_SECONDS_MAX)["error"]
            finally:
                zombie.lose_machine()

    def kill_for_good(self) -> None:
        """The driver, at the end."""
        self._running_driver = None
        self.driver.kill()

    def _lose_driver(self) -> None:
        self._running_driver = None
        self.driver.lose_machine()

    def _lose_machine(self) -> None:
        for process in (self.relay, self.service):
            process.kill()
        self._lose_driver()
        for left in self.folder.glob("machine*-journal"), self.folder.glob("machine*-relay"):
            for directory in left:
                shutil.rmtree(directory)
        self.service = self._start_service()
        self.relay = self._start_relay()
        self.driver = self._new_driver()
        self._wait_driver()


def _kill(process: ServiceProcess, chance: random.Random) -> None:
    """It is away for a while, and maybe killed again while it starts: its recovery is interrupted, too."""
    process.kill()
    time.sleep(chance.uniform(0.0, 1.0))
    while chance.random() < KILLED_AGAIN_SHARE:
        with process.log.open("ab") as log:
            begun = subprocess.Popen(
                [*process.command, "--listen", process.address],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=os.environ | dict(process.environment),
                start_new_session=True,
            )
        time.sleep(chance.uniform(0.0, 1.0))
        begun.kill()
        begun.wait()
    process.start_again()
