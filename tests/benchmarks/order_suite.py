"""The paper's pipeline: the ordered sink against other ways to the same order, and against none. Writes
build/order.json."""

from __future__ import annotations

import contextlib
import heapq
import statistics
import time
from collections import defaultdict
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from connectors.order.natural_runs import RunCutter
from connectors.order.run_merge import merge_steps
from tests.benchmarks.asked_spark import asked_spark
from tests.benchmarks.curves import Chart, Curve, write_charts
from tests.benchmarks.load_generator import BUILD
from tests.benchmarks.order_query import (
    ONE_TASK,
    ORDER_BY,
    ORDERED,
    SHARES,
    UNORDERED,
    WAYS,
    WINDOW,
    OrderRun,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from connectors.order.natural_runs import Sequences
    from tests.benchmarks.comparison import Report

    Measure = Callable[[OrderRun], dict[str, Any]]

PATH: Final = BUILD / "order.json"
THROUGHPUT_GOALS: Final = {WINDOW: 1.4, ORDER_BY: 1.3, ONE_TASK: 1.0, UNORDERED: 0.9}
COSTLY_CYCLES: Final = 200
COSTLY: Final = {
    "the same with costly operators": "cycles",
    "the same with a costly operator after the rebalance": "last_cycles",
}
COSTLY_GOAL: Final = 1.8
MEAN_GOALS: Final = {WINDOW: 1 / 0.64}
P99_GOALS: Final = {WINDOW: 1 / 0.59, ONE_TASK: 1 / 0.8}
ROWS_PER_BATCH: Final = 200_000
LATENCY_SHARE: Final = 0.5
"""Of the slowest way's throughput: the rate at which latency is compared."""
SECONDS_EACH: Final = 8.0
PARALLELISM: Final = (1, 2, 4, 16, 64)
MERGED_RUNS: Final = (1, 4, 16, 64, 256, 1024, 4096)
MERGED_ROWS: Final = 2_000_000
MERGE_ROUNDS: Final = 3
GROWTH_SHARE: Final = 1 / 3
"""Of the seconds of another measurement: there are many points."""
GROWING_WAYS: Final = (ORDERED, ORDER_BY, ONE_TASK, UNORDERED)
FULL_SECONDS: Final = 1.0


def order(report: Report, directory: Path, seconds: float) -> None:
    """`seconds` scales everything: at 1.5, 12 seconds of each way, at each of the rounds."""
    full = seconds >= FULL_SECONDS
    rows = ROWS_PER_BATCH if full else int(ROWS_PER_BATCH * seconds / 2)
    with pipelines(directory) as measure:

        def throughput(way: str, *, share: float = 1.0, **more: int) -> float:
            run = OrderRun(way=way, rows_per_batch=rows, seconds=SECONDS_EACH * seconds * share, **more)
            return float(measure(run)["rows_per_second"])

        for way in WAYS:
            throughput(way)  # before anything counts: the JVM compiles what it runs often
        for way, goal, what, more in _against():
            report.compare(
                f"{what}, against {way}",
                partial(throughput, ORDERED, **more),
                partial(throughput, way, **more),
                peer_name=way,
                unit="rows/s",
                goal=goal,
            )
        charts = [_latencies(report, measure, seconds), _merges(MERGED_ROWS if full else MERGED_ROWS // 100)]
        if full:
            charts.append(_growth(throughput, report.rounds))
    if full:
        write_charts(PATH, charts)


def _against() -> Iterator[tuple[str, float, str, dict[str, int]]]:
    """Each way to compare the ordered sink with: its goal, of what, and how the run differs from the usual one."""
    for way, goal in THROUGHPUT_GOALS.items():
        yield way, goal, "the paper's pipeline in order", {}
    for what, cycles in COSTLY.items():
        yield ORDER_BY, COSTLY_GOAL, what, {cycles: COSTLY_CYCLES}


def _latencies(report: Report, measure: Measure, seconds: float) -> Chart:
    slowest = min(result.peer for result in report.results if result.suite == report.suite)
    rate = int(slowest * LATENCY_SHARE)
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(report.rounds):
        for way in WAYS:
            found[way].append(measure(OrderRun(way=way, rows_per_second=rate, seconds=SECONDS_EACH * seconds)))

    def median(way: str, read: Callable[[dict[str, Any]], float]) -> float:
        return statistics.median(read(one) for one in found[way])

    for what, goals, read in (
        ("mean", MEAN_GOALS, lambda one: float(one["mean_ms"])),
        ("P99", P99_GOALS, lambda one: float(one["latency_ms"][-1])),
    ):
        for way in WAYS[1:]:
            report.state(
                f"{what} latency of the paper's pipeline at {rate:,} rows/s, against {way}",
                median(ORDERED, read),
                median(way, read),
                peer_name=way,
                unit="ms",
                goal=goals.get(way),
            )
    shown = (ORDERED, WINDOW, ORDER_BY, UNORDERED)
    return Chart(
        key="order-latency",
        title="Latency of the paper's pipeline, from the source to the sink",
        x="per cent of the rows that took no longer",
        distribution=True,
        y="ms",
        curves=tuple(
            Curve(
                name=way,
                points=tuple(
                    (float(share), median(way, lambda one, at=at: float(one["latency_ms"][at])))  # type: ignore[misc]
                    for at, share in enumerate(SHARES)
                ),
            )
            for way in shown
        ),
        note=f"All at {rate:,} rows a second, half of what the slowest can do. As the paper's Figure 7.",
    )


def _growth(throughput: Callable[..., float], rounds: int) -> Chart:
    return Chart(
        key="order-parallelism",
        title="Throughput of the paper's pipeline by tasks after the rebalance",
        x="tasks",
        y="rows/s",
        curves=_medians(
            {
                way: lambda tasks, way=way: throughput(way, share=GROWTH_SHARE, parallelism=tasks)  # type: ignore[misc]
                for way in GROWING_WAYS
            },
            PARALLELISM,
            rounds,
        ),
        note="On two processors: more tasks are more runs to merge, not more work at once.",
    )


def _medians(measures: dict[str, Callable[[int], float]], points: Iterable[int], rounds: int) -> tuple[Curve, ...]:
    """Of rounds that visit all points in turn, so that a slow minute hits all of them."""
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for _ in range(rounds):
        for point in points:
            for name, measure in measures.items():
                found[name, point].append(measure(point))
    return tuple(
        Curve(name=name, points=tuple((float(point), statistics.median(found[name, point])) for point in points))
        for name in measures
    )


def _merges(rows: int) -> Chart:
    """The merge alone, of rows dealt out at random to so many runs; and the standard library's."""

    def ours(runs: int) -> float:
        parts = _dealt_out(runs, rows)
        cutter = RunCutter[int]()
        start = time.perf_counter()
        for number, part in enumerate(parts):
            cutter.add(part, number)
        count = 0
        for step in merge_steps(cutter.runs(), lambda place, first, end: parts[place][first:end]):
            count += sum(piece.stop - piece.start for piece in step.pieces)
        assert count == rows
        return count / (time.perf_counter() - start)

    def theirs(runs: int) -> float:
        parts = [part.tolist() for part in _dealt_out(runs, rows // 10)]
        start = time.perf_counter()
        count = sum(1 for _ in heapq.merge(*parts))
        return count / (time.perf_counter() - start)

    return Chart(
        key="order-runs",
        title="Merging by sequence, by the number of runs",
        x="runs that overlap",
        y="rows/s",
        curves=_medians({"natural runs": ours, "heapq.merge": theirs}, MERGED_RUNS, MERGE_ROUNDS),
        note=f"{rows:,} rows, cutting included; sequences only, as the merge does not see rows.",
    )


def _dealt_out(runs: int, rows: int) -> list[Sequences]:
    owners = np.random.default_rng(7).integers(0, runs, rows)
    by_owner = np.argsort(owners, kind="stable")
    return [part for part in np.split(by_owner, np.searchsorted(owners[by_owner], np.arange(1, runs))) if len(part)]


@contextlib.contextmanager
def pipelines(directory: Path) -> Iterator[Measure]:
    """A Spark that runs one pipeline after the other."""
    with asked_spark("order_query", directory) as ask:
        yield lambda run: ask(asdict(run))
