"""docs/scale.md, from what was measured: `python -m tests.benchmarks.scale` fits the model and writes its tables.

`--check` says whether it would change anything.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.benchmarks.charts import DOCS, FIGURES, between_markers, table
from tests.benchmarks.comparison import Result, figure, read_results
from tests.benchmarks.cost_model import (
    Coefficients,
    Cost,
    Workload,
    cost,
    fitted,
    put_seconds,
    restart_seconds,
)
from tests.benchmarks.curves import Chart, read_bytes, read_charts
from tests.benchmarks.profiles import Profile, read_profiles

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENT: Final = DOCS / "scale.md"
WRITTEN_BY: Final = "tests.benchmarks.scale"
PUT_BYTES_MAX: Final = 1 << 20
"""Larger files are streamed, which the chart measures with one client's processor as its limit."""
RESTART: Final = re.compile(r"restart on a new machine to the first batch, (?P<mib>[\d,]+) MiB of state .*")
READING: Final = "restart, of it: processor time of what stores"
CALLS: Final = "calls to the service per state file of a join"
PIPELINED: Final = "durable 4 KiB appends, 1 connection, 64 in flight"
STREAM: Final = "durable streaming append, 64 MiB"
RANGED: Final = "ranged read, 1 MiB"
PUTS: Final = "journal put 4 KiB, k = 1, 64 clients"
PUTS_ON_THREE: Final = "journal put 4 KiB, 3 servers, k = 2, 64 clients"


def aggregation(name: str, *, partitions: int, batches_per_minute: float, file_bytes: int, cores: int) -> Workload:
    """One store in each partition."""
    return Workload(
        name=name,
        partitions=partitions,
        stores=1,
        batches_per_minute=batches_per_minute,
        file_bytes=file_bytes,
        cores=cores,
    )


def join(aggregated: Workload, name: str, *, shards: int = 1) -> Workload:
    """The same with four stores in each partition, as a join has on Spark's default provider."""
    return replace(aggregated, name=name, stores=4, shards=shards)


ONE_QUERY: Final = aggregation("an aggregation", partitions=200, batches_per_minute=6, file_bytes=16_384, cores=16)
A_SECOND: Final = aggregation("", partitions=200, batches_per_minute=60, file_bytes=4096, cores=16)
HUNDRED: Final = aggregation("", partitions=800, batches_per_minute=12, file_bytes=16_384, cores=400)
THOUSAND: Final = aggregation(
    "1,000 executors, an aggregation", partitions=4000, batches_per_minute=6, file_bytes=16_384, cores=4000
)
WORKLOADS: Final = (
    ONE_QUERY,
    join(ONE_QUERY, "a join"),
    join(A_SECOND, "a join, each second"),
    join(HUNDRED, "100 executors, a join"),
    THOUSAND,
    join(THOUSAND, "1,000 executors, a join"),
    join(THOUSAND, "the same on 4 shards", shards=4),
    join(replace(THOUSAND, batches_per_minute=60), "the same each second, on 16 shards", shards=16),
)
STATES: Final = ((10 << 30, 1), (100 << 30, 1), (100 << 30, 4), (1 << 40, 4), (1 << 40, 16))
"""Bytes of a query's state, and shards."""


class Measured:
    """The figures beside docs/performance.md, by name. LookupError: that was not measured."""

    def __init__(self, figures: Path) -> None:
        self._results = [*read_results(figures / "bench.json"), *read_results(figures / "bench-beside.json")]
        self._charts = {chart.key: chart for chart in read_charts(figures / "growth.json")}
        self._profiles = {profile.path: profile for profile in read_profiles(figures / "profiles.json")}

    def result(self, name: str) -> Result:
        found = [result for result in self._results if result.name == name]
        if not found:
            raise LookupError(f"{name!r} was not measured")
        return found[0]

    def read_bytes_per_second(self) -> float:
        """For each core of a service and its server together, from a restart: others on the machine do not count."""
        sizes = [found["mib"] for result in self._results if (found := RESTART.fullmatch(result.name))]
        if not sizes:
            raise LookupError("no restart was measured")
        return float(sizes[0].replace(",", "")) * (1 << 20) / self.result(READING).ours

    def points(self, key: str, curve: str) -> list[tuple[float, float]]:
        chart: Chart = self._charts[key]
        return list(next(one.points for one in chart.curves if one.name == curve))

    def profile(self, path: str) -> Profile:
        return self._profiles[path]


def coefficients(measured: Measured) -> Coefficients:
    sizes = [(x, 1 / y) for x, y in measured.points("file-size", "16 clients") if x <= PUT_BYTES_MAX]
    return Coefficients(
        put_by_bytes=fitted(sizes),
        put_by_members=fitted([(x, 1 / y) for x, y in measured.points("members", "64 clients")]),
        alone_by_members=fitted([(x, 1 / y) for x, y in measured.points("members", "1 client")]),
        memory_by_files=fitted([(x, y * (1 << 20)) for x, y in measured.points("files-memory", "service")]),
        append_seconds=measured.profile("pipelined").microseconds / 1e6,
        read_bytes_per_second=measured.read_bytes_per_second(),
        calls_per_file=measured.result(CALLS).ours,
    )


