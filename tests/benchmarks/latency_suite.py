"""From a producer's `send` to the row in a micro-batch, at a steady rate: how long, and where that time goes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from tests.benchmarks import ours
from tests.benchmarks.processes import stop
from tests.benchmarks.source_suite import listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.benchmarks.comparison import Report

MESSAGES_A_SECOND: Final = 1000
SECONDS: Final = 20.0
"""For each second that a measurement of other suites takes."""


def latency(report: Report, directory: Path, seconds: float) -> None:
    """P50 and P99 of all rows, and the medians of the parts of their way. It goes on until there are enough."""
    lasts = SECONDS * seconds
    (directory / "checkpoint").mkdir()
    with (
        ours.new_volume(directory / "checkpoint", members=1) as service,
        listening(directory) as listener,
        (directory / "spark.log").open("w+", encoding="utf-8") as log,
    ):
        module = [sys.executable, "-m", "tests.benchmarks.latency_query"]
        told = [listener.addresses["files"], f"127.0.0.1:{service.port}"]
        query = subprocess.Popen([*module, *told], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            _says(query, "running", directory)
            with _producer(listener.addresses["ready"]):
                time.sleep(lasts)
                _says(query, "enough", directory)
            found = json.loads(_said(query, directory))
        finally:
            stop(query)
    for name in ("p50", "p99"):
        _say(
            report,
            f"send to row in a micro-batch, {MESSAGES_A_SECOND:,} messages a second, {name.upper()}",
            found,
            name,
        )
    for part in list(found)[4:]:
        _say(report, f"of it (median): {part}", found, part)


@contextmanager
def _producer(listener: str) -> Iterator[None]:
    """It sends as long as the block lasts."""
    command = [sys.executable, "-m", "tests.benchmarks.latency_source", listener, str(MESSAGES_A_SECOND)]
    producer = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        yield
        producer.communicate(timeout=600)
        if producer.returncode:
            raise RuntimeError(f"the producer ended with {producer.returncode}")
    finally:
        stop(producer)


def _says(query: subprocess.Popen[str], word: str, directory: Path) -> None:
    assert query.stdout is not None
    if query.stdout.readline() != f"{word}\n":
        _ended(directory)


def _said(query: subprocess.Popen[str], directory: Path) -> str:
    answer, _ = query.communicate(timeout=300)
    if query.returncode:
        _ended(directory)
    return answer


def _ended(directory: Path) -> NoReturn:
    raise RuntimeError(f"Spark ended: {(directory / 'spark.log').read_text()[-3000:]}")


def _say(report: Report, name: str, found: dict[str, float], part: str) -> None:
    """Stated against nothing: there is no goal."""
    report.state(name, max(found[part], 0.1), found["p50"], peer_name="the P50", unit="ms", goal=None)
