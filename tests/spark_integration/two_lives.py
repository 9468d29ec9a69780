"""A driver's two lives on two machines that share nothing but three SOS servers, and what each of them put out."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import trio

from journal.gateway.client.client import open_volume
from spark_integration.pipelines.batch_folder import conflicts, stored_batches
from spark_integration.pipelines.driver_process import QUICK_START
from spark_integration.pipelines.queries import EVERYWHERE, ON_ROCKSDB
from spark_integration.pipelines.records import all_records, write_file
from spark_integration.pipelines.service_process import ServiceProcess, journal_command, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from spark_integration.pipelines.records import SentRecord

PER_FILE: Final = 40
LIVES: Final = ((0, 2), (2, 4))
"""Which files of the input are new in which life."""
SERVERS: Final = 3
QUERIES: Final = {query.name: query for query in (*EVERYWHERE, ON_ROCKSDB)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What one life of the driver left behind in the world outside, and what it said."""

    begin: int
    end: int
    report: dict[str, Any]
    shown: dict[tuple[str, str], object]
    """By provider and query: what its output amounts to."""
    conflicts: list[str]
    paths: list[str] = field(repr=False)
    """Every file of the volume at its end."""

    @property
    def records(self) -> list[SentRecord]:
        """All that it and the lives before it were given."""
        return all_records(self.end, per_file=PER_FILE)

    @property
    def fresh(self) -> int:
        """How many of them were new."""
        return len(self.records) - len(all_records(self.begin, per_file=PER_FILE))


def two_lives(
    folder: Path,
    *,
    master: str,
    providers: Sequence[str],
    queries: Sequence[str],
    connect: bool = False,
    environment: dict[str, str] | None = None,
) -> list[Life]:
    """Half of the input on one machine, the rest on another one that has nothing but the servers' addresses."""
    for name in ("input", "output"):
        (folder / name).mkdir(parents=True)
    specification = {
        "master": master,
        "connect": connect,
        "providers": list(providers),
        "queries": list(queries),
        "input": str(folder / "input"),
        "output": str(folder / "output"),
    }
    lives = []
    with ExitStack() as stack:
        servers = [start_server(folder, f"server{number}") for number in range(SERVERS)]
        for server in servers:
            stack.callback(server.stop)
        for begin, end in LIVES:
            for number in range(begin, end):
                write_file(folder / "input", number, per_file=PER_FILE)
            with _machine(folder, [server.address for server in servers]) as (machine, service):
                whole = specification | {"service": service, "local": str(machine)}
                report = _live(machine, folder / "driver.log", whole, environment or {})
                lives.append(_looked_at(folder / "output", begin, end, report, _paths(service)))
    return lives


@contextmanager
def _machine(folder: Path, servers: list[str]) -> Iterator[tuple[Path, str]]:
    """A disk and a journal service on it; at the end both are gone, and the next one has another address."""
    machine = folder / "machine"
    machine.mkdir()
    command = journal_command(servers, machine / "journal", "payments")
    service = ServiceProcess.start(command, folder / "service.log")
    try:
        yield machine, service.address
    finally:
        service.kill()
        shutil.rmtree(machine)


def _live(machine: Path, log_path: Path, specification: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    """Until it has said what it has to say; then driver and executors are killed."""
    path = machine / "specification.json"
    path.write_text(json.dumps(specification))
    with log_path.open("ab") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark_integration.drive_queries", str(path)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
            env=os.environ | QUICK_START | {"PYSPARK_PYTHON": sys.executable, "TMPDIR": str(machine)} | environment,
        )
    assert driver.stdout is not None
    try:
        for line in driver.stdout:
            if line.startswith("done "):
                report: dict[str, Any] = json.loads(line[len("done ") :])
                return report
        raise AssertionError("the driver failed:\n" + log_path.read_text()[-5000:])
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        driver.stdout.close()


def _looked_at(output: Path, begin: int, end: int, report: dict[str, Any], paths: list[str]) -> Life:
    folders = sorted(output.glob("*/*"))
    return Life(
        begin=begin,
        end=end,
        report=report,
        shown={(one.parent.name, one.name): QUERIES[one.name].shown(stored_batches(one)) for one in folders},
        conflicts=[f"{one}: {name}" for one in folders for name in conflicts(one)],
        paths=paths,
    )


def _paths(service: str) -> list[str]:
    async def walk() -> list[str]:
        found, folders = [], [""]
        async with open_volume([service], "payments") as volume:
            while folders:
                page = await volume.list(folders.pop())
                assert not page.more
                folders += [entry.path for entry in page.entries if entry.is_directory]
                found += [entry.path for entry in page.entries if not entry.is_directory]
        return found

    return trio.run(walk)