def carried_table(measured: Measured, found: Coefficients) -> str:
    """One of each, at its limit."""
    puts = measured.points("members", "64 clients")
    server = [
        ["durable appends of 4 KiB, 64 clients", per_second(measured.points("clients", "SOS"), 64)],
        ["the same, many in flight", f"{figure(measured.result(PIPELINED).ours)}/s"],
        ["bytes appended, as a stream", f"{figure(measured.result(STREAM).ours)} MB/s"],
        ["bytes read", f"{figure(measured.result(RANGED).ours)} MB/s"],
    ]
    service = [[f"files of 4 KiB, members: {members:g}", per_second(puts, members)] for members, _ in puts]
    for size in (16_384, 262_144, PUT_BYTES_MAX):
        each = found.put_by_bytes.at(size)
        told = f"{figure(1 / each)}/s, {figure(size / each / 1e6)} MB/s"
        service.append([f"files of {read_bytes(size)}, one member (fitted)", told])
    read = f"{figure(found.read_bytes_per_second / 1e6)} MB/s"
    service.append(["bytes read that it has no copy of, by one core of its own and its server's", read])
    rows = [["a server", *row] for row in server] + [["a service, or a shard", *row] for row in service]
    return table(["what", "carries", "how much"], rows, right=frozenset({2}))


def per_second(points: list[tuple[float, float]], place: float) -> str:
    return f"{figure(dict(points)[place])}/s"


def coefficients_table(found: Coefficients) -> str:
    each, members, alone = found.put_by_bytes, found.put_by_members, found.alone_by_members
    rows = [
        ["a put, of a service's core", f"{each.fixed * 1e6:.1f} µs + {each.per_unit * 1e9:.2f} ns for each byte"],
        ["each member beyond the first", f"{members.per_unit * 1e6:.1f} µs for each put"],
        ["a put that is alone", f"{alone.fixed * 1e3:.2f} ms + {alone.per_unit * 1e3:.2f} ms for each member"],
        ["an append, of a server's core", f"{found.append_seconds * 1e6:.1f} µs for 4 KiB"],
        ["requests for each state file of a batch", f"{found.calls_per_file:.2f}"],
        ["memory of a service", f"{found.memory_by_files.per_unit:.0f} B for each file"],
        ["state that is read, through a service", f"{found.read_bytes_per_second / 1e6:.0f} MB/s"],
    ]
    return table(["what", "fitted"], rows)


def comparison_table(measured: Measured, found: Coefficients) -> str:
    """The model beside what it was not fitted to."""
    rows = []
    for name, members in ((PUTS, 1), (PUTS_ON_THREE, 3)):
        told, seen = 1 / put_seconds(4096, members, found), measured.result(name).ours
        rows.append([name, figure(told), figure(seen), f"{told / seen:.2f}"])
    return table(["what", "the model", "measured", "ratio"], rows, right=frozenset({1, 2, 3}))


def workloads_table(found: Coefficients) -> str:
    heading = ["what", "P × S × B a minute", "files of", "cores of services", "shards needed", "cores of each server"]
    heading += ["to each disk", "network", "syncs at most", "files in a batch take", "files", "memory of each service"]
    rows = [workload_row(load, cost(load, found)) for load in WORKLOADS]
    return table(heading, rows, right=frozenset(range(1, len(heading))))


def workload_row(load: Workload, needs: Cost) -> list[str]:
    return [
        load.name,
        f"{load.partitions:,} × {load.stores} × {load.batches_per_minute:g}",
        read_bytes(load.file_bytes),
        f"{needs.service_cores:.2f}",
        str(needs.shards_needed),
        f"{needs.server_cores:.2f}",
        f"{figure(needs.stored_bytes_per_second / 1e6)} MB/s",
        f"{figure(needs.network_bytes_per_second / 1e6)} MB/s",
        f"{figure(needs.syncs_per_second_max)}/s",
        f"{figure(needs.write_seconds)} s",
        f"{needs.files:,}",
        f"{figure(needs.memory_bytes / (1 << 20))} MiB",
    ]


def restarts_table(found: Coefficients) -> str:
    rows = [
        [read_bytes(state), str(shards), f"{figure(restart_seconds(state, shards, found))} s"]
        for state, shards in STATES
    ]
    return table(["state", "shards", "until all of it has come"], rows, right=frozenset({1, 2}))


def rendered(figures: Path, text: str) -> str:
    """The document, with what these figures say between its markers."""
    measured = Measured(figures)
    found = coefficients(measured)
    sections = {
        "carried": carried_table(measured, found),
        "coefficients": coefficients_table(found),
        "beside measurements": comparison_table(measured, found),
        "workloads": workloads_table(found),
        "restarts": restarts_table(found),
    }
    for name, content in sections.items():
        text = between_markers(text, name, content, written_by=WRITTEN_BY)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if anything would change")
    options = parser.parse_args()
    before = DOCUMENT.read_text(encoding="utf-8")
    text = rendered(FIGURES, before)
    if options.check:
        print("as the figures say" if text == before else f"would change: {DOCUMENT}")
        return int(text != before)
    DOCUMENT.write_text(text, encoding="utf-8")
    print(DOCUMENT.relative_to(DOCS.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
