"""Big state from end to end: made, changed, and restarted on a new machine, on SOS and as people do without it.

Without it means Spark's default manager on the local disk, and, so that another machine can go on, copying that to an
S3 server and back: a new machine downloads all of the checkpoint first. One SOS server stands against one S3 server.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import statistics
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks import ours
from tests.benchmarks.asked_spark import asked_spark
from tests.benchmarks.big_state_query import ROW_BYTES, Batch, Life
from tests.benchmarks.comparison import timed
from tests.benchmarks.object_store import copy_in, copy_out, seaweedfs, stored_names
from tests.benchmarks.processes import processor_seconds
from tests.benchmarks.spark_query import DEFAULT_MANAGER, SOS_MANAGER
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.benchmarks.comparison import Report
    from tests.benchmarks.processes import Running

STATE_BYTES_PER_SECOND: Final = (1 << 30) / 1.5
"""Of what `--seconds` says: 1 GiB as others measure, 10 GiB with `--seconds 15`."""
STATE_BYTES_WHEN_QUICK: Final = 32 << 20
PARTITIONS: Final = 200
PARTITIONS_WHEN_QUICK: Final = 8
BATCHES: Final = 3
"""That make the state: RocksDB merges four files of a partition into one, which would write everything again."""
CHANGES: Final = 13
"""Batches that change the state: RocksDB's provider makes a snapshot after ten."""
CHANGED_PART: Final = 500
RESTARTS_MAX: Final = 3
DEFAULT_ON_DISK: Final = "Spark's default manager, local disk"
DOWNLOAD_FIRST: Final = "download of all of it from S3 (SeaweedFS) first, then Spark's default manager"


