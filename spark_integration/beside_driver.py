"""What runs beside a driver: which programs, with which arguments, where; and the companion that keeps them.

Knows the command lines of sos-server and sos-journal, nothing of Spark.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from spark_integration.run_credentials import RunCredentials, make_run_credentials

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LOOPBACK: Final = "127.0.0.1"
_STOP_SECONDS_MAX: Final = 30.0


class BesideDriverError(RuntimeError):
    """The journal service (or the embedded server) could not be started; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a driver asked for. `host` is the address under which executors reach this machine.

    `keep_for`, as the tool's --keep-for, is how long the past is kept; None: as the volume was made. `server_token` and
    `server_authorities` (PEM; TLS if given) are for the SOS servers.
    """

    volume: str
    servers: tuple[str, ...]
    server_token: str | None = field(repr=False)
    server_authorities: str | None = field(repr=False)
    directory: Path
    host: str
    keep_for: str | None = None

    @property
    def is_embedded(self) -> bool:
        return not self.servers

    @property
    def run_folder(self) -> Path:
        """What only this run needs: a second driver in the same directory fails, and must not have changed it."""
        return self.directory / f"run-{os.getpid()}"

    @property
    def authorities_file(self) -> Path:
        return self.run_folder / "authorities.pem"


@dataclass(slots=True, kw_only=True)
class BesideDriver:
    """The running companion of this process: where the service listens and, embedded, where the server does."""

    wanted: Wanted
    address: str
    server_address: str | None
    credentials: RunCredentials | None
    _companion: subprocess.Popen[str]

    def is_running(self) -> bool:
        return self._companion.poll() is None

    def stop(self) -> None:
        """End the service, then the embedded server. Also happens by itself when this process ends, however it ends."""
        assert self._companion.stdin is not None
        self._companion.stdin.close()
        try:
            self._companion.wait(timeout=_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._companion.kill()
        assert self._companion.stdout is not None
        self._companion.stdout.close()


def start_beside_driver(wanted: Wanted) -> BesideDriver:
    """Start what is wanted and wait until it serves. BesideDriverError."""
    wanted.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    wanted.run_folder.mkdir(exist_ok=True, mode=0o700)
    atexit.register(shutil.rmtree, wanted.run_folder, ignore_errors=True)
    credentials = None
    if wanted.host != LOOPBACK:
        credentials = make_run_credentials(wanted.run_folder, host=wanted.host, volume=wanted.volume)
    if wanted.server_authorities is not None:
        wanted.authorities_file.write_text(wanted.server_authorities)
    plan = wanted.run_folder / "plan.json"
    plan.write_text(json.dumps(programs(wanted, credentials)))
    companion = subprocess.Popen(
        [sys.executable, "-m", "spark_integration.companion", str(plan)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | ({"SOS_TOKEN": wanted.server_token} if wanted.server_token else {}),
        start_new_session=True,  # Ctrl-C is for the driver, which ends its query first
    )
    assert companion.stdout is not None
    word, _, rest = companion.stdout.readline().strip().partition(" ")
    if word != "ready":
        companion.wait(timeout=_STOP_SECONDS_MAX)
        reason = json.loads(rest) if word == "failed" else f"its companion ended with {companion.returncode}"
        raise BesideDriverError(f"The journal service of volume {wanted.volume!r} could not be started: {reason}")
    addresses = json.loads(rest)
    return BesideDriver(
        wanted=wanted,
        address=addresses["sos-journal"],
        server_address=addresses.get("sos-server"),
        credentials=credentials,
        _companion=companion,
    )


def programs(wanted: Wanted, credentials: RunCredentials | None) -> list[dict[str, Any]]:
    """The companion's plan: the embedded server if there is one, then the journal service."""
    plan = []
    servers: Sequence[str] = wanted.servers
    if wanted.is_embedded:
        command = [*_python("sos_server"), "serve", "--root", str(wanted.directory / "server"), "--listen", "{listen}"]
        plan.append(_program("sos-server", command, LOOPBACK, wanted.directory))
        servers = ["{sos-server}"]
    command = [*_python("journal"), "serve", "--volume", wanted.volume, "--listen", "{listen}"]
    command += ["--directory", str(wanted.directory / "journal")]
    for server in servers:
        command += ["--server", server]
    if wanted.is_embedded:
        command += ["--create"]
    if wanted.keep_for is not None:
        command += ["--keep-for", wanted.keep_for]
    if wanted.server_authorities is not None:
        command += ["--tls-ca", str(wanted.authorities_file)]
    if credentials is not None:
        command += ["--tls-cert", str(credentials.certificate_file), "--tls-key", str(credentials.key_file)]
        command += ["--tokens", str(credentials.tokens_file)]
    plan.append(_program("sos-journal", command, wanted.host, wanted.directory))
    return plan


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", module]


def _program(name: str, command: list[str], host: str, directory: Path) -> dict[str, Any]:
    return {"name": name, "command": command, "host": host, "log": str(directory / f"{name}.log")}
