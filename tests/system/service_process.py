"""A real ``sos-journal serve`` over real ``sos-server`` processes: started, killed, stopped, started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from journal.takeover.volume_creation import create_volume
from tests.system.ports import free_port
from tests.system.server_process import ServerProcess, rss_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


START_SECONDS_MAX: Final = 600.0
STOP_SECONDS_MAX: Final = 600.0
VOLUME: Final = "payments"


class ServiceProcess:
    """One journal service in one directory. ``start`` may be called again after ``kill``, at the same address."""

    def __init__(self, directory: Path, servers: Sequence[str], *flags: str, volume: str = VOLUME) -> None:
        self.volume = volume
        self.directory = directory
        self.log_path = directory.with_suffix(".log")
        self.port = free_port()
        self._servers = ",".join(servers)
        self.flags = list(flags)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns when it is ready: the volume taken over."""
        self.begin()
        assert self._process is not None
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        line, deadline = b"", time.monotonic() + START_SECONDS_MAX
        while not line.endswith(b"\n"):
            line += self._process.stdout.read() or b""
            assert self._process.poll() is None, self.log_path.read_text()[-4000:]
            assert time.monotonic() < deadline, self.log_path.read_text()[-4000:]
            time.sleep(0.005)
        assert line.decode().split() == ["ready", self.address]

    def begin(self) -> None:
        """Starts it and does not wait."""
        with self.log_path.open("ab") as log:
            command = [sys.executable, "-m", "journal", "serve", "--volume", self.volume, "--servers", self._servers]
            command += ["--dir", str(self.directory), "--listen", self.address, *self.flags]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def terminate(self) -> int:
        self.send_signal(signal.SIGTERM)
        assert self._process is not None
        return self._process.wait(STOP_SECONDS_MAX)

    def forget_directory(self) -> None:
        """As if the machine were lost."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]

    def rss_bytes(self) -> int:
        """The memory that the process has in use."""
        return rss_bytes(self.pid)


class Cluster:
    """Servers and one service or several."""

    def __init__(self, directory: Path, *, servers: int = 3, services: int = 1) -> None:
        roots = [directory / f"server{number}" for number in range(servers)]
        for root in roots:
            root.mkdir()
        self.servers = [ServerProcess(root, port=free_port()) for root in roots]
        addresses = [server.address for server in self.servers]
        self.services = [ServiceProcess(directory / f"service{number}", addresses) for number in range(services)]

    @property
    def service(self) -> ServiceProcess:
        return self.services[0]

    @property
    def service_addresses(self) -> list[str]:
        return [service.address for service in self.services]

    def wipe(self, server: ServerProcess) -> None:
        """The disk of a killed server is lost, and a new one put in."""
        shutil.rmtree(server.root)


@asynccontextmanager
async def running_cluster(
    directory: Path, *, servers: int = 3, services: int = 1, flags: Sequence[str] = ()
) -> AsyncIterator[Cluster]:
    """Servers with a new volume, the first service ready. All are killed at the end, stopped ones, too."""
    cluster = Cluster(directory, servers=servers, services=services)
    cluster.service.flags += flags
    try:
        for server in cluster.servers:
            await trio.to_thread.run_sync(server.start)
        await create_volume(VOLUME, [server.address for server in cluster.servers])
        await trio.to_thread.run_sync(cluster.service.start)
        yield cluster
    finally:
        everything: list[ServiceProcess | ServerProcess] = [*cluster.services, *cluster.servers]
        for process in everything:
            with suppress(AssertionError):  # was never started
                process.kill()
    for service in cluster.services:
        if service.log_path.exists():
            service.log()  # nothing but JSON, also no traceback


def children_of(pid: int) -> list[int]:
    """The processes that a process has started: each of its threads has its own."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in lists for child in children.read_text().split()]
