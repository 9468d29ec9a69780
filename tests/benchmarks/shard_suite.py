"""A volume of two shards against one that is not spread: what a second service's core brings on this machine."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from journal.records.shards import shards_of
from tests.benchmarks import ours
from tests.benchmarks.comparison import Reading
from tests.benchmarks.load_generator import Load, rest_after, run
from tests.benchmarks.processes import processor_seconds
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.benchmarks.comparison import Report
    from tests.benchmarks.processes import Running

CLIENTS: Final = 64
SHARDS: Final = 2
VOLUME: Final = "spread"


class Services:
    """One service or several, each with a generator of its own and its part of the clients."""

    def __init__(self, services: dict[str, Running], seconds: float) -> None:
        self._services = services
        self._seconds = seconds
        self.costs: list[float] = []
        """Processor seconds of the services for each put, round by round."""

    def measure(self) -> Reading:
        clients = CLIENTS // len(self._services)
        loads = [
            Load(protocol="file-put", port=one.port, target=name, clients=clients, seconds=self._seconds)
            for name, one in self._services.items()
        ]
        before = self._processor_seconds()
        with ThreadPoolExecutor(len(loads)) as pool:
            found = list(pool.map(run, loads))
        operations = sum(one.operations for one in found)
        self.costs.append((self._processor_seconds() - before) / operations)
        rest_after(self._seconds)
        return Reading(
            value=sum(one.per_second for one in found), generator_share=max(one.generator_share for one in found)
        )

    def _processor_seconds(self) -> float:
        """Of their warm-up, too, which is the same share of each run."""
        return sum(processor_seconds(one.process.pid) for one in self._services.values())


def puts(report: Report, directory: Path, seconds: float) -> None:
    """Durable `put` of 4 KiB by 64 clients, k = 1: two shards on one server, in turn with one service on another."""
    for part in ("one", "two"):
        (directory / part).mkdir()
    with ours.new_volume(directory / "one", members=1) as service, _sharded(directory / "two") as services:
        single, spread = Services({ours.VOLUME: service}, seconds), Services(services, seconds)
        report.compare(
            "journal put 4 KiB, k = 1, 64 clients, 2 shards",
            spread.measure,
            single.measure,
            peer_name="1 shard",
            unit="1/s",
            goal=1.4,
        )
        report.state(
            "processor time of a service for each of these puts",
            statistics.median(spread.costs) * 1e6,
            statistics.median(single.costs) * 1e6,
            peer_name="1 shard",
            unit="µs",
            goal=0.9,
        )


@contextlib.contextmanager
def _sharded(directory: Path) -> Iterator[dict[str, Running]]:
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(ours.sos_servers(directory, [free_port()]))
        command = [*ours.JOURNAL, "create", VOLUME, "--shards", str(SHARDS), "--servers", servers]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        services = {}
        for shard in shards_of(VOLUME, SHARDS):
            serve = [*ours.JOURNAL, "serve", "--volume", VOLUME, "--shards", str(SHARDS), "--shard", str(shard.index)]
            serve += ["--servers", servers, "--dir", str(directory / "journal"), "--listen", "127.0.0.1:0"]
            services[shard.name] = stack.enter_context(ours.serving(f"service{shard.index}", serve, directory))
        yield services
