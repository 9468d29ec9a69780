"""How soon a volume answers again: after a restart, against Redis; on a new machine, against downloading all of it."""

from __future__ import annotations

import itertools
import shutil
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import trio

from journal.gateway.client.client import open_volume
from journal.records.settings import JournalSettings
from tests.benchmarks import ours, peers
from tests.benchmarks.comparison import timed
from tests.benchmarks.load_generator import Load, run
from tests.benchmarks.processes import PAUSE_SECONDS, START_SECONDS_MAX
from tests.system.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.comparison import Report

FILL_SECONDS_MAX = 900.0
CLIENTS = 16
LIFE_SECONDS = 2.0
"""A service keeps its index for the next start when it has served for a second, so one that crashes has done that."""
_numbers = itertools.count()


def restart(report: Report, directory: Path, seconds: float) -> None:
    """Scan and index of a volume of 4 KiB files, against Redis loading an append-only file of as many entries.

    1 GiB of them, fewer when quick. Both from the start of the process until it has acknowledged a durable change. Ours
    was killed half-way through a segment each time, which it has to scan; it includes taking the volume over.
    """
    entries = 1 << 18 if seconds >= 1.5 else max(4_000, int(40_000 * seconds))
    port = free_port()
    local = directory / "journal"
    _fill_volume(directory, port, payload_bytes=4096, files=entries)
    _fill_redis(directory, entries)
    with ours.sos_servers(directory, [port]) as servers:

        def after_crash() -> float:
            _crash_amid_segment(directory, servers, local=local)
            return _first_answer(directory, servers, local=local)

        report.compare(
            f"restart: scan and index of {entries:,} files of 4 KiB, after a crash",
            after_crash,
            lambda: _redis_restart(directory),
            peer_name="Redis loading its AOF",
            unit="s",
            goal=2.0,
            smaller_is_better=True,
        )


def new_machine(report: Report, directory: Path, seconds: float) -> None:
    """Time to the first answer with an empty directory, against downloading it all: 10 GiB, less when quick."""
    mebibytes = 10 << 10 if seconds >= 1.5 else 1 << 10 if seconds >= 1 else 64
    port = free_port()
    _fill_volume(directory, port, payload_bytes=1 << 20, files=mebibytes)
    shutil.rmtree(directory / "journal")  # the old machine's copy
    with ours.sos_servers(directory, [port]) as servers:
        report.compare(
            f"new machine: first answer from a volume of {mebibytes:,} MiB",
            lambda: _first_answer(directory, servers, local=directory / f"new{next(_numbers)}"),
            lambda: _download(directory, servers),
            peer_name="sos-journal backup (all of it)",
            unit="s",
            goal=50.0,
            smaller_is_better=True,
        )


def _fill_volume(directory: Path, port: int, *, payload_bytes: int, files: int) -> None:
    """A new volume with so many files; its servers and service are stopped again."""
    local = directory / "journal"
    with ours.sos_servers(directory, [port]) as servers:
        ours.make_volume(servers)
        with ours.service(directory, servers, local=local) as service:
            load = Load(
                protocol="file-put",
                port=service.port,
                payload_bytes=payload_bytes,
                clients=CLIENTS,
                objects=max(2, files // CLIENTS),
                operations=files,
                seconds=FILL_SECONDS_MAX,
            )
            run(load)


def _fill_redis(directory: Path, entries: int) -> None:
    with peers.redis(directory) as redis:
        run(Load(protocol="redis-xadd", port=redis.port, clients=CLIENTS, operations=entries, seconds=FILL_SECONDS_MAX))


def _crash_amid_segment(directory: Path, servers: str, *, local: Path) -> None:
    """Kills a service that has filled half a segment, as much as one has to scan on average after a crash."""
    with ours.service(directory, servers, local=local) as service:
        files = JournalSettings().segment_bytes_max // 2 // 4096
        objects = 16  # written again and again: the volume stays as it is
        run(
            Load(
                protocol="file-put",
                port=service.port,
                clients=CLIENTS,
                objects=objects,
                operations=files,
                seconds=FILL_SECONDS_MAX,
                warm_up_seconds=0.0,
            )
        )
        time.sleep(LIFE_SECONDS)
        service.process.kill()
        service.process.wait()


def _first_answer(directory: Path, servers: str, *, local: Path) -> float:
    """Seconds from the start of the service until it has acknowledged a durable change."""
    start = time.perf_counter()
    with ours.service(directory, servers, local=local) as service:
        trio.run(_put_one, service.port)
        return time.perf_counter() - start


async def _put_one(port: int) -> None:
    async with open_volume([f"127.0.0.1:{port}"], ours.VOLUME) as volume:
        await volume.put("first", b"answer", overwrite=True, operation=volume.new_operation())


def _redis_restart(directory: Path) -> float:
    """Seconds from the start of the process until it has acknowledged a durable change."""
    start = time.perf_counter()
    with peers.redis(directory) as redis:
        while time.perf_counter() - start < START_SECONDS_MAX * 4:
            with socket.create_connection(("127.0.0.1", redis.port), timeout=5) as connection:
                connection.sendall(b"SET first answer\r\n")
                if connection.recv(100).startswith(b"+OK"):
                    return time.perf_counter() - start
            time.sleep(PAUSE_SECONDS)
    raise RuntimeError("Redis did not load its file in time")


def _download(directory: Path, servers: str) -> float:
    target = directory / f"download{next(_numbers)}"
    command = [sys.executable, "-m", "journal", "backup", "sos://bench", str(target), "--servers", servers]
    try:
        return timed(
            lambda: subprocess.run(
                command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=ours.ENVIRONMENT
            )
        )
    finally:
        shutil.rmtree(target, ignore_errors=True)
