"""What runs beside a driver: which programs, with which arguments, where; and the companion that keeps them.

Knows the command lines of sos-server and sos-journal, nothing of Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sos_client.net.addresses import Address
from sos_client.serving.kept_port import KeptPort
from spark_integration.run_credentials import RunCredentials, make_run_credentials
from spark_integration.run_folder import RunFolder, begin_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LOOPBACK: Final = "127.0.0.1"
_TREE_MAX: Final = "512M"
"""For a million files of state: a join over 200 partitions has 160,000 (docs/scale.md). Only this run's driver and
executors have the token, so the service need not be as careful as one that strangers share."""
_STOP_SECONDS_MAX: Final = 30.0
_PAUSES: Final = (0.5, 1.0, 2.0, 5.0)
"""Between attempts to start a companion again: what the one before it left must end first."""


class BesideDriverError(RuntimeError):
    """The journal service (or the embedded server) could not be started; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a driver asked for. `host` is the address under which executors reach this machine.

    `listen`: where a listener takes messages for `ingest_volume`, which it makes if it is not there; None: no listener.

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
    insecure: bool = False
    web: str | None = None
    """HOST:PORT of the page."""
    listen: str | None = None
    ingest_volume: str | None = None
    relay_options: tuple[str, ...] = ()
    """More options for `sos-connector relay`."""
    shards: int | None = None
    """Over how many the volume is spread; None: one journal keeps it."""

    @property
    def is_embedded(self) -> bool:
        return not self.servers


