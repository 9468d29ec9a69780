"""A driver as a process on a "machine" of its own: started, watched, killed with all it started, lost with its disk."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_integration.pipelines.batch_folder import stored_batches
from spark_integration.pipelines.service_process import ProcessError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PYTHON: Final = (sys.executable, "-m")
PROGRAM: Final = "spark_integration.pipelines.run"
QUICK_START: Final = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""JVMs that live for a minute do not earn back what optimizing their code costs."""
_LOOK_SECONDS: Final = 0.1
_LOG_TAIL_BYTES: Final = 5000


class DriverProcess:
    """`python -m PROGRAM SPECIFICATION.json` in a session of its own, with a folder that is its machine's disk."""

    def __init__(
        self,
        machine: Path,
        *,
        launcher: Sequence[str] = _PYTHON,
        program: str = PROGRAM,
        **specification: Any,
    ) -> None:
        self.machine = machine
        machine.mkdir()
        self.log = machine.parent / f"{machine.name}.log"
        path = machine / "specification.json"
        path.write_text(json.dumps({"local": str(machine / "spark"), **specification}, indent=1))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*launcher, program, str(path)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env=os.environ | QUICK_START | {"PYSPARK_PYTHON": sys.executable, "TMPDIR": str(machine)},
            )

    def wait_running(self, seconds: float = 600) -> str:
        """Until its queries have started; the address of its journal service. ProcessError."""
        word, rest = self.next_line(seconds)
        if word != "running":
            raise ProcessError(f"the driver said {word!r} {rest}\n{self.log_tail()}")
        service: str = json.loads(rest)["service"]
        return service

    def failure(self, seconds: float = 600) -> dict[str, str]:
        """Why a query of it failed; ProcessError if none does."""
        word, rest = self.next_line(seconds)
        if word != "failed":
            raise ProcessError(f"the driver said {word!r} {rest}\n{self.log_tail()}")
        reason: dict[str, str] = json.loads(rest)
        return reason

    def next_line(self, seconds: float) -> tuple[str, str]:
        """What it says next; ("", "") at its end. It says little, so that a line is there whole or not at all."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        if not ready:
            raise ProcessError(f"the driver said nothing for {seconds} s\n{self.log_tail()}")
        word, _, rest = self.process.stdout.readline().strip().partition(" ")
        return word, rest

    def executors(self) -> list[int]:
        """The JVMs that run tasks, when the master is a local cluster."""
        return [pid for pid in descendants(self.process.pid) if b"CoarseGrainedExecutorBackend" in _command_line(pid)]

    def signal_all(self, number: signal.Signals) -> None:
        """To the driver and whatever it started, in its session or in a session of its own."""
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def kill(self) -> None:
        """kill -9 of the driver, its executors, and the services beside it; its machine's disk stays."""
        self.signal_all(signal.SIGSTOP)  # so that nothing is started meanwhile
        self.signal_all(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def lose_machine(self) -> None:
        """Driver, executors, services and disk are gone at once."""
        self.kill()
        shutil.rmtree(self.machine, ignore_errors=True)

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-_LOG_TAIL_BYTES:]


def descendants(pid: int) -> list[int]:
    """All processes below this one."""
    found = []
    for child in _children(pid):
        found += [child, *descendants(child)]
    return found


def _children(pid: int) -> list[int]:
    """Of all its threads: a JVM starts executors from any of them."""
    children: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children += [int(child) for child in listing.read_text().split()]
        except OSError:  # that thread has ended meanwhile
            continue
    return children


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Looks often; ProcessError, with a sentence, when it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ProcessError(f"not within {seconds} s: {what}")
        time.sleep(_LOOK_SECONDS)


def wait_batches(folder: Path, count: int, *, seconds: float = 600) -> None:
    """Until the sink has this many batches."""
    wait_until(lambda: len(stored_batches(folder)) >= count, seconds=seconds, what=f"{count} batches in {folder.name}")
