"""Micro-batches of Spark into a connector sink, by way of a relay: what two-phase commit adds to a batch."""

from __future__ import annotations

import itertools
import statistics
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.benchmarks import ours
from tests.benchmarks.spark_query import SOS_MANAGER, Run
from tests.benchmarks.spark_suite import BATCHES_MIN, WARM_UP_RUNS_PER_SECOND, warm_spark

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.comparison import Report

ROWS: Final = 2_000
ADDED_MS_MAX: Final = 40.0
"""Three durable steps, one after the other: rows and vote at the sink, the decision, the commit in the sink's log."""


def two_phases(report: Report, directory: Path, seconds: float) -> None:
    """One row: batches of 2,000 rows of 100 bytes to one sink, less the same batches to none, in one JVM."""
    numbers = itertools.count()
    batches = max(BATCHES_MIN, int(10 * seconds))
    connectors = [sys.executable, "-m", "connectors"]
    with ours.new_volume(directory, members=1) as service, warm_spark(directory, f"127.0.0.1:{service.port}") as timing:
        address = f"127.0.0.1:{service.port}"
        relay_command = [*connectors, "relay", "--listen", "127.0.0.1:0", "--service", address]
        with ours.serving("relay", [*relay_command, "--spool", str(directory / "spool")], directory) as relay:
            none = Run(
                checkpoint="sos://bench/q",
                manager=SOS_MANAGER,
                service=address,
                batches=batches,
                rows=ROWS,
                row_bytes=100,
                relay=f"127.0.0.1:{relay.port}",
            )

            def added_ms() -> float:
                name = f"sink{next(numbers)}"  # a sink has the rows of one query
                files = ["--out", str(directory / f"{name}.out"), "--log", str(directory / f"{name}.jsonl")]
                with ours.serving(name, [*connectors, "receive", "--listen", "127.0.0.1:0", *files], directory) as sink:
                    with_sink = timing(replace(none, connect=f"127.0.0.1:{sink.port}"))
                return with_sink.batch_ms - timing(none).batch_ms

            for _ in range(int(seconds * WARM_UP_RUNS_PER_SECOND / 2)):
                added_ms()  # before it counts: the JVM compiles what it runs often
            added = [added_ms() for _ in range(report.rounds)]
    report.state(
        "two-phase commit of a Spark micro-batch of 2,000 rows to one sink",
        max(statistics.median(added), 0.1),
        ADDED_MS_MAX,
        peer_name="the most that it may add to a batch to no sink",
        unit="ms",
        goal=1.0,
    )
