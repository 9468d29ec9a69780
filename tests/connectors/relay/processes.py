"""A journal service in memory, a relay and sinks as processes, to be killed and started again at their addresses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.json_contract.contract import hold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_SECONDS = 600.0


class RunningProgram:
    """Something that prints `ready HOST:PORT`. `kill` and `start` as often as needed; it keeps its address."""

    def __init__(self, name: str, directory: Path, *command: str, module: bool = True) -> None:
        self.name = name
        self.address = "127.0.0.1:0"
        self._log = directory / f"{name}.log"
        self._module = module
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        where = ["-m", *self._command, "--listen"] if self._module else list(self._command)
        command = [sys.executable, *where, self.address]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready "), f"{self.name} did not start: {self.log[-3000:]}"
        self.address = line.split()[1]

    def tell(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        code = process.wait(START_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        return code


@dataclass
class RelayHouse:
    """All of them."""

    directory: Path
    service: RunningProgram
    relay: RunningProgram
    sinks: list[RunningProgram] = field(default_factory=list)

    @property
    def addresses(self) -> list[str]:
        return [sink.address for sink in self.sinks]

    def committed(self, sink: int) -> bytes:
        """What `sos-connector committed` says."""
        files = ["--out", self.out(sink), "--log", self.out(sink) + ".log"]
        command = [sys.executable, "-m", "connectors", "committed", *files]
        return subprocess.run(command, check=True, capture_output=True, timeout=600).stdout

    def status(self) -> Any:
        """What `sos-connector status --relay` says."""
        command = [sys.executable, "-m", "connectors", "status", "--relay", self.relay.address, "--json"]
        value = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=600).stdout)
        hold("sos-connector", "status", value)
        return value

    def out(self, sink: int) -> str:
        return str(self.directory / f"out-{sink}")


@contextmanager
def relay_house(
    directory: Path, *, sinks: int = 1, options: tuple[str, ...] = (), launcher: tuple[str, ...] = ()
) -> Iterator[RelayHouse]:
    """A relay whose decisions are on volume `payments`, and sinks that are files. `launcher`: a module that runs it."""
    with ExitStack() as stack:
        service = RunningProgram("service", directory, "tests.fakes.serve_memory_volume")
        stack.callback(service.end)
        service.start()
        spool = str(directory / "spool")
        command = [*launcher, "connectors", "relay", "--service", service.address, "--spool", spool, *options]
        relay = RunningProgram("relay", directory, *command)
        stack.callback(relay.end)
        relay.start()
        house = RelayHouse(directory, service, relay)
        for number in range(sinks):
            files = ["--out", house.out(number), "--log", house.out(number) + ".log"]
            sink = RunningProgram(f"sink-{number}", directory, "connectors", "receive", *files)
            stack.callback(sink.end)
            sink.start()
            house.sinks.append(sink)
        yield house
