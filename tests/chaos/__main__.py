"""python -m tests.chaos --minutes 15 --seed 1: a crash test of everything, and its report."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import crash_test


def main() -> None:
    """Exits with 1, and keeps everything, if anything was found; with 130 if somebody has ended it."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Kill everything around a query.")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--events", type=int, default=100_000, help="stop after so many")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--report", type=Path, help="write the report there, too")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="sos-chaos-"))
    report = crash_test(
        folder / "stage",
        seed=options.seed,
        seconds=options.minutes * 60,
        events_max=options.events,
        say=lambda line: print(line, flush=True),
    )
    print(report.text())
    if options.report is not None:
        options.report.write_text(report.text())
    if report.findings:
        print(f"what is left of it: {folder}")
        sys.exit(1)
    shutil.rmtree(folder)
    if report.interrupted:
        sys.exit(130)


if __name__ == "__main__":
    main()
