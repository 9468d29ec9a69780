"""The Spark source of connectors against Spark's own `rate-micro-batch`, which makes its rows."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from tests.benchmarks.asked_spark import asked_spark
from tests.connectors.test_listen_process import Process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.benchmarks.comparison import Report

PAYLOAD_BYTES: Final = 100
BATCHES: Final = 6
"""Of each run, after two that do not count."""
WARM_UP_BATCHES: Final = 2
WARM_UP_RUNS: Final = 4
"""Of small batches, before anything counts: the JVM compiles what it runs often, and a batch takes a third then."""
SMALL_ROWS: Final = 2000
ADDED_MS_MAX: Final = 25
"""What a small batch may take longer than one of rows that are made."""
PEER: Final = "Spark's rate-micro-batch"


def source(report: Report, directory: Path, seconds: float) -> None:
    """Rows a second into a sink that drops them, and how long a small batch takes. `seconds`: about that of a batch."""
    rows = max(SMALL_ROWS, int(400_000 * seconds))
    with ExitStack() as stack:
        listener = stack.enter_context(listening(directory))
        _fill(listener, directory, rows * (BATCHES + WARM_UP_BATCHES))
        files = listener.addresses["files"]
        ask = stack.enter_context(asked_spark("source_query", directory, files, str(directory)))

        def asked(own: bool, of_rows: int) -> float:  # noqa: FBT001
            """The median of its batches' addBatch, in milliseconds."""
            return float(ask({"own": own, "rows": of_rows, "batches": BATCHES, "warm_up": WARM_UP_BATCHES}))

        for own in (True, False):
            asked(own, rows)
        for _ in range(WARM_UP_RUNS):
            for own in (True, False):
                asked(own, SMALL_ROWS)
        report.compare(
            f"Spark source, rows of {PAYLOAD_BYTES} B",
            lambda: 1000 * rows / asked(True, rows),
            lambda: 1000 * rows / asked(False, rows),
            peer_name=PEER,
            unit="rows/s",
            goal=0.3,
        )
        report.compare(
            f"addBatch of {SMALL_ROWS:,} rows",
            lambda: asked(True, SMALL_ROWS),
            lambda: asked(False, SMALL_ROWS) + ADDED_MS_MAX,
            peer_name=f"{PEER} and {ADDED_MS_MAX} ms",
            unit="ms",
            goal=1.0,
            smaller_is_better=True,
        )


@contextmanager
def listening(directory: Path) -> Iterator[Process]:
    command = ["connectors", "listen", "--volume", "bench", "--embedded", "--dir", str(directory / "ingest")]
    listener = Process("listener", directory, *command, "--listen", "127.0.0.1:0")
    listener.start()
    try:
        yield listener
    finally:
        listener.end()


def _fill(listener: Process, directory: Path, rows: int) -> None:
    lines = directory / "lines"
    with lines.open("w") as stream:
        for number in range(rows):
            stream.write(f"{number:0{PAYLOAD_BYTES}d}\n")
    command = [sys.executable, "-m", "connectors", "send", str(lines), "--to", listener.addresses["ready"]]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines.unlink()
