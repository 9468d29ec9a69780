"""A real ``sos-server`` process: started, asked, killed, looked at from outside."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from tests.fakes.scripted_client import ScriptedClient
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

START_SECONDS_MAX: Final = 600.0
STOP_SECONDS_MAX: Final = 600.0
SERVER: Final = (sys.executable, "-m", "sos_server")


def rss_bytes(pid: int) -> int:
    """The memory that a process has in use."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


class ServerProcess:
    """One server on one root. ``start`` may be called again after ``kill`` or ``terminate``."""

    def __init__(
        self, directory: Path, *flags: str, port: int | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.root = directory / "root"
        self.log_path = directory / "server.log"
        self.port = port or free_port()
        self._flags = flags
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when the ready line is there. The port is always the same."""
        with self.log_path.open("ab") as log:
            command = [*SERVER, "--root", str(self.root), "--listen", self.address, *self._flags]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=self._environment)
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        line, deadline = b"", time.monotonic() + START_SECONDS_MAX
        while not line.endswith(b"\n"):
            line += self._process.stdout.read() or b""
            assert self._process.poll() is None, self.log_path.read_text()
            assert time.monotonic() < deadline, self.log_path.read_text()
            time.sleep(0.005)
        ready, _, address = line.decode().strip().partition(" ")
        assert ready == "ready"
        assert address == self.address

    def kill(self) -> None:
        """As a crash of the process would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        assert self._process is not None
        return self._process.wait(STOP_SECONDS_MAX)

    def terminate(self) -> int:
        """Asks it to stop; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]

    def rss_bytes(self) -> int:
        """The memory that the process has in use."""
        return rss_bytes(self.pid)

    def connect(self) -> socket.socket:
        """A blocking plain connection, for what a well-behaved client cannot do."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    async def client(self) -> ScriptedClient:
        return ScriptedClient(await trio.open_tcp_stream("127.0.0.1", self.port))

    async def entered(self, namespace: str = "ns", *, token: bytes | None = None) -> ScriptedClient:
        client = await self.client()
        await client.hello(token)
        await client.use(namespace)
        return client


@contextmanager
def serving(
    directory: Path, *flags: str, port: int | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """A server that runs, and is killed at the end if it still does. It never wrote anything to its log but JSON."""
    server = ServerProcess(directory, *flags, port=port, environment=environment)
    server.start()
    try:
        yield server
    finally:
        server.kill()
    server.log()
