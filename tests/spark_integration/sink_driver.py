"""Runs drive_sink in a process of its own: what it is told, and why its queries failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from spark_integration.pipelines.driver_process import QUICK_START

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.spark_integration.drive_sink import SinkSpecification

_SECONDS_MAX: Final = 600
_FIRST_SECOND: Final = 1_700_000_000


def write_inputs(folder: Path, files: Sequence[Sequence[str]]) -> str:
    """A folder of files of lines, each a second younger than the one before: Spark takes the oldest first."""
    folder.mkdir()
    for number, lines in enumerate(files):
        path = folder / f"{number:06d}.txt"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        os.utime(path, (_FIRST_SECOND + number, _FIRST_SECOND + number))
    return str(folder)


def run_sink_driver(
    place: Path, specification: SinkSpecification, environment: dict[str, str] | None = None
) -> dict[str, str | None]:
    """By query: why it failed, if it did."""
    path = place / "specification.json"
    specification.write(path)
    finished = subprocess.run(
        [sys.executable, "-m", "tests.spark_integration.drive_sink", str(path)],
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        env=os.environ | QUICK_START | {"PYSPARK_PYTHON": sys.executable, "TMPDIR": str(place)} | (environment or {}),
        check=False,
    )
    (place / "driver.log").write_text(finished.stderr)
    word, _, rest = finished.stdout.strip().rpartition("\n")[2].partition(" ")
    assert word == "done", finished.stderr[-5000:]
    reasons: dict[str, str | None] = json.loads(rest)
    return reasons
