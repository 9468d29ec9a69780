"""A PostgreSQL of a test's own, to be killed and started again at its port."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.benchmarks.peers import _let_through, postgres_programs
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 600.0


class PostgresServer:
    """`start`, `kill`, `ask`."""

    def __init__(self, directory: Path, *, log: Path) -> None:
        self._programs = postgres_programs()
        if not (self._programs / "initdb").exists():
            pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
        self._user = "postgres" if os.geteuid() == 0 else None
        self._directory = directory
        self._log = log
        if self._user:
            _let_through(directory, self._user)
        data = directory / "data"
        name = self._user or pwd.getpwuid(os.geteuid()).pw_name
        data.mkdir()
        if self._user:
            os.chown(data, pwd.getpwnam(self._user).pw_uid, -1)
        initdb = [str(self._programs / "initdb"), "-D", str(data), "-A", "trust", "-U", name, "--no-sync"]
        subprocess.run(initdb, user=self._user, cwd=data, check=True, stdout=subprocess.DEVNULL)
        self.port = free_port()
        self.dsn = f"host=127.0.0.1 port={self.port} user={name} dbname=postgres"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(self._programs / "postgres"), "-D", str(self._directory / "data"), "-p", str(self.port)]
        for setting in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "max_prepared_transactions=10"):
            command += ["-c", setting]
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self._process is None or self._process.poll() is not None:  # a child of the killed one was still there
                with self._log.open("ab") as log:
                    self._process = subprocess.Popen(command, user=self._user, cwd="/", stdout=log, stderr=log)
            try:
                self.ask("SELECT 1")
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, self._log.read_text()[-3000:]
                time.sleep(0.1)
            else:
                return

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """SIGKILL of the server: its children end by themselves, and it recovers when it is started."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(START_SECONDS)
            self._process = None

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.dsn, connect_timeout=5, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def postgres_server(directory: Path) -> Iterator[PostgresServer]:
    """Running. Its log is in this directory.

    Its data are not: as root it runs as another user, and each pytest that starts takes the right away from others to
    enter the directory that all of them have their temporary files in.
    """
    directory.mkdir()
    with tempfile.TemporaryDirectory(prefix="sos-postgres-", ignore_cleanup_errors=True) as home:
        server = PostgresServer(Path(home), log=directory / "log")
        try:
            server.start()
            yield server
        finally:
            server.kill(signal.SIGINT)
