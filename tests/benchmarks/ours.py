"""Our own servers, started as users start them, with the defaults that users get."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from tests.benchmarks.processes import START_SECONDS_MAX, Running, stop
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

VOLUME: Final = "bench"
OBJECTS_MAX: Final = 1_000_000  # growth is measured beyond the default
ENVIRONMENT: Final = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Users have modules that were compiled when they were installed; here the first start leaves them for the next."""
JOURNAL: Final = (sys.executable, "-m", "journal")


@contextlib.contextmanager
def serving(name: str, command: list[str], directory: Path) -> Iterator[Running]:
    """Starts one of our programs and waits for its `ready HOST:PORT` line."""
    log = (directory / f"{name}.log").open("ab")
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, cwd=directory, env=ENVIRONMENT
    )
    try:
        assert process.stdout is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        line = process.stdout.readline().decode()
        if line.startswith("files "):  # a listener says first where its readers are served
            line = process.stdout.readline().decode()
        if not line.startswith("ready ") or time.monotonic() > deadline:
            tail = (directory / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-2000:]
            raise RuntimeError(f"{name} did not start: {line}{tail}")
        yield Running(name=name, port=int(line.rsplit(":", 1)[1]), process=process, directory=directory)
    finally:
        stop(process)
        log.close()


@contextlib.contextmanager
def sos_server(directory: Path, *, name: str = "sos", port: int = 0) -> Iterator[Running]:
    """One SOS server; its root stays when it ends."""
    root, config = directory / name, directory / f"{name}.toml"
    config.write_text(f"[storage]\nobjects_max = {OBJECTS_MAX}\nnamespace_objects_max = {OBJECTS_MAX}\n")
    command = [sys.executable, "-m", "sos_server", "--root", str(root), "--listen", f"127.0.0.1:{port}"]
    command += ["--config", str(config)]
    with serving(name, command, directory) as server:
        yield server


@contextlib.contextmanager
def sos_servers(directory: Path, ports: Sequence[int]) -> Iterator[str]:
    """A server on each of the ports, as `--servers` wants them; again on the same roots when called again."""
    with contextlib.ExitStack() as stack:
        for number, port in enumerate(ports):
            stack.enter_context(sos_server(directory, name=f"sos{number}", port=port))
        yield ",".join(f"127.0.0.1:{port}" for port in ports)


@contextlib.contextmanager
def service(directory: Path, servers: str, *flags: str, local: Path) -> Iterator[Running]:
    """The journal service of the volume, with its cache in `local`."""
    command = [*JOURNAL, "serve", "--volume", VOLUME, "--servers", servers, "--tree-bytes-max", "2G", *flags]
    with serving("service", [*command, "--dir", str(local), "--listen", "127.0.0.1:0"], directory) as running:
        yield running


@contextlib.contextmanager
def new_volume(directory: Path, *flags: str, members: int) -> Iterator[Running]:
    """`members` SOS servers, a new volume on them, and the service with these flags; all on this machine."""
    with sos_servers(directory, [free_port() for _ in range(members)]) as servers:
        make_volume(servers)
        with service(directory, servers, *flags, local=directory / "journal") as running:
            yield running


def make_volume(servers: str) -> None:
    subprocess.run([*JOURNAL, "create", VOLUME, "--servers", servers], check=True, stdout=subprocess.DEVNULL)


def put_object(server: Running, name: str, content: Path) -> None:
    """Stores a file as an object, with the command that users have."""
    command = [sys.executable, "-m", "sos_client", "put", name, "--server", f"127.0.0.1:{server.port}"]
    with content.open("rb") as file:
        subprocess.run(command, stdin=file, check=True, stdout=subprocess.DEVNULL, cwd=server.directory)
