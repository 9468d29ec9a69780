"""python -m tests.chaos.connectors --minutes 60 --seed 1: a crash test from producers to sinks, and its report.

`--events 1500` instead of `--minutes`: as long as that takes. With both, whatever comes first.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.chaos.connectors.run import connector_crash_test

MINUTES: Final = 5.0


def main() -> None:
    """Exits with 1, and keeps everything, if anything was found; with 130 if somebody has ended it."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.connectors", description="Kill everything between producers and sinks."
    )
    parser.add_argument("--minutes", type=float, help="5, if no number of events is given")
    parser.add_argument("--events", type=int, help="stop after so many")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--report", type=Path, help="put it into this document, as its last run; add it to all")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="sos-chaos-"))
    report = connector_crash_test(
        folder / "stage",
        seed=options.seed,
        seconds=_seconds(options.minutes, options.events),
        **({} if options.events is None else {"events_max": options.events}),
        say=_say,
    )
    print(report.text())
    if options.report is not None:
        document = options.report.read_text() if options.report.exists() else ""
        options.report.write_text(report.in_document(document))
    if report.findings:
        print(f"what is left of it: {folder}")
        sys.exit(1)
    shutil.rmtree(folder)
    if report.interrupted:
        sys.exit(130)


def _say(line: str) -> None:
    """In one piece: many threads speak."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _seconds(minutes: float | None, events: int | None) -> float:
    if minutes is None:
        return MINUTES * 60 if events is None else float("inf")
    return minutes * 60


if __name__ == "__main__":
    main()