@dataclass(slots=True)
class Source:
    """Files of ranges, as a query reads them; every number comes once."""

    directory: Path
    next_number: int = 0
    files: int = 0

    def add(self, rows: int) -> None:
        """One batch: two files, for two processors."""
        for part in (rows // 2, rows - rows // 2):
            content = {"first": self.next_number, "last": self.next_number + part - 1}
            hidden = self.directory / f".{self.files}"
            hidden.write_text(json.dumps(content) + "\n", encoding="utf-8")
            hidden.rename(self.directory / f"{self.files:06}.json")
            self.next_number += part
            self.files += 1


@dataclass(slots=True, kw_only=True)
class Side:
    """One of the two: its query, and what each step of its restarts took."""

    manager: str
    source: Source
    service: str
    steps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def median(self, step: str) -> float:
        return statistics.median(self.steps[step])


@dataclass(slots=True)
class Driver:
    """A Spark that runs, on a machine of its own as far as its disk goes."""

    ask: Callable[[object], Any]
    processor_seconds: float = 0.0
    """Of the JVM, and of the processes that it started, until its last answer."""

    def live(self, side: Side, checkpoint: str, *, changelog: bool) -> list[Batch]:
        life = Life(checkpoint=checkpoint, manager=side.manager, source=str(side.source.directory), changelog=changelog)
        answer = self.ask(asdict(life))
        self.processor_seconds = answer["processor_seconds"]
        return [Batch(**one) for one in answer["batches"]]


def big_state(report: Report, directory: Path, seconds: float) -> None:
    """State of 1 GiB for each second and a half; 32 MiB in few partitions when quick, which is not big."""
    quick = seconds < 1.5
    state_bytes = STATE_BYTES_WHEN_QUICK if quick else int(STATE_BYTES_PER_SECOND * seconds)
    BigState(
        report,
        directory,
        rows=state_bytes // ROW_BYTES,
        partitions=PARTITIONS_WHEN_QUICK if quick else PARTITIONS,
    ).measure()


class BigState:
    """One run of the suite."""

    def __init__(self, report: Report, directory: Path, *, rows: int, partitions: int) -> None:
        self._report = report
        self._directory = directory
        self._rows = rows
        self._partitions = partitions
        self._numbers = itertools.count()
        self.what = f"{rows * ROW_BYTES >> 20:,} MiB of state in {partitions} partitions"

    def measure(self) -> None:
        local = self._directory / "theirs"
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(ours.sos_server(self._directory, port=free_port()))
            servers = f"127.0.0.1:{server.port}"
            ours.make_volume(servers)
            with self._service(servers) as service:
                address = f"127.0.0.1:{service.port}"
                mine, theirs = (self._side(manager, address) for manager in (SOS_MANAGER, DEFAULT_MANAGER))
                self._make_and_change(mine, theirs, local)
            store = stack.enter_context(seaweedfs(self._directory / "store"))
            copied_in = timed(lambda: copy_in(store, local))
            names = stored_names(local)
            self._report.state(
                f"{self.what}, safe beyond this machine",
                mine.median("made"),
                theirs.median("made") + copied_in,
                peer_name=f"{DEFAULT_ON_DISK}, then a copy to S3 (SeaweedFS)",
                unit="s",
                goal=None,
            )
            shutil.rmtree(local)
            self._compare_restarts(mine, theirs, server=server, store=store, names=names)

    def _side(self, manager: str, service: str) -> Side:
        source = self._directory / f"source-{manager}"
        source.mkdir()
        return Side(manager=manager, source=Source(source), service=service)

    @contextlib.contextmanager
    def _service(self, servers: str) -> Iterator[Running]:
        """A service on a machine that has not seen the volume."""
        local = self._directory / f"cache{next(self._numbers)}"
        try:
            with ours.service(self._directory, servers, local=local) as service:
                yield service
        finally:
            shutil.rmtree(local, ignore_errors=True)

    @contextlib.contextmanager
    def _driver(self, service: str) -> Iterator[Driver]:
        folder = self._directory / f"disk{next(self._numbers)}"
        folder.mkdir()
        try:
            with asked_spark("big_state_query", self._directory, service, str(folder), str(self._partitions)) as ask:
                yield Driver(ask)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _make_and_change(self, mine: Side, theirs: Side, local: Path) -> None:
        """First one side, then the other: their disks would not hold both twice."""
        for side, checkpoint in ((mine, f"sos://{ours.VOLUME}/q"), (theirs, local.as_uri())):
            with self._driver(side.service) as driver:
                for _ in range(BATCHES):
                    side.source.add(self._rows // BATCHES)
                start = time.perf_counter()
                side.steps["batch"] = [one.seconds for one in driver.live(side, checkpoint, changelog=False)]
                side.steps["made"].append(time.perf_counter() - start)
                for _ in range(1 + CHANGES):
                    side.source.add(self._rows // CHANGED_PART)
                _, *changes = driver.live(side, checkpoint, changelog=True)  # the first loads what is there
            side.steps["change"] = [one.seconds for one in changes if not one.has_snapshot]
            side.steps["snapshot"] = _beside_snapshots(changes)
        for step, name in (
            ("batch", f"Spark micro-batch that makes a {BATCHES}rd of {self.what}, snapshots uploaded"),
            ("change", f"Spark micro-batch that adds 1/{CHANGED_PART} to {self.what}, with changelog"),
            ("snapshot", "the same, with a snapshot of each partition made, and uploaded beside"),
        ):
            self._report.state(
                name, mine.median(step), theirs.median(step), peer_name=DEFAULT_ON_DISK, unit="s", goal=None
            )

    def _compare_restarts(self, mine: Side, theirs: Side, *, server: Running, store: Running, names: list[str]) -> None:
        theirs.source.add(self._rows // CHANGED_PART)  # each of their machines gets the same copy, and this is new
        self._report.compare(
            f"restart on a new machine to the first batch, {self.what}",
            lambda: self._restart(mine, server),
            lambda: self._download_and_restart(theirs, store, names),
            peer_name=DOWNLOAD_FIRST,
            unit="s",
            goal=3.0,
            smaller_is_better=True,
            rounds=min(self._report.rounds, RESTARTS_MAX),
        )
        for step, beside in (
            ("before the query", "download, start of Spark"),
            ("first batch", "the same"),
            ("loading of state, all partitions", "the same"),
            ("replay of changelogs, all partitions", "the same"),
            ("processor time of Spark", "the same"),
            ("processor time of what stores", "SeaweedFS"),
        ):
            self._report.state(
                f"restart, of it: {step}",
                mine.median(step),
                theirs.median(step),
                peer_name=beside if beside != "the same" else "download first",
                unit="s",
                goal=None,
            )

    def _restart(self, side: Side, server: Running) -> float:
        """The service starts there, too, without a cache."""
        side.source.add(self._rows // CHANGED_PART)
        start, used = time.perf_counter(), processor_seconds(server.process.pid)
        with self._service(f"127.0.0.1:{server.port}") as service:
            took = self._first_batch(side, f"127.0.0.1:{service.port}", f"sos://{ours.VOLUME}/q", start)
            used = processor_seconds(server.process.pid) - used + processor_seconds(service.process.pid)
        side.steps["processor time of what stores"].append(used)
        return took

    def _download_and_restart(self, side: Side, store: Running, names: list[str]) -> float:
        downloaded = self._directory / f"downloaded{next(self._numbers)}"
        start, used = time.perf_counter(), processor_seconds(store.process.pid)
        try:
            copy_out(store, names, downloaded)
            took = self._first_batch(side, side.service, downloaded.as_uri(), start)
        finally:
            shutil.rmtree(downloaded, ignore_errors=True)
        side.steps["processor time of what stores"].append(processor_seconds(store.process.pid) - used)
        return took

    def _first_batch(self, side: Side, service: str, checkpoint: str, start: float) -> float:
        """Seconds since `start` when it was done."""
        with self._driver(service) as driver:
            side.steps["before the query"].append(time.perf_counter() - start)
            (batch,) = driver.live(side, checkpoint, changelog=True)
            took = time.perf_counter() - start
        side.steps["first batch"].append(batch.seconds)
        for step, metric in (
            ("loading of state, all partitions", "rocksdbLoadLatencyMs"),
            ("replay of changelogs, all partitions", "rocksdbReplayChangeLogLatencyMs"),
        ):
            side.steps[step].append(batch.counted.get(metric, 0) / 1000)
        side.steps["processor time of Spark"].append(driver.processor_seconds)
        return took


def _beside_snapshots(batches: list[Batch]) -> list[float]:
    """Seconds of those in which snapshots were made, and of each next one, beside which they are uploaded."""
    made = [number for number, one in enumerate(batches) if one.has_snapshot]
    return [one.seconds for number in made for one in batches[number : number + 2]]
