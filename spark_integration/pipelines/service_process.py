"""SOS servers and journal services as processes of this machine: started, killed, started again where they were."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_STOP_SECONDS_MAX: Final = 20.0
_LOG_TAIL_BYTES: Final = 3000


class ProcessError(RuntimeError):
    """A process did not do what it should; the text has the end of its log."""


@dataclass(slots=True, kw_only=True)
class ServiceProcess:
    """A server of any kind that says `ready HOST:PORT`."""

    command: list[str]
    log: Path
    environment: Mapping[str, str]
    address: str
    process: subprocess.Popen[str]

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        log: Path,
        *,
        listen: str = "127.0.0.1:0",
        environment: Mapping[str, str] | None = None,
    ) -> ServiceProcess:
        """Returns when it serves. `environment` is added to this process's own. ProcessError."""
        added = environment or {}
        process, address = _spawned([*command, "--listen", listen], log, added)
        return cls(command=list(command), log=log, environment=added, address=address, process=process)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self._reap()

    def start_again(self) -> None:
        """At the same address; takes as long as its recovery or takeover does. ProcessError."""
        self.process, _ = _spawned([*self.command, "--listen", self.address], self.log, self.environment)

    def stop(self) -> None:
        """SIGTERM, and kill -9 if that takes too long."""
        self.process.terminate()
        self._reap()

    def _reap(self) -> None:
        try:
            self.process.wait(timeout=_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def _spawned(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> tuple[subprocess.Popen[str], str]:
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            env=os.environ | dict(environment),
            start_new_session=True,  # Ctrl-C is for whoever started it
        )
    assert process.stdout is not None
    try:
        return process, _address_said_by(process.stdout, command, log)
    except BaseException:  # Ctrl-C, too: nobody else knows of this process yet
        process.kill()
        process.wait()
        process.stdout.close()
        raise


def _address_said_by(stdout: IO[str], command: Sequence[str], log: Path) -> str:
    word, address = "", ""
    for line in stdout:  # a listener says first where it serves files
        word, _, address = line.strip().partition(" ")
        if word != "files":
            break
    if word != "ready":
        raise ProcessError(f"{command} did not start:\n{log.read_text(errors='replace')[-_LOG_TAIL_BYTES:]}")
    return address


def start_server(folder: Path, name: str) -> ServiceProcess:
    """An SOS server with its root in the folder."""
    command = [sys.executable, "-m", "sos_server", "serve", "--root", str(folder / name)]
    return ServiceProcess.start(command, folder / f"{name}.log")


def journal_command(servers: Sequence[str], directory: Path, *volumes: str) -> list[str]:
    """`sos-journal serve` for these volumes, made if they are not there."""
    command = [sys.executable, "-m", "journal", "serve", "--directory", str(directory), "--create"]
    command += [word for volume in volumes for word in ("--volume", volume)]
    return [*command, "--servers", ",".join(servers)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealService:
    """A journal service and its SOS servers."""

    servers: list[ServiceProcess]
    journal: ServiceProcess

    @property
    def address(self) -> str:
        return self.journal.address


@contextmanager
def real_service(folder: Path, *volumes: str, server_count: int = 1) -> Iterator[RealService]:
    """Everything ends with the block, the service before its servers."""
    with ExitStack() as stack:
        servers = []
        for number in range(server_count):
            servers.append(start_server(folder, f"server{number}"))
            stack.callback(servers[-1].stop)
        addresses = [server.address for server in servers]
        command = journal_command(addresses, folder / "journal", *(volumes or ("payments",)))
        journal = ServiceProcess.start(command, folder / "journal.log")
        stack.callback(journal.stop)
        yield RealService(servers=servers, journal=journal)
