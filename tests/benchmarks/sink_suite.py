"""Micro-batches of Spark into a connector sink, by way of a relay: what two-phase commit adds to a batch."""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import trio

from connectors.relay.decision_log import DecisionLog
from connectors.sink.file_sink import FileSink
from connectors.sink.sink_history import SinkTransaction
from connectors.sink.sink_log import SinkLog
from connectors.sink.sink_rows import SinkRow
from journal.gateway.client.client import open_volume
from journal.volume import PathClaim
from tests.benchmarks import ours
from tests.benchmarks.spark_query import SOS_MANAGER, Run
from tests.benchmarks.spark_suite import BATCHES_MIN, WARM_UP_RUNS_PER_SECOND, warm_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.benchmarks.comparison import Report

ROWS: Final = 2_000
ROW_BYTES: Final = 100
ADDED_MS_MAX: Final = 40.0
"""For three durable steps, one after the other."""
VOTE: Final = "rows, then the vote, are durable at the sink (two syncs)"
DECISION: Final = "the decision is durable on the volume"
COMMIT: Final = "the commit is durable in the sink's log"
STEPS_MIN: Final = 20
STEPS_A_SECOND: Final = 40
_ANY: Final = SinkTransaction(id="steps", first=0, after=0, first_row=0, rows=0)


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
                row_bytes=ROW_BYTES,
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
        steps = durable_steps_ms(address, directory, times=max(STEPS_MIN, int(STEPS_A_SECOND * seconds)))
    report.state(
        "two-phase commit of a Spark micro-batch of 2,000 rows to one sink",
        max(statistics.median(added), 0.1),
        ADDED_MS_MAX,
        peer_name="the most that it may add to a batch to no sink",
        unit="ms",
        goal=1.0,
    )
    for name, times in steps.items():
        report.state(
            f"step of it: {name}",
            statistics.median(times),
            ADDED_MS_MAX,
            peer_name="the most that all of it may add",
            unit="ms",
            goal=None,
        )


def durable_steps_ms(service: str, directory: Path, *, times: int) -> dict[str, list[float]]:
    """The three durable steps alone, each by the code that does it, on the disk and the service of the query above."""
    steps: dict[str, list[float]] = {VOTE: [], DECISION: [], COMMIT: []}
    trio.run(_take_steps, service, directory, times, steps)
    return steps


async def _take_steps(service: str, directory: Path, times: int, steps: dict[str, list[float]]) -> None:
    log = SinkLog(directory / "steps.jsonl")
    sink = FileSink(directory / "steps.out", log.history)
    rows = [SinkRow(0, b"", b"r" * ROW_BYTES)] * ROWS
    async with open_volume([service], ours.VOLUME) as volume:
        decisions = DecisionLog(
            volume,
            checkpoint="steps",
            query="steps",
            place="steps",
            claim=PathClaim(start_time=1, application="bench"),
            wall_ms=lambda: int(time.time() * 1000),
        )
        await decisions.open(sinks=["127.0.0.1:1"], relay="bench")
        for batch in range(times):
            name, first = f"steps:{batch}:1.{batch}", log.history.end
            after = first + ROWS * ROW_BYTES
            sink.receive(rows)
            with _timed(steps[VOTE]):
                assert sink.prepare(_ANY)
                log.write("prepared", transaction=name, vote=True, first=first, after=after, rows=ROWS)
            began = time.perf_counter()
            await decisions.commit(transaction=name, batch=batch, ends=(after,), rows=ROWS)
            steps[DECISION].append(1000 * (time.perf_counter() - began))
            with _timed(steps[COMMIT]):
                log.write("committed", transaction=name)
    sink.close()
    log.close()


@contextmanager
def _timed(times: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    times.append(1000 * (time.perf_counter() - began))
