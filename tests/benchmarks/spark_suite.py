"""Micro-batches of Spark: SOS against Spark's own managers on the local disk, which sync nothing at all."""

from __future__ import annotations

import contextlib
import itertools
import statistics
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from tests.benchmarks import ours
from tests.benchmarks.asked_spark import asked_spark
from tests.benchmarks.spark_query import DEFAULT_MANAGER, FILE_SYSTEM_MANAGER, SOS_MANAGER, Run, Timing
from tests.spark_integration.call_recorder import recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.benchmarks.comparison import Report

BATCHES_MIN: Final = 12
WARM_UP_RUNS_PER_SECOND: Final = 16
"""Before anything counts: a batch takes 23 ms after the first hundred, 18 after five hundred, 13 after a thousand."""
PURGE_BEGINS: Final = 105
"""Spark keeps the last 100 batches; from then on each batch deletes the files of one."""
CALLS_MAX: Final = 6
JOINED_PARTITIONS: Final = 200
JOINED_PARTITIONS_WHEN_QUICK: Final = 4
JOINED_BATCHES: Final = 2
JOINED_WARM_UP: Final = 1
COUNTED_BATCHES: Final = 1
JOINED_ROUNDS_MAX: Final = 3
"""A batch of the peer takes half a minute on a busy machine."""
_numbers = itertools.count()


def micro_batches(report: Report, directory: Path, seconds: float) -> None:
    """Four pairs in one JVM, and the calls of a batch.

    `seconds` says how many batches count, 10 for each and at least 12, and how long the JVM warms up.
    """
    batches = max(BATCHES_MIN, int(10 * seconds))
    for part in ("one", "three"):
        (directory / part).mkdir()
    with (
        ours.new_volume(directory / "one", members=1) as one,
        ours.new_volume(directory / "three", members=3) as three,
        warm_spark(directory, f"127.0.0.1:{one.port}") as timing_of,
    ):
        rows = [
            ("stateless, 1 server", one, False, DEFAULT_MANAGER, 4.0),
            ("stateless, 3 servers, k = 2", three, False, DEFAULT_MANAGER, 3.0),
            ("stateless, 1 server", one, False, FILE_SYSTEM_MANAGER, 1.5),
            ("RocksDB with changelog, 3 servers, k = 2", three, True, DEFAULT_MANAGER, 2.0),
        ]
        for number, (name, service, stateful, manager, goal) in enumerate(rows):
            mine = Run(
                checkpoint="sos://bench/q",
                manager=SOS_MANAGER,
                service=f"127.0.0.1:{service.port}",
                stateful=stateful,
                batches=batches,
            )
            theirs = replace(mine, checkpoint=f"file://{directory}/q", manager=manager, service="")
            for run in (mine, theirs) * (1 if number else int(seconds * WARM_UP_RUNS_PER_SECOND)):
                timing_of(run)  # before it counts: the JVM compiles what it runs often
            _compare(report, name, mine, theirs, timing_of, goal=goal)
        _count_calls(report, f"127.0.0.1:{one.port}", timing_of)


def many_state_files(report: Report, directory: Path, seconds: float) -> None:
    """A join of two sources over 200 partitions: each batch writes a file for each of its 800 stores.

    Each run begins with a batch that does not count; nothing else warms the JVM up.
    """
    with ours.new_volume(directory, members=1) as one, warm_spark(directory, f"127.0.0.1:{one.port}") as timing_of:
        mine = Run(
            checkpoint="sos://bench/q",
            manager=SOS_MANAGER,
            service=f"127.0.0.1:{one.port}",
            joined_partitions=JOINED_PARTITIONS if seconds >= 1.5 else JOINED_PARTITIONS_WHEN_QUICK,
            batches=JOINED_BATCHES,
            warm_up=JOINED_WARM_UP,
        )
        theirs = replace(mine, checkpoint=f"file://{directory}/q", manager=DEFAULT_MANAGER, service="")
        files = 4 * mine.joined_partitions
        rounds = min(report.rounds, JOINED_ROUNDS_MAX)
        _compare(report, f"join, {files} state files, 1 server", mine, theirs, timing_of, goal=4.0, rounds=rounds)
        _count_calls_of_state(report, mine, files, timing_of)


def _count_calls_of_state(report: Report, run: Run, files: int, timing_of: Callable[[Run], Timing]) -> None:
    """Of batches long before Spark deletes old ones."""
    with recorded(run.service) as recorder:
        timing_of(replace(run, service=recorder.address))
        calls = recorder.between_batches(recorder.calls[0].path, run.warm_up, run.warm_up + COUNTED_BATCHES)
    report.state(
        "calls to the service per state file of a join",
        len(calls) / COUNTED_BATCHES / files,
        1.0,
        peer_name="a PUT for each",
        unit="calls",
        goal=None,
    )


def _compare(
    report: Report,
    name: str,
    mine: Run,
    theirs: Run,
    timing_of: Callable[[Run], Timing],
    *,
    goal: float,
    rounds: int | None = None,
) -> None:
    """A line for all of a batch, and one for the part of it that the driver waits for the checkpoint."""
    checkpoints: dict[str, list[float]] = {mine.manager: [], theirs.manager: []}

    def batch_ms(run: Run) -> float:
        timing = timing_of(run)
        checkpoints[run.manager].append(timing.checkpoint_ms)
        return timing.batch_ms

    peer_name = f"Spark's {theirs.manager} manager, local disk"
    report.compare(
        f"Spark micro-batch, {name}",
        lambda: batch_ms(mine),
        lambda: batch_ms(theirs),
        peer_name=peer_name,
        unit="ms",
        goal=goal,
        smaller_is_better=True,
        rounds=rounds,
    )
    ours_ms, theirs_ms = (statistics.median(checkpoints[run.manager]) for run in (mine, theirs))
    report.state(
        f"checkpoint of a Spark micro-batch, {name}", ours_ms, theirs_ms, peer_name=peer_name, unit="ms", goal=None
    )


def _count_calls(report: Report, service: str, timing_of: Callable[[Run], Timing]) -> None:
    """Once Spark has begun to purge old batches, which is when a batch costs the most calls."""
    with recorded(service) as recorder:
        timing_of(
            Run(checkpoint="sos://bench/q", manager=SOS_MANAGER, service=recorder.address, batches=PURGE_BEGINS + 20)
        )
        calls = recorder.between_batches(recorder.calls[0].path, PURGE_BEGINS, PURGE_BEGINS + 20)
    report.state(
        "calls to the service per stateless micro-batch",
        len(calls) / 20,
        CALLS_MAX,
        peer_name="the most there may be",
        unit="calls",
        goal=1.0,
    )


@contextlib.contextmanager
def warm_spark(directory: Path, service: str) -> Iterator[Callable[[Run], Timing]]:
    """A Spark that runs query after query, each with a checkpoint of its own."""
    with asked_spark("spark_query", directory, service) as ask:

        def timing_of(run: Run) -> Timing:
            return Timing(**ask(asdict(replace(run, checkpoint=f"{run.checkpoint}{next(_numbers)}"))))

        yield timing_of