class BesideDriver:
    """The running companion of this process: where the service listens and, embedded, where the server does.

    A companion that dies is started again, with the same addresses and credentials, so that queries go on.
    """

    def __init__(self, wanted: Wanted, folder: RunFolder, credentials: RunCredentials, plan: Path) -> None:
        """Start it and wait until it serves. BesideDriverError."""
        self.wanted = wanted
        self.credentials = credentials
        self._folder = folder
        self._plan = plan
        self._stopping = threading.Event()
        self._addresses: dict[str, str] = {}
        self._ports = [self._keep_port(program) for program in json.loads(plan.read_text())]
        try:
            self._companion = self._start()
        except BaseException:
            self._give_ports_up()
            raise
        self._watch = threading.Thread(target=self._keep, name="sos-companion", daemon=True)
        self._watch.start()

    @property
    def address(self) -> str:
        """Of the first of `services`."""
        return self.services[0]

    @property
    def services(self) -> tuple[str, ...]:
        """Where the journal service is, or each shard's."""
        return tuple(self._addresses[name] for name in _service_names(self.wanted))

    @property
    def relay_address(self) -> str:
        """Where a relay serves as soon as somebody asks for one."""
        return self._addresses["sos-relay"]

    @property
    def files_address(self) -> str | None:
        """Where the listener serves what it has taken."""
        return self._addresses.get("sos-listener")

    @property
    def server_address(self) -> str | None:
        return self._addresses.get("sos-server")

    @property
    def folder(self) -> Path:
        """Of the run: gone when it is over."""
        return self._folder.path

    @property
    def companion_pid(self) -> int:
        return self._companion.pid

    def is_running(self) -> bool:
        return not self._stopping.is_set()

    def stop(self) -> None:
        """End the service, then the embedded server. Also happens by itself when this process ends, however it ends."""
        self._stopping.set()
        _end(self._companion)
        self._watch.join(_STOP_SECONDS_MAX)
        self._give_ports_up()
        self._folder.close()

    def _give_ports_up(self) -> None:
        for port in self._ports:
            port.close()

    def _keep_port(self, program: dict[str, Any]) -> KeptPort:
        """Where this program serves for as long as the run lasts, whether it lives or not: nobody else's clients."""
        try:
            port = KeptPort(program["host"])
        except OSError as error:
            raise BesideDriverError(f"No port of {program['host']} can be had: {error.strerror}") from error
        self._addresses[program["name"]] = str(Address(host=program["host"], port=port.port))
        return port

    def _keep(self) -> None:
        """In a thread of its own: start the companion again when it ends before it should."""
        while True:
            code = self._companion.wait()
            if self._stopping.is_set():
                return
            _say(f"the companion of volume {self.wanted.volume!r} ended with {code}; it is started again")
            _close(self._companion)
            failures = 0
            while not self._stopping.wait(_PAUSES[min(failures, len(_PAUSES) - 1)]):
                try:
                    companion = self._start()
                except BesideDriverError as error:
                    failures += 1
                    if failures == len(_PAUSES):  # what was left has had its time to end
                        _say(f"{error}; trying again every {_PAUSES[-1]:g} s")
                    continue
                self._companion = companion
                if self._stopping.is_set():
                    _end(companion)
                break
            else:
                return

    def _start(self) -> subprocess.Popen[str]:
        """A companion that serves."""
        companion = subprocess.Popen(
            [
                *_python("spark_integration.companion"),
                str(self._plan),
                str(self._folder.path),
                json.dumps(self._addresses),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(self.wanted, self.credentials),
            pass_fds=[self._folder.handle],  # the lock on the folder, for as long as it lives
            start_new_session=True,  # Ctrl-C is for the driver, which ends its query first
        )
        assert companion.stdout is not None
        word, _, rest = companion.stdout.readline().strip().partition(" ")
        if word == "ready":
            return companion
        _end(companion)
        reason = json.loads(rest) if word == "failed" else f"its companion ended with {companion.returncode}"
        raise BesideDriverError(f"The journal service of volume {self.wanted.volume!r} could not be started: {reason}")


def start_beside_driver(wanted: Wanted) -> BesideDriver:
    """Start what is wanted and wait until it serves. BesideDriverError."""
    folder = begin_run(wanted.directory)
    try:
        certified_host = None if wanted.host == LOOPBACK else wanted.host
        credentials = make_run_credentials(
            folder.path,
            volume=wanted.volume,
            certified_host=certified_host,
            ingest_volume=wanted.ingest_volume,
        )
        plan = folder.path / "plan.json"
        plan.write_text(json.dumps(programs(wanted, credentials, folder.path)))
        return BesideDriver(wanted, folder, credentials, plan)
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        folder.close()
        raise


def programs(wanted: Wanted, credentials: RunCredentials, folder: Path) -> list[dict[str, Any]]:
    """The companion's plan: the embedded server if there is one, the journal service, a listener if there shall be one,
    and for sinks a relay.

    They ask for the run's token, on loopback too, where every user of this host could reach them otherwise; but the
    listener asks for none, since sources do not know it.
    """
    plan = []
    servers: Sequence[str] = wanted.servers
    shared = ["--tokens", str(credentials.tokens_file), "--share-port"]
    if wanted.is_embedded:
        command = [*_python("sos_server"), "serve", "--root", str(wanted.directory / "server"), "--listen", "{listen}"]
        plan.append(_program("sos-server", command + shared, LOOPBACK, wanted.directory))
        servers = ["{sos-server}"]
    trusting = ["--insecure"] if wanted.insecure else []
    if wanted.server_authorities is not None:
        authorities = folder / "authorities.pem"
        authorities.write_text(wanted.server_authorities)
        trusting += ["--tls-ca", str(authorities)]
    for number, name in enumerate(_service_names(wanted)):
        command = _journal(wanted, servers, number, shared) + trusting
        if credentials.certificate is not None:
            command += ["--tls-cert", str(credentials.certificate.file)]
            command += ["--tls-key", str(credentials.certificate.key_file)]
        plan.append(_program(name, command, wanted.host, wanted.directory))
    if wanted.listen is not None:
        plan.append(_listener(wanted, servers, trusting))
    plan.append(_relay(wanted, credentials, shared))
    return plan


def _service_names(wanted: Wanted) -> list[str]:
    """Of the programs that serve the volume, the first of which has what is not in a partition."""
    return ["sos-journal", *(f"sos-journal-{number}" for number in range(1, wanted.shards or 1))]


def _journal(wanted: Wanted, servers: Sequence[str], number: int, shared: Sequence[str]) -> list[str]:
    """The command of the journal service, or of a shard's, but for certificates."""
    command = [*_python("journal"), "serve", "--volume", wanted.volume, "--listen", "{listen}", *shared]
    command += ["--directory", str(wanted.directory / "journal"), "--tree-bytes-max", _TREE_MAX]
    for server in servers:
        command += ["--server", server]
    if wanted.shards is not None:
        command += ["--shards", str(wanted.shards), "--shard", str(number)]
    if wanted.is_embedded:
        command += ["--create"]
    if wanted.web is not None and number == 0:
        command += ["--web", wanted.web]
    if wanted.keep_for is not None:
        command += ["--keep-for", wanted.keep_for]
    return command


def _listener(wanted: Wanted, servers: Sequence[str], trusting: Sequence[str]) -> dict[str, Any]:
    command = [*_python("connectors"), "listen", "--volume", str(wanted.ingest_volume), "--create", "--share-port"]
    command += ["--listen", str(wanted.listen), "--files", "{listen}", "--dir", str(wanted.directory / "ingest")]
    command += ["--servers", ",".join(servers), *trusting]
    return _program("sos-listener", command, wanted.host, wanted.directory) | {"says": "files"}


def _relay(wanted: Wanted, credentials: RunCredentials, shared: Sequence[str]) -> dict[str, Any]:
    services = ",".join(f"{{{name}}}" for name in _service_names(wanted))
    command = [*_python("connectors"), "relay", "--listen", "{listen}", "--service", services, *shared]
    command += ["--spool", str(wanted.directory / "relay"), "--token-file", str(credentials.token_file)]
    if credentials.certificate is not None:
        command += ["--tls-cert", str(credentials.certificate.file), "--tls-key", str(credentials.certificate.key_file)]
        command += ["--tls-ca", str(credentials.certificate.file)]
    if wanted.insecure:
        command += ["--insecure"]
    command += wanted.relay_options
    return _program("sos-relay", command, wanted.host, wanted.directory, on_demand=True)


def _environment(wanted: Wanted, credentials: RunCredentials) -> dict[str, str]:
    """With the token for the SOS servers. What is set there for others is not for an embedded server, and no profile
    is for what runs here: all that it needs is on its command line."""
    environment = dict(os.environ) | {"SOS_PROFILES": ""}
    if wanted.is_embedded:
        environment.pop("SOS_TLS_CA", None)
        environment["SOS_TOKEN"] = credentials.token
    elif wanted.server_token is not None:
        environment["SOS_TOKEN"] = wanted.server_token
    return environment


def _end(companion: subprocess.Popen[str]) -> None:
    """Its input ends: it stops what it has started, the last one first, and itself."""
    assert companion.stdin is not None
    companion.stdin.close()
    try:
        companion.wait(timeout=_STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        companion.kill()
        companion.wait()
    _close(companion)


def _close(companion: subprocess.Popen[str]) -> None:
    for stream in (companion.stdin, companion.stdout):
        assert stream is not None
        stream.close()


def _say(text: str) -> None:
    sys.stderr.write(f"sos: {text}\n")


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", module]


def _program(name: str, command: list[str], host: str, directory: Path, *, on_demand: bool = False) -> dict[str, Any]:
    log = str(directory / f"{name}.log")
    return {"name": name, "command": command, "host": host, "log": log, "on_demand": on_demand}
