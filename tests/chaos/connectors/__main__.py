"""python -m tests.chaos.connectors --minutes 60 --seed 1: a crash test from producers to sinks, and its report."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.connectors.run import connector_crash_test


def main() -> None:
    """Exits with 1, and keeps everything, if anything was found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.connectors", description="Kill everything between producers and sinks."
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--events", type=int, default=100_000, help="stop after so many")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--report", type=Path, help="put it into this document, as its last run")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="sos-chaos-"))
    report = connector_crash_test(
        folder / "stage",
        seed=options.seed,
        seconds=options.minutes * 60,
        events_max=options.events,
        say=lambda line: print(line, flush=True),
    )
    print(report.text())
    if options.report is not None:
        document = options.report.read_text() if options.report.exists() else ""
        options.report.write_text(report.in_document(document))
    if report.findings:
        print(f"what is left of it: {folder}")
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
