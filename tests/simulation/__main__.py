"""`python -m tests.simulation`: run seeds, and print the command that shows a failing one again."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from typing import TYPE_CHECKING

from tests.simulation.planted_bugs import DOCUMENT
from tests.simulation.runner import HALVES, HASH_SEED, command_for, simulate_many
from tests.simulation.soak_report import with_run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.report import RunReport
    from tests.simulation.runner import Summary

SHOWN_COUNTS_MAX = 60


def main() -> int:
    options = _options()
    seeds: Iterable[int]
    if options.seeds is not None:
        first, _, last = options.seeds.partition("..")
        seeds = range(int(first), int(last or first) + 1)
    else:
        seeds = itertools.count(int(time.time()) * 1000)
    if options.trace:
        if os.environ.get("PYTHONHASHSEED") != HASH_SEED:  # a process cannot change how it hashes
            command = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
            os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": HASH_SEED})
        return _show_traces(options.half, seeds)
    halves = [options.half] if options.half else sorted(HALVES)
    failed = 0
    for half in halves:
        minutes = options.minutes / len(halves) if options.minutes else None
        summary = _simulate(half, seeds, minutes, options.workers)
        failed += len(summary.violations)
        if options.write:
            DOCUMENT.write_text(with_run(DOCUMENT.read_text(encoding="utf-8"), half, summary), encoding="utf-8")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--half", choices=sorted(HALVES), help="what to simulate (all of it, if not given)")
    parser.add_argument("--seeds", metavar="A..B", help="these seeds (new ones without end, if not given)")
    parser.add_argument("--minutes", type=float, help="stop after so long")
    parser.add_argument("--workers", type=int, help="processes (one per core, if not given)")
    parser.add_argument("--trace", action="store_true", help="print everything that happened, in this process")
    parser.add_argument("--write", action="store_true", help="add what was run to the table in docs/testing.md")
    options = parser.parse_args()
    if options.trace and (options.seeds is None or options.half is None):
        parser.error("--trace needs --half and --seeds")
    if options.seeds is None and options.minutes is None:
        parser.error("say which --seeds, or for how many --minutes")
    return options


def _simulate(half: str, seeds: Iterable[int], minutes: float | None, workers: int | None) -> Summary:
    def tell(report: RunReport) -> None:
        if report.violation is not None:
            _print(f"FAILED {command_for(half, report.seed)}  ({report.profile})\n  {report.violation}")

    seconds = minutes * 60 if minutes is not None else None
    summary = simulate_many(half, seeds, seconds=seconds, workers=workers, tell=tell)
    _print(describe(half, summary))
    return summary


def describe(half: str, summary: Summary) -> str:
    """A summary for people."""
    counts = ", ".join(f"{what} {count}" for what, count in summary.counts.most_common(SHOWN_COUNTS_MAX))
    speed = summary.runs / summary.seconds if summary.seconds else 0.0
    return (
        f"{half}: {summary.runs} runs in {summary.seconds:.0f} s ({speed:.1f} a second),"
        f" {len(summary.violations)} with a violation; {counts}"
    )


def _show_traces(half: str, seeds: Iterable[int]) -> int:
    failed = 0
    for seed in seeds:
        report = HALVES[half](seed, keep_trace=True)
        for line in report.trace or ():
            _print(line)
        _print(f"seed {seed} ({report.profile}): {report.violation or 'every promise kept'}")
        failed += report.violation is not None
    return 1 if failed else 0


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
